#include "theorems/attention_gradient_oracle.h"

#include <algorithm>
#include <cmath>

#include "theorems/num_common.h"

namespace headproof {
namespace {

/// A number and what it may be off by.
struct Near {
  double value = 0, error = 0;
};

}  // namespace

void leave_out_empty_rows(Tensor<float, 4>& d_out, const AttentionOracle& oracle) {
  const auto [batch, heads, rows, channels] = d_out.shape();
  for (Index b = 0; b < batch; ++b) {
    for (Index h = 0; h < heads; ++h) {
      for (Index i = 0; i < rows; ++i) {
        if (!sees_any(oracle, b, h, i)) std::fill_n(d_out[b][h][i].data, channels, 0.0F);
      }
    }
  }
}

AttentionGradientOracle::AttentionGradientOracle(const AttentionProblem& problem,
                                                 const Domain& domain,
                                                 const Conventions& conventions,
                                                 const AttentionOracle& forward) {
  const Roundoff u = roundoff_of(domain.dtype);
  const Index rows = problem.seq_len_q(), keys = problem.seq_len_k();
  const Index head_dim = problem.head_dim(), value_dim = problem.value_dim();
  const double scale = problem.scale.value_or(1 / std::sqrt(static_cast<double>(head_dim)));
  const auto channels = static_cast<double>(value_dim);
  // Sums over queries go through all heads that share a key.
  const double terms =
      static_cast<double>(rows * problem.num_heads()) / static_cast<double>(problem.num_kv_heads());
  const AttentionStages<double>& stages = forward.stages;
  for (auto* tensors : {&gradients, &errors}) {
    tensors->d_q = Tensor<double, 4>(problem.q.shape());
    tensors->d_k = Tensor<double, 4>(problem.k.shape());
    tensors->d_v = Tensor<double, 4>(problem.v.shape());
  }
  std::vector<Near> d_weights(static_cast<std::size_t>(keys));
  for (Index b = 0; b < problem.batch(); ++b) {
    for (Index h = 0; h < problem.num_heads(); ++h) {
      const Index kv = kv_head(problem, conventions, h);
      for (Index i = 0; i < rows; ++i) {
        // A = exp(logit - lse), from the rounded lse.
        const double lse_factor = std::expm1(forward.lse_error(b, h, i));
        const auto weight = [&](Index j) {
          const double A = stages.A(b, h, i, j), error = forward.weight_error(b, h, i, j);
          return Near{A, error + (A + error) * lse_factor};
        };
        // delta = sum over j of A d_A, or the sum over c of d_out out.
        Near delta;
        double visible = 0, delta_size = 0;
        for (Index c = 0; c < value_dim; ++c) {
          const double d = (*problem.d_out)(b, h, i, c), out = stages.out(b, h, i, c);
          delta.value += d * out;
          delta.error += std::fabs(d) * (forward.out_error(b, h, i, c) +
                                         (channels + 2) * u.accumulator * std::fabs(out));
        }
        for (Index j = 0; j < keys; ++j) {
          if (!forward.allowed(b, h, i, j)) continue;
          ++visible;
          Near& d_weight = d_weights[static_cast<std::size_t>(j)] = {};
          for (Index c = 0; c < value_dim; ++c) {
            const double value = problem.v(b, kv, j, c);
            const double product = (*problem.d_out)(b, h, i, c) * value;
            d_weight.value += product;
            d_weight.error += (channels + 2) * u.accumulator * std::fabs(product) + u.smallest;
          }
          const Near A = weight(j);
          delta.error += A.error * std::fabs(d_weight.value) + (A.value + A.error) * d_weight.error;
          delta_size += A.value * std::fabs(d_weight.value);
        }
        delta.error += (visible + 2) * (u.accumulator * delta_size + u.smallest);

        for (Index j = 0; j < keys; ++j) {
          if (!forward.allowed(b, h, i, j)) continue;
          const Near A = weight(j), d_weight = d_weights[static_cast<std::size_t>(j)];
          const double difference = d_weight.value - delta.value;
          Near d_score{
              A.value * difference,
              A.error * std::fabs(difference) +
                  (A.value + A.error) *
                      (d_weight.error + delta.error +
                       3 * u.accumulator * (std::fabs(d_weight.value) + std::fabs(delta.value)))};
          if (problem.softcap > 0) {
            const double cap = problem.softcap;
            const double capped = conventions.softcap_order == "after_mask"
                                      ? stages.logits(b, h, i, j) / cap
                                      : std::tanh(stages.scores(b, h, i, j) / cap);
            // tanh is off by what its argument is off by, at slope 1 at most, and six roundings.
            const double slope = 1 - capped * capped;
            const double argument = forward.score_error(b, h, i, j) / cap + 8 * u.accumulator;
            const double slope_error = 2 * argument + argument * argument;
            d_score.error =
                d_score.error * (slope + slope_error) + std::fabs(d_score.value) * slope_error;
            d_score.value *= slope;
          }
          // Weights and their gradients are rounded before they meet v, q and k.
          d_score.error += (u.weight + u.accumulator) * std::fabs(d_score.value) + u.smallest;
          for (Index c = 0; c < head_dim; ++c) {
            const double q = problem.q(b, h, i, c), k = problem.k(b, kv, j, c);
            gradients.d_q(b, h, i, c) += scale * d_score.value * k;
            errors.d_q(b, h, i, c) +=
                std::fabs(scale * k) *
                    (d_score.error + (visible + 4) * u.accumulator * std::fabs(d_score.value)) +
                u.smallest;
            gradients.d_k(b, kv, j, c) += scale * d_score.value * q;
            errors.d_k(b, kv, j, c) +=
                std::fabs(scale * q) *
                    (d_score.error + (terms + 4) * u.accumulator * std::fabs(d_score.value)) +
                u.smallest;
          }
          for (Index c = 0; c < value_dim; ++c) {
            const double d = (*problem.d_out)(b, h, i, c);
            gradients.d_v(b, kv, j, c) += A.value * d;
            errors.d_v(b, kv, j, c) +=
                std::fabs(d) * (A.error + (terms + 2) * u.accumulator * A.value) + u.smallest;
          }
        }
      }
    }
  }
  const auto round = [&](const Tensor<double, 4>& values, Tensor<double, 4>& error) {
    for (Index at = 0; at < values.size(); ++at) {
      error.data()[at] += u.output * std::fabs(values.data()[at]) + u.smallest;
    }
  };
  round(gradients.d_q, errors.d_q);
  round(gradients.d_k, errors.d_k);
  round(gradients.d_v, errors.d_v);
}

}  // namespace headproof
