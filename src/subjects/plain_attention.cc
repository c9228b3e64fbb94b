#include "subjects/plain_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace headproof {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

}  // namespace

namespace plain {

bool causal_allows(const Row& row, Index j) {
  return row.problem.causal == Causal::none || j <= row.position;
}

bool window_allows(const Row& row, Index j) {
  return !row.problem.window || j > row.position - *row.problem.window;
}

bool mask_allows(const Row& row, Index j) {
  if (row.problem.mask) return element(*row.problem.mask, row, j);
  if (row.problem.bias) return element(*row.problem.bias, row, j) != -infinity;
  return true;
}

void place(Row& row) {
  const AttentionProblem& problem = row.problem;
  row.kv_head = row.h / (problem.num_heads() / problem.num_kv_heads());
  row.keys = problem.key_length.empty() ? problem.seq_len_k()
                                        : problem.key_length[static_cast<std::size_t>(row.b)];
  const bool at_the_end = problem.causal == Causal::bottom_right;
  row.position =
      row.i + problem.query_offset.value_or(at_the_end ? row.keys - problem.seq_len_q() : 0);
  const auto usual = 1 / std::sqrt(static_cast<float>(problem.head_dim()));
  row.scale = problem.scale ? static_cast<float>(*problem.scale) : usual;
}

void mask(Row& row) {
  for (Index j = 0; j < row.seq_len_k(); ++j) {
    row.allowed(j) =
        j < row.keys && causal_allows(row, j) && window_allows(row, j) && mask_allows(row, j);
  }
}

void score(Row& row) {
  for (Index j = 0; j < row.seq_len_k(); ++j) {
    const float* const q = row.problem.q[row.b][row.h][row.i].data;
    const float* const k = row.problem.k[row.b][row.kv_head][j].data;
    row.scores(j) = row.scale * std::inner_product(q, q + row.problem.head_dim(), k, 0.0F);
  }
}

void logits(Row& row) {
  const auto softcap = static_cast<float>(row.problem.softcap);
  for (Index j = 0; j < row.seq_len_k(); ++j) {
    const float score = row.scores(j);
    row.logits(j) = softcap > 0 ? softcap * std::tanh(score / softcap) : score;
    if (row.problem.bias) row.logits(j) += element(*row.problem.bias, row, j);
  }
}

void softmax(Row& row) {
  float maximum = -infinity, sum = 0;
  for (Index j = 0; j < row.seq_len_k(); ++j) {
    if (row.allowed(j) && row.logits(j) > maximum) maximum = row.logits(j);
  }
  for (Index j = 0; j < row.seq_len_k(); ++j) {
    row.weights(j) = row.allowed(j) ? std::exp(row.logits(j) - maximum) : 0;
    sum += row.weights(j);
  }
  row.lse = maximum + std::log(sum);  // -infinity in an empty row
  for (Index j = 0; j < row.seq_len_k(); ++j) {
    if (row.allowed(j)) row.weights(j) /= sum;
  }
}

void combine(Row& row) { combine_in_parts(row, 1); }

void gradient(const Row& row, AttentionGradients<float>& gradients) {
  const AttentionProblem& problem = row.problem;
  Tensor<float, 1> d_weights({row.seq_len_k()});
  float delta = 0;  // the sum of weights * d_weights
  for (Index j = 0; j < row.seq_len_k(); ++j) {
    if (!row.allowed(j)) continue;
    for (Index c = 0; c < problem.value_dim(); ++c) {
      const float d_out = (*problem.d_out)(row.b, row.h, row.i, c);
      d_weights(j) += d_out * row.v(j, c);
      gradients.d_v(row.b, row.kv_head, j, c) += row.weights(j) * d_out;
    }
    delta += row.weights(j) * d_weights(j);
  }
  for (Index j = 0; j < row.seq_len_k(); ++j) {
    if (!row.allowed(j)) continue;
    float d_score = row.weights(j) * (d_weights(j) - delta);
    if (problem.softcap > 0) {
      const float tanh = std::tanh(row.scores(j) / static_cast<float>(problem.softcap));
      d_score *= 1 - tanh * tanh;
    }
    for (Index c = 0; c < problem.head_dim(); ++c) {
      gradients.d_q(row.b, row.h, row.i, c) += row.scale * d_score * row.k(j, c);
      gradients.d_k(row.b, row.kv_head, j, c) += row.scale * d_score * row.q(c);
    }
  }
}

void online_softmax(Row& row, Index block, bool rescale) {
  float maximum = -infinity, sum = 0;
  for (Index first = 0; first < row.seq_len_k(); first += block) {
    const Index end = std::min(first + block, row.seq_len_k());
    bool any = false;
    float highest = rescale ? maximum : -infinity;
    for (Index j = first; j < end; ++j) {
      any |= row.allowed(j);
      if (row.allowed(j) && row.logits(j) > highest) highest = row.logits(j);
    }
    if (!any) continue;
    if (rescale && maximum > -infinity) {
      const float factor = std::exp(maximum - highest);
      sum *= factor;
      for (Index j = 0; j < first; ++j) row.weights(j) *= factor;
    }
    for (Index j = first; j < end; ++j) {
      if (row.allowed(j)) sum += row.weights(j) = std::exp(row.logits(j) - highest);
    }
    maximum = highest;
  }
  row.lse = maximum + std::log(sum);
  for (Index j = 0; j < row.seq_len_k(); ++j) {
    if (row.allowed(j)) row.weights(j) /= sum;
  }
}

void combine_in_parts(Row& row, Index parts) {
  for (Index part = 0; part < parts; ++part) {
    Tensor<float, 1> sums({row.problem.value_dim()});
    for (Index j = part; j < row.seq_len_k(); j += parts) {
      if (!row.allowed(j)) continue;
      const float weight = row.weights(j);
      const float* const v = row.problem.v[row.b][row.kv_head][j].data;
      // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it is null where there is no channel
      for (Index c = 0; c < sums.size(); ++c) sums.data()[c] += weight * v[c];
    }
    for (Index c = 0; c < sums.size(); ++c) row.out(c) += sums(c);
  }
}

Row with_logits(const AttentionProblem& problem, Index b, Index h, Index i) {
  Row row(problem, b, h, i);
  for (auto* step : {place, mask, score, logits}) step(row);
  return row;
}

}  // namespace plain

namespace {

template <std::size_t Rank>
Tensor<double, Rank> widened(const Tensor<float, Rank>& tensor) {
  Tensor<double, Rank> wide(tensor.shape());
  std::copy(tensor.begin(), tensor.end(), wide.begin());
  return wide;
}

class PlainAttention final : public AttentionSubject {
 public:
  PlainAttention(std::string name, Steps steps, Domain domain)
      : name_(std::move(name)), steps_(std::move(steps)), domain_(std::move(domain)) {}

  std::string name() const override { return name_; }
  Domain domain() const override { return domain_; }

  AttentionReply attend(const AttentionProblem& asked) override {
    if (auto error =
            attention_error(asked.q.shape(), asked.k.shape(), asked.v.shape(), asked.options())) {
      return Refusal{Refusal::Kind::failed, error->message};
    }
    AttentionProblem problem = asked;
    steps_.prepare(problem);
    AttentionAnswer answer;
    const Index batch = problem.batch(), heads = problem.num_heads(), rows = problem.seq_len_q();
    answer.out = Tensor<double, 4>({batch, heads, rows, problem.value_dim()});
    if (problem.want_lse) answer.lse.emplace(std::array{batch, heads, rows});
    if (problem.want_weights) {
      answer.weights.emplace(std::array{batch, heads, rows, problem.seq_len_k()});
    }
    AttentionGradients<float> gradients;
    if (problem.d_out) {
      gradients = {Tensor<float, 4>(problem.q.shape()), Tensor<float, 4>(problem.k.shape()),
                   Tensor<float, 4>(problem.v.shape())};
    }
    for (Index b = 0; b < batch; ++b) {
      for (Index h = 0; h < heads; ++h) {
        for (Index i = 0; i < rows; ++i) {
          Row row(problem, b, h, i);
          for (const auto* step : {&steps_.place, &steps_.mask, &steps_.score, &steps_.logits,
                                   &steps_.softmax, &steps_.combine}) {
            (*step)(row);
          }
          std::copy(row.out.begin(), row.out.end(), answer.out[b][h][i].data);
          if (answer.lse) (*answer.lse)(b, h, i) = row.lse;
          if (answer.weights) {
            std::copy(row.weights.begin(), row.weights.end(), (*answer.weights)[b][h][i].data);
          }
          if (problem.d_out) steps_.gradient(row, gradients);
        }
      }
    }
    if (problem.d_out) {
      answer.gradients = AttentionGradients<double>{widened(gradients.d_q), widened(gradients.d_k),
                                                    widened(gradients.d_v)};
    }
    steps_.finish(asked, answer);
    return answer;
  }

 private:
  std::string name_;
  Steps steps_;
  Domain domain_;
};

}  // namespace

Domain plain_attention_domain() {
  Domain domain;
  domain.features = Features::all();
  return domain;
}

std::unique_ptr<AttentionSubject> plain_attention(std::string name, Steps steps, Domain domain) {
  return std::make_unique<PlainAttention>(std::move(name), std::move(steps), std::move(domain));
}

}  // namespace headproof
