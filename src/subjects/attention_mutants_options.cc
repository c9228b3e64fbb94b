// Scales, windows, softcaps, lengths, biases and heads that are read wrongly.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "subjects/attention_mutants.h"
#include "subjects/guarded.h"
#include "subjects/rounded.h"

namespace headproof {
namespace {

/// The scale, where the caller gave none, is `scale(row)`.
template <class Scale>
Steps::Step scaled_by(Scale scale) {
  return [scale](Row& row) {
    plain::place(row);
    if (!row.problem.scale) row.scale = static_cast<float>(scale(row));
  };
}

/// The place of row `i` with `change(row)`.
template <class Change>
Steps::Step placed(Change change) {
  return [change](Row& row) {
    plain::place(row);
    change(row);
  };
}

/// The mask with `allow(row, j)` instead of the window.
template <class Allow>
Steps::Step window_as(Allow allow) {
  return [allow](Row& row) {
    plain::mask(row);
    for (Index j = 0; j < row.keys && row.problem.window; ++j) {
      row.allowed(j) = plain::causal_allows(row, j) && plain::mask_allows(row, j) && allow(row, j);
    }
  };
}

/// Numbers that lie strided, heads inside positions and three NaN behind each row, read as if they
/// were dense.
void read_as_dense(Tensor<float, 4>& tensor) {
  const Tensor<float, 4> rows(tensor.view().transposed(1, 2));
  const Index dim = tensor.shape()[3];
  for (Index at = 0; at < tensor.size(); ++at) {
    const Index row = at / (dim + 3), c = at % (dim + 3);
    tensor.data()[at] =
        c < dim ? rows.data()[row * dim + c] : std::numeric_limits<float>::quiet_NaN();
  }
}

/// Whether nothing but q, k and v has batch elements and positions, of which there are as many
/// queries as keys.
bool positions_of_qkv_only(const AttentionProblem& p) {
  return p.seq_len_q() == p.seq_len_k() && !p.mask && !p.bias && p.key_length.empty() &&
         !p.want_lse && !p.want_weights && !p.d_out;
}

template <class T>
Tensor<T, 4> with_batch_and_positions_swapped(const Tensor<T, 4>& tensor) {
  return Tensor<T, 4>(tensor.view().transposed(0, 2));
}

}  // namespace

std::vector<AttentionMutant> mutants_of_options() {
  return {
      {{"scale-missing", "scores are not scaled", {"num-accuracy"}},
       {.place = scaled_by([](const Row&) { return 1; })}},
      {{"scale-by-head-dim",
        "scores are divided by head_dim, not by its root",
        {"num-accuracy", "lemma-4.5"}},
       {.place = scaled_by(
            [](const Row& row) { return 1 / static_cast<double>(row.problem.head_dim()); })}},
      {{"scale-by-model-dim",
        "scores are divided by the root of num_heads times head_dim",
        {"num-accuracy"}},
       {.place = scaled_by([](const Row& row) {
          return 1 /
                 std::sqrt(static_cast<double>(row.problem.num_heads() * row.problem.head_dim()));
        })}},
      {{"scale-zero", "all scores are 0", {"num-accuracy"}},
       {.place = scaled_by([](const Row&) { return 0; })}},
      {{"scale-ignored", "a scale of the caller's is ignored", {"num-options"}},
       {.prepare = [](AttentionProblem& problem) { problem.scale.reset(); }}},
      {{"scale-times-usual",
        "a scale of the caller's is multiplied by the usual one",
        {"num-options"}},
       {.place = placed([](Row& row) {
          if (!row.problem.scale) return;
          row.scale /= std::sqrt(static_cast<float>(row.problem.head_dim()));
        })}},
      {{"scale-in-bfloat16", "a scale of the caller's is rounded to bfloat16", {"num-options"}},
       {.place = placed([](Row& row) {
          if (row.problem.scale) row.scale = rounded(row.scale, Dtype::bfloat16);
        })}},
      {{"scale-of-padded-channels",
        "with more than 64 channels, the scale is that of the next power of two",
        {"num-accuracy"},
        {4, 80, "64 channels and fewer are right"}},
       {.place = scaled_by([](const Row& row) {
          const auto dim = static_cast<std::uint64_t>(row.problem.head_dim());
          return 1 / std::sqrt(static_cast<double>(dim > 64 ? std::bit_ceil(dim) : dim));
        })}},
      {{"offset-ignored", "query_offset is ignored", {"num-options"}},
       {.prepare = [](AttentionProblem& problem) { problem.query_offset.reset(); }}},
      {{"offset-twice", "query_offset is added twice", {"num-options"}},
       {.place = placed([](Row& row) { row.position += row.problem.query_offset.value_or(0); })}},
      {{"window-one-too-few", "a window of n > 1 keys has n - 1", {"num-window"}},
       {.mask = window_as([](const Row& row, Index j) {
          return j > row.position - std::max<Index>(1, *row.problem.window - 1);
        })}},
      {{"window-ignored", "the window is ignored", {"num-window"}},
       {.prepare = [](AttentionProblem& problem) { problem.window.reset(); }}},
      {{"window-ignored-without-causal",
        "without the causal mask the window is ignored",
        {"num-window"}},
       {.prepare =
            [](AttentionProblem& problem) {
              if (problem.causal == Causal::none) problem.window.reset();
            }}},
      {{"window-at-the-end",
        "the window is that of the last query for all of them",
        {"num-window"}},
       {.mask = window_as([](const Row& row, Index j) {
          const Index last = row.position + row.seq_len_q() - 1 - row.i;
          return j > last - *row.problem.window;
        })}},
      {{"softcap-after-mask",
        "the softcap comes after the mask and makes minus infinity finite",
        {"num-softcap"}},
       {.logits =
            [](Row& row) {
              plain::logits(row);
              for (Index j = 0; j < row.keys && row.problem.softcap > 0; ++j) {
                if (!row.allowed(j)) row.logits(j) = -static_cast<float>(row.problem.softcap);
                row.allowed(j) = true;
              }
            }}},
      {{"softcap-ignored", "the softcap is ignored", {"num-softcap"}},
       {.prepare = [](AttentionProblem& problem) { problem.softcap = 0; }}},
      {{"large-softcap-ignored", "a softcap above 25 is ignored", {"num-softcap"}},
       {.prepare =
            [](AttentionProblem& problem) {
              if (problem.softcap > 25) problem.softcap = 0;
            }}},
      {{"softcap-not-multiplied",
        "the hyperbolic tangent of the softcap is not multiplied by the cap",
        {"num-softcap"}},
       {.logits =
            [](Row& row) {
              if (row.problem.softcap > 0) {
                for (float& score : row.scores) {
                  score = std::tanh(score / static_cast<float>(row.problem.softcap));
                }
              }
              row.logits = row.scores;
              for (Index j = 0; j < row.keys && row.problem.bias; ++j) {
                row.logits(j) += plain::element(*row.problem.bias, row, j);
              }
            }}},
      {{"bias-twice", "the bias is added twice", {"num-mask"}},
       {.prepare =
            [](AttentionProblem& problem) {
              if (!problem.bias) return;
              for (float& value : *problem.bias) value *= 2;
            }}},
      {{"bias-scaled", "the bias is added before scores are scaled", {"num-mask"}},
       {.prepare =
            [](AttentionProblem& problem) {
              if (!problem.bias) return;
              const double usual = 1 / std::sqrt(static_cast<double>(problem.head_dim()));
              for (float& value : *problem.bias) {
                value *= static_cast<float>(problem.scale.value_or(usual));
              }
            }}},
      {{"bias-of-head-0", "all heads use the bias of head 0", {"num-mask"}},
       {.prepare =
            [](AttentionProblem& problem) {
              if (!problem.bias) return;
              const auto [batch, heads, rows, keys] = problem.bias->shape();
              for (Index b = 0; b < batch; ++b) {
                for (Index h = 1; h < heads; ++h) {
                  std::copy_n((*problem.bias)[b][0].data, rows * keys, (*problem.bias)[b][h].data);
                }
              }
            }}},
      {{"key-length-one-too-many",
        "the first key of the padding is seen",
        {"num-options", "num-poison"}},
       {.place = placed([](Row& row) { row.keys = std::min(row.keys + 1, row.seq_len_k()); })}},
      {{"key-length-of-batch-0",
        "the first sequence's length is used for all",
        {"num-options", "num-poison"}},
       {.prepare =
            [](AttentionProblem& problem) {
              for (Index& length : problem.key_length) length = problem.key_length[0];
            }}},
      {{"key-length-ignored", "padding is seen", {"num-options", "num-poison"}},
       {.prepare = [](AttentionProblem& problem) { problem.key_length.clear(); }}},
      {{"key-length-ignored-at-the-corner",
        "with the causal mask from the bottom right, padding is seen",
        {"num-options"}},
       {.prepare =
            [](AttentionProblem& problem) {
              if (problem.causal == Causal::bottom_right) problem.key_length.clear();
            }}},
      {{"values-tiled",
        "where heads share keys, query head h reads the keys of one head and the values of another",
        {"num-grouped-heads", "num-accuracy"}},
       {.combine =
            [](Row& row) {
              row.kv_head = row.h % row.problem.num_kv_heads();
              plain::combine(row);
            }}},
      {{"kv-head-0", "where heads share keys, all of them read the first", {"num-grouped-heads"}},
       {.place = placed([](Row& row) {
          if (row.problem.num_kv_heads() < row.problem.num_heads()) row.kv_head = 0;
        })}},
      {{"kv-heads-wrapped", "head 8 of the keys is read at 0, and so on", {"num-accuracy"}},
       {.place = placed([](Row& row) { row.kv_head %= 8; })}},
      {{"groups-of-4-shifted",
        "where four query heads or more share keys, the last of them read those of the next",
        {"num-grouped-heads"}},
       {.place = placed([](Row& row) {
          const Index kv_heads = row.problem.num_kv_heads();
          const Index group = row.problem.num_heads() / kv_heads;
          if (group >= 4) row.kv_head = std::min(kv_heads - 1, (row.h + 1) / group);
        })}},
      {{"channel-strides-ignored",
        "values are read as if their channels were dense",
        {"num-strides"}},
       {.prepare =
            [](AttentionProblem& problem) {
              const Index dim = problem.value_dim();
              if (!problem.strided || !problem.strided_channels) return;
              for (Index at = 0; at < problem.v.size(); ++at) {
                if (at % dim != 0) {
                  problem.v.data()[at] = std::numeric_limits<float>::quiet_NaN();
                }
              }
            }}},
      {{"heads-read-on",
        "where all heads are one, with a stride of 0, what lies behind it is read for the others",
        {"num-strides"}},
       {.prepare =
            [](AttentionProblem& problem) {
              for (auto* tensor : {&problem.k, &problem.v}) {
                if (!problem.strided || !heads_are_equal(*tensor)) continue;
                const Index size = tensor->size() / std::max<Index>(1, problem.batch()),
                            head = size / std::max<Index>(1, problem.num_kv_heads());
                for (Index at = 0; at < tensor->size(); ++at) {
                  if (at % size < head) continue;
                  tensor->data()[at] = std::numeric_limits<float>::quiet_NaN();
                }
              }
            }}},
      {{"strides-ignored", "strides are ignored", {"num-strides"}},
       {.prepare =
            [](AttentionProblem& problem) {
              if (!problem.strided) return;
              for (auto* tensor : {&problem.q, &problem.k, &problem.v}) read_as_dense(*tensor);
            }}},
      {{"inputs-scaled-in-place",
        "the queries are scaled in the caller's memory",
        {"num-inputs-untouched"}},
       {.finish = [](const AttentionProblem& problem,
                     AttentionAnswer& answer) { answer.inputs_changed = problem.q.size() > 0; }}},
      {{"no-keys-uninitialised",
        "where there are no keys, the output is whatever its memory held",
        {"num-zero-sizes"}},
       {.combine =
            [](Row& row) {
              if (row.seq_len_k() > 0) return plain::combine(row);
              std::fill(row.out.begin(), row.out.end(), 42.0F);
            }}},
      {{"heads-split-without-transpose",
        "q, k and v lie as [batch, seq_len, num_heads, head_dim] and are read as if heads came "
        "first",
        {"num-head-independence", "num-accuracy"}},
       {.prepare =
            [](AttentionProblem& problem) {
              for (auto* tensor : {&problem.q, &problem.k, &problem.v}) {
                const Tensor<float, 4> other(std::as_const(*tensor).view().transposed(1, 2));
                std::copy(other.begin(), other.end(), tensor->begin());
              }
            }}},
      {{"batch-and-positions-swapped",
        "attention runs over the batch, at each position for itself",
        {"num-head-independence", "num-accuracy"}},
       {.prepare =
            [](AttentionProblem& problem) {
              if (!positions_of_qkv_only(problem)) return;
              for (auto* tensor : {&problem.q, &problem.k, &problem.v}) {
                *tensor = with_batch_and_positions_swapped(*tensor);
              }
            },
        .finish =
            [](const AttentionProblem& problem, AttentionAnswer& answer) {
              if (!positions_of_qkv_only(problem)) return;
              answer.out = with_batch_and_positions_swapped(answer.out);
            }}},
      {{"query-is-key", "the keys are read where the queries should be", {"num-accuracy"}},
       {.prepare =
            [](AttentionProblem& problem) {
              if (problem.q.shape() == problem.k.shape()) problem.q = problem.k;
            }}},
      {{"value-is-key", "the keys are read where the values should be", {"num-accuracy"}},
       {.prepare =
            [](AttentionProblem& problem) {
              if (problem.v.shape() == problem.k.shape()) problem.v = problem.k;
            }}},
      {{"keys-and-values-swapped", "keys and values change places", {"num-accuracy"}},
       {.prepare =
            [](AttentionProblem& problem) {
              if (problem.v.shape() == problem.k.shape()) std::swap(problem.v, problem.k);
            }}},
      {{"output-of-batch-0",
        "the last sequence's output is that of the first",
        {"num-accuracy", "num-head-independence"}},
       {.finish =
            [](const AttentionProblem& problem, AttentionAnswer& answer) {
              const Index batch = problem.batch();
              if (batch < 2) return;
              std::copy_n(answer.out.begin(), answer.out.size() / batch,
                          answer.out[batch - 1].data);
            }}},
      {{"output-of-another-head",
        "the outputs of the first two heads change places",
        {"num-accuracy", "num-head-independence"}},
       {.finish =
            [](const AttentionProblem& problem, AttentionAnswer& answer) {
              if (problem.num_heads() < 2) return;
              for (Index b = 0; b < problem.batch(); ++b) {
                const Index size = problem.seq_len_q() * problem.value_dim();
                std::swap_ranges(answer.out[b][0].data, answer.out[b][0].data + size,
                                 answer.out[b][1].data);
              }
            }}},
      {{"output-in-the-other-layout",
        "the output lies as [batch, seq_len, num_heads, head_dim]",
        {"num-accuracy"}},
       {.finish =
            [](const AttentionProblem&, AttentionAnswer& answer) {
              const Tensor<double, 4> other(std::as_const(answer.out).view().transposed(1, 2));
              std::copy(other.begin(), other.end(), answer.out.begin());
            }}},
  };
}

}  // namespace headproof
