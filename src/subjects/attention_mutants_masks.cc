// Leaks, wrong masks, and what stands in for minus infinity.

#include <algorithm>
#include <cmath>
#include <limits>

#include "subjects/attention_mutants.h"

namespace headproof {
namespace {

constexpr float lowest = std::numeric_limits<float>::lowest();

bool is_causal(const Row& row) { return row.problem.causal != Causal::none; }

bool is_empty(const Row& row) {
  return std::none_of(row.allowed.begin(), row.allowed.end(), [](bool allowed) { return allowed; });
}

/// The mask, with `allow(row, j)` instead of causality.
template <class Allow>
Steps::Step causal_as(Allow allow) {
  return [allow](Row& row) {
    plain::mask(row);
    if (!is_causal(row)) return;
    for (Index j = 0; j < row.keys; ++j) {
      row.allowed(j) = allow(row, j) && plain::window_allows(row, j) && plain::mask_allows(row, j);
    }
  };
}

/// Forbidden logits are `stand_in(score)` and take part.
template <class StandIn>
Steps::Step finite(StandIn stand_in) {
  return [stand_in](Row& row) {
    plain::logits(row);
    for (Index j = 0; j < row.keys; ++j) {
      if (!row.allowed(j)) row.logits(j) = stand_in(row.scores(j));
      row.allowed(j) = true;
    }
  };
}

/// The softmax over all keys, after which the weights of forbidden ones become 0.
float masked_after_softmax(Row& row) {
  const Tensor<bool, 1> allowed = row.allowed;
  std::fill_n(row.allowed.begin(), row.keys, true);
  plain::softmax(row);
  row.allowed = allowed;
  float sum = 0;
  for (Index j = 0; j < row.seq_len_k(); ++j) {
    if (!row.allowed(j)) row.weights(j) = 0;
    sum += row.weights(j);
  }
  return sum;
}

void see_forbidden_with_weight_0(Row& row, Index end) {
  for (Index j = 0; j < end; ++j) {
    for (Index c = 0; c < row.problem.value_dim() && !row.allowed(j); ++c) {
      row.out(c) += 0 * row.v(j, c);
    }
  }
}

}  // namespace

std::vector<AttentionMutant> mutants_of_masks() {
  return {
      {{"leak-one-pair", "query 0 sees key 1 under the causal mask", {"prop-5.1"}},
       {.mask = causal_as([](const Row& row, Index j) {
          return plain::causal_allows(row, j) || (row.i == 0 && j == 1);
        })}},
      {{"leak-block-mean",
        "under the causal mask a thousandth of the mean of each block of four values is added",
        {"prop-5.1"}},
       {.combine =
            [](Row& row) {
              plain::combine(row);
              if (!is_causal(row)) return;
              const Index first = row.i / 4 * 4, end = std::min(first + 4, row.keys);
              for (Index j = first; j < end; ++j) {
                for (Index c = 0; c < row.problem.value_dim(); ++c) {
                  row.out(c) += 0.001F * row.v(j, c) / static_cast<float>(end - first);
                }
              }
            }}},
      {{"leak-last-position",
        "under the causal mask a thousandth of the last value is in every output",
        {"prop-5.1", "cor-3.2"}},
       {.combine =
            [](Row& row) {
              plain::combine(row);
              for (Index c = 0; c < row.problem.value_dim() && is_causal(row) && row.keys > 0;
                   ++c) {
                row.out(c) = 0.999F * row.out(c) + 0.001F * row.v(row.keys - 1, c);
              }
            }}},
      {{"leak-beyond-100",
        "with more than 100 keys, each query sees the key after its own",
        {"prop-5.1", "num-accuracy"},
        {101, 2, "shorter sequences are right"}},
       {.mask = causal_as([](const Row& row, Index j) {
          return j <= row.position + (row.seq_len_k() > 100 ? 1 : 0);
        })}},
      {{"mask-transposed", "queries see the keys from their own on", {"prop-5.1"}},
       {.mask = causal_as([](const Row& row, Index j) { return j >= row.position; })}},
      {{"mask-one-too-many", "queries see one key beyond their own", {"prop-5.1"}},
       {.mask = causal_as([](const Row& row, Index j) { return j <= row.position + 1; })}},
      {{"mask-strict", "queries don't see their own key", {"cor-3.3", "num-accuracy"}},
       {.mask = causal_as([](const Row& row, Index j) { return j < row.position; })}},
      {{"mask-first-batch-only", "only the first sequence of the batch is masked", {"prop-5.1"}},
       {.mask = causal_as(
            [](const Row& row, Index j) { return row.b > 0 || plain::causal_allows(row, j); })}},
      {{"mask-first-head-only", "only the first head is masked", {"prop-5.1"}},
       {.mask = causal_as(
            [](const Row& row, Index j) { return row.h > 0 || plain::causal_allows(row, j); })}},
      {{"mask-never", "the causal mask is forgotten", {"prop-5.1"}},
       {.mask = causal_as([](const Row&, Index) { return true; })}},
      {{"mask-always",
        "the causal mask is there when nobody asked",
        {"num-options", "num-accuracy"}},
       {.prepare =
            [](AttentionProblem& problem) {
              if (problem.causal == Causal::none) problem.causal = Causal::top_left;
            }}},
      {{"corner-one-too-far",
        "with more keys than queries, the causal mask ends one key too late",
        {"num-accuracy"}},
       {.mask = causal_as([](const Row& row, Index j) {
          return j <= row.position + (row.seq_len_k() > row.seq_len_q() ? 1 : 0);
        })}},
      {{"corner-of-one-query",
        "a single query under the causal mask sees key 0 only, whatever the corner",
        {"num-options"}},
       {.place =
            [](Row& row) {
              plain::place(row);
              if (row.seq_len_q() == 1 && row.problem.causal == Causal::bottom_right) {
                row.position = 0;
              }
            }}},
      {{"sentinel-1e4", "forbidden scores are replaced by -10,000", {"num-extreme-scores"}},
       {.logits = finite([](float) { return -1e4F; })}},
      {{"sentinel-1e9-added", "10^9 is taken from forbidden scores", {"num-extreme-scores"}},
       {.logits = finite([](float score) { return score - 1e9F; })}},
      {{"sentinel-lowest",
        "forbidden scores are replaced by the lowest float, and take part",
        {"num-poison"}},
       {.logits = finite([](float) { return lowest; })}},
      {{"sentinel-20", "forbidden scores are replaced by -20", {"prop-5.1"}},
       {.logits = finite([](float) { return -20.0F; })}},
      {{"mask-after-softmax",
        "weights of forbidden keys are zeroed after the softmax",
        {"prop-3.1", "ex-4"}},
       {.softmax = [](Row& row) { masked_after_softmax(row); }}},
      {{"mask-after-softmax-renormalised",
        "weights of forbidden keys are zeroed after the softmax and the rest divided by its sum",
        {"num-poison", "num-extreme-scores"}},
       {.softmax =
            [](Row& row) {
              const float sum = masked_after_softmax(row);
              for (float& weight : row.weights) weight /= sum;
            }}},
      {{"maximum-of-forbidden",
        "the maximum that is subtracted is that of all scores, forbidden ones too",
        {"num-poison", "num-extreme-scores"}},
       {.softmax =
            [](Row& row) {
              float maximum = lowest;
              for (Index j = 0; j < row.keys; ++j) maximum = std::max(maximum, row.logits(j));
              float sum = 0;
              for (Index j = 0; j < row.keys; ++j) {
                if (row.allowed(j)) sum += row.weights(j) = std::exp(row.logits(j) - maximum);
              }
              row.lse = maximum + std::log(sum);
              for (Index j = 0; j < row.keys; ++j) {
                if (row.allowed(j)) row.weights(j) /= sum;
              }
            }}},
      {{"zero-times-nan",
        "values of forbidden keys are multiplied by 0, not skipped",
        {"num-poison"}},
       {.combine =
            [](Row& row) {
              plain::combine(row);
              see_forbidden_with_weight_0(row, row.keys);
            }}},
      {{"stale-padding",
        "values in the padding behind the keys are multiplied by 0, not skipped",
        {"num-poison"}},
       {.combine =
            [](Row& row) {
              plain::combine(row);
              if (row.keys < row.seq_len_k()) see_forbidden_with_weight_0(row, row.seq_len_k());
            }}},
      {{"mask-instead-of-causal", "with a mask, is_causal is ignored", {"num-mask", "num-options"}},
       {.mask = causal_as([](const Row& row, Index j) {
          return row.problem.mask || plain::causal_allows(row, j);
        })}},
      {{"causal-instead-of-mask",
        "with is_causal, the mask is ignored",
        {"num-mask", "num-options"}},
       {.prepare =
            [](AttentionProblem& problem) {
              if (problem.causal != Causal::none) problem.mask.reset();
            }}},
      {{"mask-inverted-in-head-1", "head 1 reads the mask the other way round", {"num-mask"}},
       {.mask =
            [](Row& row) {
              plain::mask(row);
              for (Index j = 0; j < row.keys && row.problem.mask && row.h == 1; ++j) {
                row.allowed(j) = plain::causal_allows(row, j) && plain::window_allows(row, j) &&
                                 !plain::mask_allows(row, j);
              }
            }}},
      {{"mask-of-head-0", "all heads use the mask of head 0", {"num-mask"}},
       {.prepare =
            [](AttentionProblem& problem) {
              if (!problem.mask) return;
              Tensor<bool, 4>& mask = *problem.mask;
              const auto [batch, heads, rows, keys] = mask.shape();
              for (Index b = 0; b < batch; ++b) {
                for (Index h = 1; h < heads; ++h) {
                  std::copy_n(mask[b][0].data, rows * keys, mask[b][h].data);
                }
              }
            }}},
      {{"mask-of-batch-0", "all sequences use the mask of the first", {"num-mask"}},
       {.prepare =
            [](AttentionProblem& problem) {
              if (!problem.mask) return;
              Tensor<bool, 4>& mask = *problem.mask;
              const auto [batch, heads, rows, keys] = mask.shape();
              for (Index b = 1; b < batch; ++b) {
                std::copy_n(mask[0].data, heads * rows * keys, mask[b].data);
              }
            }}},
      {{"mask-of-query-0", "all queries use the mask of query 0", {"num-mask"}},
       {.prepare =
            [](AttentionProblem& problem) {
              if (!problem.mask) return;
              Tensor<bool, 4>& mask = *problem.mask;
              const auto [batch, heads, rows, keys] = mask.shape();
              for (Index b = 0; b < batch; ++b) {
                for (Index h = 0; h < heads; ++h) {
                  for (Index i = 1; i < rows; ++i) {
                    std::copy_n(mask[b][h][0].data, keys, mask[b][h][i].data);
                  }
                }
              }
            }}},
      {{"bias-infinity-finite",
        "minus infinity in a bias becomes -10,000",
        {"num-extreme-scores", "num-mask"}},
       {.prepare =
            [](AttentionProblem& problem) {
              if (!problem.bias) return;
              for (float& value : *problem.bias) value = std::max(value, -1e4F);
            }}},
      {{"empty-rows-not-written",
        "the output of a query that may see no key is what its memory held",
        {"num-empty-rows"}},
       {.combine =
            [](Row& row) {
              plain::combine(row);
              if (is_empty(row)) std::fill(row.out.begin(), row.out.end(), 1234.5F);
            }}},
      {{"empty-rows-uniform-when-long",
        "with more than four keys, a query that may see none gets the mean of all values",
        {"num-empty-rows"},
        {5, 2, "up to four keys are right"}},
       {.logits =
            [](Row& row) {
              plain::logits(row);
              if (!is_empty(row) || row.seq_len_k() <= 4) return;
              std::fill(row.allowed.begin(), row.allowed.end(), true);
              std::fill(row.logits.begin(), row.logits.end(), 0.0F);
            }}},
  };
}

}  // namespace headproof
