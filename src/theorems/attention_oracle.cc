#include "theorems/attention_oracle.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <string>

namespace headproof {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor<double, 4> widened(const Tensor<float, 4>& tensor) {
  Tensor<double, 4> wide(tensor.shape());
  std::copy(tensor.begin(), tensor.end(), wide.begin());
  return wide;
}

/// Keys or values with one head for each query head, which reads its own.
Tensor<double, 4> one_for_each_head(const Tensor<float, 4>& tensor,
                                    const std::vector<Index>& kv_heads) {
  const auto [batch, all_heads, seq_len, dim] = tensor.shape();
  const auto num_heads = static_cast<Index>(kv_heads.size());
  Tensor<double, 4> all({batch, num_heads, seq_len, dim});
  for (Index b = 0; b < batch; ++b) {
    for (Index h = 0; h < num_heads; ++h) {
      const Index from = kv_heads[static_cast<std::size_t>(h)];
      std::copy_n(tensor[b][from].data, seq_len * dim, all[b][h].data);
    }
  }
  return all;
}

}  // namespace

Roundoff roundoff_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float64:
      return {0x1p-53, 0x1p-53, 0x1p-53, 0x1p-1074};
    case Dtype::float16:
      return {0x1p-24, 0x1p-11, 0x1p-11, 0x1p-24};
    case Dtype::bfloat16:
      return {0x1p-24, 0x1p-8, 0x1p-8, 0x1p-133};
    case Dtype::float32:
      break;
  }
  return {0x1p-24, 0x1p-24, 0x1p-24, 0x1p-149};
}

AttentionOracle::AttentionOracle(const AttentionProblem& problem, const Domain& domain,
                                 const Conventions& conventions) {
  const Index batch = problem.batch(), num_heads = problem.num_heads();
  const Index seq_len_q = problem.seq_len_q(), seq_len_k = problem.seq_len_k();
  const Index head_dim = problem.head_dim(), value_dim = problem.value_dim();
  for (Index h = 0; h < num_heads; ++h) {
    const Index kv_heads = problem.num_kv_heads();
    kv_heads_.push_back(conventions.kv_map == "tiled" ? h % kv_heads : h / (num_heads / kv_heads));
  }
  const Tensor<double, 4> q = widened(problem.q), k = one_for_each_head(problem.k, kv_heads_),
                          v = one_for_each_head(problem.v, kv_heads_);

  AttentionOptions options = problem.options();
  if (options.causal != Causal::none && !options.query_offset) {
    if (conventions.corner == "top_left") options.causal = Causal::top_left;
    if (conventions.corner == "bottom_right") options.causal = Causal::bottom_right;
    if (conventions.padding_corner == "padded") options.query_offset = seq_len_k - seq_len_q;
  }
  if (options.window && conventions.window_counts_self == "no") ++*options.window;
  std::optional<Tensor<bool, 4>> inverted;
  if (problem.mask && conventions.mask_true == "masked") {
    inverted = problem.mask;
    for (bool& may : *inverted) may = !may;
    options.mask = inverted->view();
  }
  stages = attention_reference<double>(q, k, v, options);
  allowed_ = Tensor<bool, 4>(stages.logits.shape());
  {
    // What is allowed depends on no number: ask for it with scores of 0.
    AttentionOptions plain = options;
    plain.softcap = 0;
    const auto logits =
        attention_reference<double>(Tensor<double, 4>(q.shape()), Tensor<double, 4>(k.shape()),
                                    Tensor<double, 4>(v.shape()), plain)
            .logits;
    auto may = allowed_.begin();
    for (double logit : logits) *may++ = logit != -infinity;
  }
  Tensor<double, 4> capped_by_bias;
  if (problem.softcap > 0 && problem.bias && conventions.softcap_order == "after_mask") {
    // cap * tanh((score + bias) / cap), as a bias on top of the capped score.
    const double cap = problem.softcap;
    capped_by_bias = Tensor<double, 4>(stages.logits.shape());
    const View<const float, 4> bias = problem.bias->view();
    for (Index b = 0; b < batch; ++b) {
      for (Index h = 0; h < num_heads; ++h) {
        for (Index i = 0; i < seq_len_q; ++i) {
          for (Index j = 0; j < seq_len_k; ++j) {
            const double added =
                bias(b % bias.shape[0], h % bias.shape[1], i % bias.shape[2], j % bias.shape[3]);
            const double score = stages.scores(b, h, i, j);
            capped_by_bias(b, h, i, j) =
                cap * (std::tanh((score + added) / cap) - std::tanh(score / cap));
          }
        }
      }
    }
    options.mask = capped_by_bias.view();
    stages = attention_reference<double>(q, k, v, options);
  }

  const Roundoff u = roundoff_of(domain.dtype);
  const double scale =
      std::fabs(problem.scale.value_or(1 / std::sqrt(static_cast<double>(head_dim))));
  const auto channels = static_cast<double>(head_dim);
  score_error = Tensor<double, 4>(stages.scores.shape());
  weight_error = recovered_error = Tensor<double, 4>(stages.scores.shape());
  out_error = Tensor<double, 4>(stages.out.shape());
  lse_error = Tensor<double, 3>(stages.lse.shape());
  std::vector<double> exponent_error(static_cast<std::size_t>(seq_len_k));
  for (Index b = 0; b < batch; ++b) {
    for (Index h = 0; h < num_heads; ++h) {
      for (Index i = 0; i < seq_len_q; ++i) {
        // Rows: entries one by one would take most of a check's time.
        const bool* may = allowed_[b][h][i].data;
        const double *q_row = q[b][h][i].data, *scores = stages.scores[b][h][i].data,
                     *logits = stages.logits[b][h][i].data, *weights = stages.A[b][h][i].data;
        double *of_scores = score_error[b][h][i].data, *of_weights = weight_error[b][h][i].data,
               *of_recovered = recovered_error[b][h][i].data, *of_out = out_error[b][h][i].data;
        double maximum = -infinity, visible = 0;
        for (Index j = 0; j < seq_len_k; ++j) {
          if (!may[j]) continue;
          ++visible;
          maximum = std::max(maximum, logits[j]);
        }
        if (visible == 0) continue;
        // A block of keys may be one key: each moves the running maximum, which rescales what came
        // before by one more exponential (four roundings); what these exponents lose beside adds up
        // to the distance between the logit and the last maximum.
        double sum_error = (visible + 2) * u.accumulator;
        for (Index j = 0; j < seq_len_k; ++j) {
          if (!may[j]) continue;
          const double* k_row = k[b][h][j].data;
          double product = 0;
          for (Index c = 0; c < head_dim; ++c) product += std::fabs(q_row[c] * k_row[c]);
          // d products and sums, the scale (rounded itself, and perhaps times log2(e)), softcap
          // (tanh has slope 1 at most; division, tanh, product), the sum with the bias.
          of_scores[j] = scale * ((channels + 4) * u.accumulator * product + channels * u.smallest);
          double error = of_scores[j];
          if (problem.softcap > 0) {
            error += 6 * u.accumulator * std::min(problem.softcap, std::fabs(scores[j]));
          }
          if (problem.bias) error += u.accumulator * (std::fabs(logits[j]) + std::fabs(scores[j]));
          error += u.accumulator * (2 * (maximum - logits[j]) + 4 * visible + 8);
          if (std::isnan(error)) error = infinity;
          exponent_error[static_cast<std::size_t>(j)] = error;
          if (weights[j] > 0) sum_error += weights[j] * error;
        }
        lse_error(b, h, i) = sum_error +
                             u.accumulator * (std::fabs(maximum) + std::log(visible) + 8) +
                             u.output * std::fabs(stages.lse(b, h, i));
        for (Index j = 0; j < seq_len_k; ++j) {
          if (!may[j]) continue;
          const double A = weights[j];
          const double factor =
              std::expm1(exponent_error[static_cast<std::size_t>(j)] + sum_error) + u.weight;
          // No weight is wrong by more than 1; where the bound is beyond that it says nothing.
          of_weights[j] = std::min(A > 0 ? A * factor : 0, 1.0) + u.smallest;
          if (std::isnan(of_weights[j])) of_weights[j] = 1;
          of_recovered[j] =
              of_weights[j] + A * ((visible + 2) * u.accumulator + u.output) + 3 * u.smallest;
          const double* v_row = v[b][h][j].data;
          for (Index c = 0; c < value_dim; ++c) {
            const double value = std::fabs(v_row[c]);
            of_out[c] +=
                of_weights[j] * value + A * (visible + 2) * u.accumulator * value + u.smallest;
          }
        }
        for (Index c = 0; c < value_dim; ++c) {
          of_out[c] += u.output * std::fabs(stages.out(b, h, i, c)) + 2 * u.smallest;
        }
      }
    }
  }
  if (conventions.lse_base == "2") {
    for (double& value : stages.lse) value *= std::numbers::log2e;
    for (double& value : lse_error) value *= 2;
  }
}

}  // namespace headproof
