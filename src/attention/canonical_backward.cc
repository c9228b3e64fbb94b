// The gradients of attention in the canonical order, spelled out: the oracle for bits.
//
//   delta_i    = sum over value channels, ascending, of d_out(i, c) out(i, c)
//   p_ij       = exp(logit_ij - lse_i), the logit as in the forward pass
//   dp_ij      = sum over value channels, ascending, of d_out(i, c) v(j, c)
//   ds_ij      = p_ij (dp_ij - delta_i), and with a softcap times 1 - tanh^2
//   d_q(i, c)  = scale * sum over keys j of ds_ij k(j, c)
//   d_k(j, c)  = scale * sum over queries i of ds_ij q(i, c)
//   d_v(j, c)  = sum over queries i of p_ij d_out(i, c)
//
// The first sums are chains of fused multiply-adds from 0. Of the last three each span has one such
// chain, and the chains are added to 0 in ascending order: keys in spans from the sequence's first
// key, queries in spans from query 0, and where query heads share a key head, the heads one after
// another, each with all its spans. As x + 0 = x for every x that such a sum can be (a sum that
// starts at +0 is never -0), it makes no difference whether a span that adds nothing is left out.
//
// Entries that are not allowed take no part. Neither do rows whose d_out is 0 throughout: the loss
// does not depend on them, whatever they hold.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/allowed.h"
#include "attention/canonical.h"
#include "attention/elementary.h"
#include "attention/float_mode.h"
#include "attention/order.h"

namespace headproof {
namespace {

/// The sum over channels, ascending, of a(c) b(c).
template <class Scalar>
Scalar dot(View<const Scalar, 1> a, View<const Scalar, 1> b) {
  Scalar sum = 0;
  for (Index c = 0; c < a.shape[0]; ++c) sum = std::fma(a(c), b(c), sum);
  return sum;
}

/// sum += factor x
template <class Scalar>
void add_product(View<Scalar, 1> sum, Scalar factor, View<const Scalar, 1> x) {
  for (Index c = 0; c < x.shape[0]; ++c) sum(c) = std::fma(factor, x(c), sum(c));
}

/// Adds the chain of a span to the total; the next starts from 0.
template <class Scalar, std::size_t Rank>
void end_span(Tensor<Scalar, Rank>& chain, View<Scalar, Rank> total) {
  const Scalar* next = chain.data();
  total.for_each([&next](Scalar& sum) { sum += *next++; });
  std::fill(chain.begin(), chain.end(), Scalar(0));
}

}  // namespace

template <class Scalar>
AttentionGradients<Scalar> attention_canonical_backward(
    View<const Scalar, 4> q, View<const Scalar, 4> k, View<const Scalar, 4> v,
    View<const Scalar, 4> out, View<const Scalar, 3> lse, View<const Scalar, 4> d_out,
    const AttentionOptions& options) {
  const auto [batch, num_heads, seq_len_q, head_dim] = q.shape;
  const Index seq_len_k = k.shape[2], value_dim = v.shape[3];
  const Index group = k.shape[1] == 0 ? 1 : num_heads / k.shape[1];
  const StandardFloatMode mode;
  const Scalar scale = scale_of<Scalar>(options, head_dim);
  const auto softcap = static_cast<Scalar>(options.softcap);
  AttentionGradients<Scalar> total{Tensor<Scalar, 4>(q.shape), Tensor<Scalar, 4>(k.shape),
                                   Tensor<Scalar, 4>(v.shape)};
  Tensor<Scalar, 1> d_q({head_dim});
  Tensor<Scalar, 2> d_k({seq_len_k, head_dim}), d_v({seq_len_k, value_dim});
  for (Index b = 0; b < batch; ++b) {
    const VisibleKeys visible(options, b, seq_len_q, seq_len_k);
    for (Index h = 0; h < num_heads; ++h) {
      const auto keys = k[b][h / group], values = v[b][h / group];
      for (Index i = 0; i < seq_len_q; ++i) {
        const auto query = q[b][h][i], d_row = d_out[b][h][i];
        bool matters = false;
        for (Index c = 0; c < value_dim; ++c) matters = matters || d_row(c) != 0;
        const Scalar delta = dot(d_row, out[b][h][i]);
        const KeyRange range = matters ? visible.of(i) : KeyRange{};
        for (Index j = range.begin; j < range.end; ++j) {
          const Scalar added = mask_value<Scalar>(options.mask, b, h, i, j);
          if (added != -std::numeric_limits<Scalar>::infinity()) {
            Scalar logit = dot(query, keys[j]) * scale, tanh = 0;
            if (softcap > 0) {
              tanh = canonical_tanh(logit / softcap);
              logit = softcap * tanh;
            }
            const Scalar p = canonical_exp(logit + added - lse(b, h, i));
            Scalar ds = p * (dot(d_row, values[j]) - delta);
            if (softcap > 0) ds *= std::fma(-tanh, tanh, Scalar(1));
            add_product(d_q.view(), ds, keys[j]);
            add_product(d_k[j], ds, query);
            add_product(d_v[j], p, d_row);
          }
          const bool last_of_span = (j + 1 - visible.sequence().begin) % span_length == 0;
          if (last_of_span || j + 1 == range.end) end_span(d_q, total.d_q[b][h][i]);
        }
        if ((i + 1) % span_length == 0 || i + 1 == seq_len_q) {
          end_span(d_k, total.d_k[b][h / group]);
          end_span(d_v, total.d_v[b][h / group]);
        }
      }
    }
  }
  // Adding +0 makes a gradient of 0 a +0 for every scale.
  for (Scalar& sum : total.d_q) sum = sum * scale + Scalar(0);
  for (Scalar& sum : total.d_k) sum = sum * scale + Scalar(0);
  return total;
}

#define HEADPROOF_INSTANTIATE(Scalar)                                                             \
  template AttentionGradients<Scalar> attention_canonical_backward(                               \
      View<const Scalar, 4>, View<const Scalar, 4>, View<const Scalar, 4>, View<const Scalar, 4>, \
      View<const Scalar, 3>, View<const Scalar, 4>, const AttentionOptions&);
HEADPROOF_INSTANTIATE(float)
HEADPROOF_INSTANTIATE(double)
#undef HEADPROOF_INSTANTIATE

}  // namespace headproof
