// The definition of attention, and its gradients. Each line of the backward pass stands under the
// forward line that it differentiates.

#include <cmath>
#include <limits>
#include <vector>

#include "attention/allowed.h"
#include "headproof/attention.h"

namespace headproof {
namespace {

template <class Scalar>
struct RealOf {
  using type = Scalar;
};
template <class Real>
struct RealOf<std::complex<Real>> {
  using type = Real;
};

template <class Scalar>
auto real_part(const Scalar& value) {
  return std::real(value);
}

// In float through double: the C library's double function is right to far more digits than float
// holds, so that the rounded result does not depend on the library's version or on the processor.
float exp_of(float x) { return static_cast<float>(std::exp(static_cast<double>(x))); }
float log_of(float x) { return static_cast<float>(std::log(static_cast<double>(x))); }
float tanh_of(float x) { return static_cast<float>(std::tanh(static_cast<double>(x))); }
template <class Scalar>
Scalar exp_of(const Scalar& x) {
  return std::exp(x);
}
template <class Scalar>
Scalar log_of(const Scalar& x) {
  return std::log(x);
}
template <class Scalar>
Scalar tanh_of(const Scalar& x) {
  return std::tanh(x);
}

/// A key that a query may see, and what the mask adds to its logit.
template <class Real>
struct SeenKey {
  Index j;
  Real added;
};

template <class Real>
std::vector<SeenKey<Real>> seen_keys(const VisibleKeys& visible, const Mask& mask, Index b, Index h,
                                     Index i) {
  std::vector<SeenKey<Real>> seen;
  const KeyRange range = visible.of(i);
  seen.reserve(static_cast<std::size_t>(range.end - range.begin));
  for (Index j = range.begin; j < range.end; ++j) {
    const Real added = mask_value<Real>(mask, b, h, i, j);
    if (added != -std::numeric_limits<Real>::infinity()) seen.push_back({j, added});
  }
  return seen;
}

}  // namespace

template <class Scalar>
AttentionStages<Scalar> attention_reference(View<const Scalar, 4> q, View<const Scalar, 4> k,
                                            View<const Scalar, 4> v,
                                            const AttentionOptions& options) {
  using Real = typename RealOf<Scalar>::type;
  constexpr Real infinity = std::numeric_limits<Real>::infinity();
  const auto [batch, num_heads, seq_len_q, head_dim] = q.shape;
  const Index seq_len_k = k.shape[2];
  const Index value_dim = v.shape[3];
  const Index group = k.shape[1] == 0 ? 1 : num_heads / k.shape[1];
  const Scalar scale(scale_of<Real>(options, head_dim));
  const Scalar softcap(static_cast<Real>(options.softcap));

  AttentionStages<Scalar> stages;
  stages.scores = Tensor<Scalar, 4>({batch, num_heads, seq_len_q, seq_len_k});
  stages.logits = stages.scores;
  std::fill(stages.logits.begin(), stages.logits.end(), Scalar(-infinity));
  stages.A = stages.scores;
  stages.lse = Tensor<Scalar, 3>({batch, num_heads, seq_len_q});
  stages.out = Tensor<Scalar, 4>({batch, num_heads, seq_len_q, value_dim});

  for (Index b = 0; b < batch; ++b) {
    const VisibleKeys visible(options, b, seq_len_q, seq_len_k);
    const KeyRange sequence = visible.sequence();  // other keys are padding, and never read
    for (Index h = 0; h < num_heads; ++h) {
      const auto queries = q[b][h];
      const auto keys = k[b][h / group];
      const auto values = v[b][h / group];
      for (Index i = 0; i < seq_len_q; ++i) {
        const auto scores = stages.scores[b][h][i];
        const auto logits = stages.logits[b][h][i];
        const auto weights = stages.A[b][h][i];
        const auto out = stages.out[b][h][i];
        const auto seen = seen_keys<Real>(visible, options.mask, b, h, i);

        for (Index j = sequence.begin; j < sequence.end; ++j) {
          Scalar dot(0);
          for (Index c = 0; c < head_dim; ++c) dot += queries(i, c) * keys(j, c);
          scores(j) = scale * dot;
        }
        Scalar maximum(-infinity);
        for (const auto& [j, added] : seen) {
          const bool capped = options.softcap > 0;
          logits(j) = (capped ? softcap * tanh_of(scores(j) / softcap) : scores(j)) + added;
          if (real_part(logits(j)) > real_part(maximum)) maximum = logits(j);
        }

        Scalar sum(0);
        for (const auto& [j, added] : seen) sum += weights(j) = exp_of(logits(j) - maximum);
        stages.lse(b, h, i) = maximum + log_of(sum);  // -inf + ln 0 = -inf in an empty row
        for (const auto& [j, added] : seen) weights(j) /= sum;

        for (const auto& [j, added] : seen) {
          for (Index c = 0; c < value_dim; ++c) out(c) += weights(j) * values(j, c);
        }
      }
    }
  }
  return stages;
}

template <class Scalar>
AttentionGradients<Scalar> attention_reference_backward(
    const AttentionStages<Scalar>& forward, View<const Scalar, 4> q, View<const Scalar, 4> k,
    View<const Scalar, 4> v, View<const Scalar, 4> d_out, const AttentionOptions& options) {
  using Real = typename RealOf<Scalar>::type;
  const auto [batch, num_heads, seq_len_q, head_dim] = q.shape;
  const Index seq_len_k = k.shape[2];
  const Index value_dim = v.shape[3];
  const Index group = k.shape[1] == 0 ? 1 : num_heads / k.shape[1];
  const Scalar scale(scale_of<Real>(options, head_dim));
  const Scalar softcap(static_cast<Real>(options.softcap));

  AttentionGradients<Scalar> gradients;
  gradients.d_q = Tensor<Scalar, 4>(q.shape);
  gradients.d_k = Tensor<Scalar, 4>(k.shape);
  gradients.d_v = Tensor<Scalar, 4>(v.shape);
  Tensor<Scalar, 1> d_weights({seq_len_k});

  for (Index b = 0; b < batch; ++b) {
    const VisibleKeys visible(options, b, seq_len_q, seq_len_k);
    for (Index h = 0; h < num_heads; ++h) {
      const auto queries = q[b][h];
      const auto keys = k[b][h / group];
      const auto values = v[b][h / group];
      const auto d_queries = gradients.d_q[b][h];
      const auto d_keys = gradients.d_k[b][h / group];
      const auto d_values = gradients.d_v[b][h / group];
      for (Index i = 0; i < seq_len_q; ++i) {
        const auto scores = forward.scores[b][h][i];
        const auto weights = forward.A[b][h][i];
        const auto d_row = d_out[b][h][i];
        const auto seen = seen_keys<Real>(visible, options.mask, b, h, i);

        // out(c) += weights(j) * values(j, c)
        Scalar delta(0);  // sum over j of weights(j) * d_weights(j)
        for (const auto& [j, added] : seen) {
          Scalar d_weight(0);
          for (Index c = 0; c < value_dim; ++c) {
            d_weight += d_row(c) * values(j, c);
            d_values(j, c) += weights(j) * d_row(c);
          }
          d_weights(j) = d_weight;
          delta += weights(j) * d_weight;
        }

        for (const auto& [j, added] : seen) {
          // weights = softmax(logits), whose Jacobian is diag(p) - p p^T
          Scalar d_score = weights(j) * (d_weights(j) - delta);
          // logits(j) = softcap * tanh(scores(j) / softcap) + added, or scores(j) + added
          if (options.softcap > 0) {
            const Scalar tanh = tanh_of(scores(j) / softcap);
            d_score *= Scalar(1) - tanh * tanh;
          }
          // scores(j) = scale * sum over c of queries(i, c) * keys(j, c)
          for (Index c = 0; c < head_dim; ++c) {
            d_queries(i, c) += scale * d_score * keys(j, c);
            d_keys(j, c) += scale * d_score * queries(i, c);
          }
        }
      }
    }
  }
  return gradients;
}

#define HEADPROOF_INSTANTIATE(Scalar)                                               \
  template AttentionStages<Scalar> attention_reference(                             \
      View<const Scalar, 4>, View<const Scalar, 4>, View<const Scalar, 4>,          \
      const AttentionOptions&);                                                     \
  template AttentionGradients<Scalar> attention_reference_backward(                 \
      const AttentionStages<Scalar>&, View<const Scalar, 4>, View<const Scalar, 4>, \
      View<const Scalar, 4>, View<const Scalar, 4>, const AttentionOptions&);
HEADPROOF_INSTANTIATE(float)
HEADPROOF_INSTANTIATE(double)
HEADPROOF_INSTANTIATE(long double)
HEADPROOF_INSTANTIATE(std::complex<double>)
#undef HEADPROOF_INSTANTIATE

}  // namespace headproof
