// The definition of attention, and its gradients. Each line of the backward pass stands under the
// forward line that it differentiates.

#include <cmath>
#include <limits>
#include <string>

#include "attention/visible.h"
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
template <class Scalar>
Scalar exp_of(const Scalar& x) {
  return std::exp(x);
}
template <class Scalar>
Scalar log_of(const Scalar& x) {
  return std::log(x);
}

template <class Scalar>
Scalar scale_for(const AttentionOptions& options, Index head_dim) {
  using Real = typename RealOf<Scalar>::type;
  if (options.scale) return Scalar(static_cast<Real>(*options.scale));
  return Scalar(Real(1) / std::sqrt(static_cast<Real>(head_dim)));
}

std::string text_of(const std::array<Index, 4>& shape) {
  std::string text = "[";
  for (Index extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

}  // namespace

std::optional<Error> attention_shape_error(const std::array<Index, 4>& q,
                                           const std::array<Index, 4>& k,
                                           const std::array<Index, 4>& v) {
  const auto shapes = " (shapes q " + text_of(q) + ", k " + text_of(k) + ", v " + text_of(v) + ")";
  if (q[0] != k[0] || k[0] != v[0]) return Error{"q, k and v have different batch sizes" + shapes};
  if (q[3] != k[3]) return Error{"q and k need the same last size, head_dim" + shapes};
  if (k[2] != v[2]) return Error{"k and v need the same number of keys" + shapes};
  if (k[1] != v[1]) return Error{"k and v need the same number of heads" + shapes};
  if (q[1] != k[1] && (k[1] == 0 || q[1] % k[1] != 0)) {
    return Error{"the heads of k and v must divide the heads of q" + shapes};
  }
  if (q[3] == 0) return Error{"head_dim is 0, where 1 / sqrt(head_dim) has no value" + shapes};
  return std::nullopt;
}

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
  const auto scale = scale_for<Scalar>(options, head_dim);

  AttentionStages<Scalar> stages;
  stages.scores = Tensor<Scalar, 4>({batch, num_heads, seq_len_q, seq_len_k});
  stages.logits = stages.scores;
  stages.A = stages.scores;
  stages.lse = Tensor<Scalar, 3>({batch, num_heads, seq_len_q});
  stages.out = Tensor<Scalar, 4>({batch, num_heads, seq_len_q, value_dim});

  for (Index b = 0; b < batch; ++b) {
    for (Index h = 0; h < num_heads; ++h) {
      const auto queries = q[b][h];
      const auto keys = k[b][h / group];
      const auto values = v[b][h / group];
      for (Index i = 0; i < seq_len_q; ++i) {
        const auto scores = stages.scores[b][h][i];
        const auto logits = stages.logits[b][h][i];
        const auto weights = stages.A[b][h][i];
        const auto out = stages.out[b][h][i];
        const Index visible = visible_keys(options.causal, i, seq_len_q, seq_len_k);

        for (Index j = 0; j < seq_len_k; ++j) {
          Scalar dot(0);
          for (Index c = 0; c < head_dim; ++c) dot += queries(i, c) * keys(j, c);
          scores(j) = scale * dot;
          logits(j) = j < visible ? scores(j) : Scalar(-infinity);
        }

        Scalar maximum(-infinity);
        for (Index j = 0; j < visible; ++j) {
          if (real_part(logits(j)) > real_part(maximum)) maximum = logits(j);
        }
        Scalar sum(0);
        for (Index j = 0; j < visible; ++j) sum += weights(j) = exp_of(logits(j) - maximum);
        stages.lse(b, h, i) = visible == 0 ? Scalar(-infinity) : maximum + log_of(sum);
        for (Index j = 0; j < visible; ++j) weights(j) /= sum;

        for (Index j = 0; j < visible; ++j) {
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
  const auto [batch, num_heads, seq_len_q, head_dim] = q.shape;
  const Index seq_len_k = k.shape[2];
  const Index value_dim = v.shape[3];
  const Index group = k.shape[1] == 0 ? 1 : num_heads / k.shape[1];
  const auto scale = scale_for<Scalar>(options, head_dim);

  AttentionGradients<Scalar> gradients;
  gradients.d_q = Tensor<Scalar, 4>(q.shape);
  gradients.d_k = Tensor<Scalar, 4>(k.shape);
  gradients.d_v = Tensor<Scalar, 4>(v.shape);
  Tensor<Scalar, 1> d_weights({seq_len_k});

  for (Index b = 0; b < batch; ++b) {
    for (Index h = 0; h < num_heads; ++h) {
      const auto queries = q[b][h];
      const auto keys = k[b][h / group];
      const auto values = v[b][h / group];
      const auto d_queries = gradients.d_q[b][h];
      const auto d_keys = gradients.d_k[b][h / group];
      const auto d_values = gradients.d_v[b][h / group];
      for (Index i = 0; i < seq_len_q; ++i) {
        const auto weights = forward.A[b][h][i];
        const auto d_row = d_out[b][h][i];
        const Index visible = visible_keys(options.causal, i, seq_len_q, seq_len_k);

        // out(c) += weights(j) * values(j, c)
        Scalar delta(0);  // sum over j of weights(j) * d_weights(j)
        for (Index j = 0; j < visible; ++j) {
          Scalar d_weight(0);
          for (Index c = 0; c < value_dim; ++c) {
            d_weight += d_row(c) * values(j, c);
            d_values(j, c) += weights(j) * d_row(c);
          }
          d_weights(j) = d_weight;
          delta += weights(j) * d_weight;
        }

        for (Index j = 0; j < visible; ++j) {
          // weights = softmax(logits), whose Jacobian is diag(p) - p p^T; logits = scores
          const Scalar d_score = weights(j) * (d_weights(j) - delta);
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
