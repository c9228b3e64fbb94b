#include "attention/canonical.h"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/elementary.h"
#include "attention/float_mode.h"
#include "attention/order.h"
#include "attention/visible.h"

namespace headproof {
namespace {

/// A row's running state: the maximum, the sum of exp(logit - maximum), and the weighted values.
template <class Scalar>
struct Running {
  Scalar maximum = -std::numeric_limits<Scalar>::infinity();
  std::array<Scalar, sum_lanes> sums{};  ///< lane = key mod sum_lanes
  Scalar sum = 0;                        ///< the lanes, folded at the end of a span
  std::vector<Scalar> values;
  bool empty = true;
};

/// The point that exponents are taken from: the maximum, or 0 while every logit is -infinity.
template <class Scalar>
Scalar origin(Scalar maximum) {
  return maximum == -std::numeric_limits<Scalar>::infinity() ? Scalar(0) : maximum;
}

template <class Scalar>
Scalar folded_sum(std::array<Scalar, sum_lanes> lanes) {
  for (std::size_t width = sum_lanes / 2; width > 0; width /= 2) {
    for (std::size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

}  // namespace

template <class Scalar>
AttentionOutput<Scalar> attention_canonical(View<const Scalar, 4> q, View<const Scalar, 4> k,
                                            View<const Scalar, 4> v,
                                            const AttentionOptions& options) {
  const auto [batch, num_heads, seq_len_q, head_dim] = q.shape;
  const Index seq_len_k = k.shape[2], value_dim = v.shape[3];
  const Index group = k.shape[1] == 0 ? 1 : num_heads / k.shape[1];
  const StandardFloatMode mode;
  const Scalar scale = scale_of<Scalar>(options, head_dim);
  AttentionOutput<Scalar> result{Tensor<Scalar, 4>({batch, num_heads, seq_len_q, value_dim}),
                                 Tensor<Scalar, 3>({batch, num_heads, seq_len_q})};
  for (Index b = 0; b < batch; ++b) {
    for (Index h = 0; h < num_heads; ++h) {
      const auto queries = q[b][h];
      const auto keys = k[b][h / group];
      const auto values = v[b][h / group];
      for (Index i = 0; i < seq_len_q; ++i) {
        const Index visible = visible_keys(options.causal, i, seq_len_q, seq_len_k);
        Running<Scalar> row{.values = std::vector<Scalar>(static_cast<std::size_t>(value_dim))};
        for (Index span = 0; span < visible; span += key_block * blocks_per_span) {
          const Index span_end = std::min(span + key_block * blocks_per_span, visible);
          Running<Scalar> part{.values = std::vector<Scalar>(row.values.size())};
          for (Index first = span; first < span_end; first += key_block) {
            const Index count = std::min(key_block, span_end - first);
            std::array<Scalar, key_block> weights{};
            Scalar maximum = part.maximum;
            for (Index j = 0; j < count; ++j) {
              Scalar dot = 0;
              for (Index c = 0; c < head_dim; ++c) {
                dot = std::fma(queries(i, c), keys(first + j, c), dot);
              }
              weights[static_cast<std::size_t>(j)] = dot * scale;
              if (dot * scale > maximum) maximum = dot * scale;
            }
            const Scalar shift = origin(maximum);
            const Scalar rescale = canonical_exp(part.maximum - shift);
            std::array<Scalar, sum_lanes> lanes{};
            for (Index j = 0; j < count; ++j) {
              Scalar& weight = weights[static_cast<std::size_t>(j)];
              weight = canonical_exp(weight - shift);
              lanes[static_cast<std::size_t>(j % sum_lanes)] += weight;
            }
            part.maximum = maximum;
            for (std::size_t lane = 0; lane < sum_lanes; ++lane) {
              part.sums[lane] = std::fma(part.sums[lane], rescale, lanes[lane]);
            }
            for (Index c = 0; c < value_dim; ++c) {
              Scalar& value = part.values[static_cast<std::size_t>(c)];
              value *= rescale;
              for (Index j = 0; j < count; ++j) {
                value = std::fma(weights[static_cast<std::size_t>(j)], values(first + j, c), value);
              }
            }
          }
          part.empty = false;
          part.sum = folded_sum(part.sums);
          if (row.empty) {
            row = std::move(part);
            continue;
          }
          const Scalar maximum = part.maximum > row.maximum ? part.maximum : row.maximum;
          const Scalar old_share = canonical_exp(row.maximum - origin(maximum));
          const Scalar new_share = canonical_exp(part.maximum - origin(maximum));
          row.maximum = maximum;
          row.sum = std::fma(row.sum, old_share, part.sum * new_share);
          for (std::size_t c = 0; c < row.values.size(); ++c) {
            row.values[c] = std::fma(row.values[c], old_share, part.values[c] * new_share);
          }
        }
        result.lse(b, h, i) = lse_of(row.maximum, row.sum, row.empty);
        for (Index c = 0; c < value_dim; ++c) {
          result.out(b, h, i, c) =
              row.empty ? Scalar(0) : row.values[static_cast<std::size_t>(c)] / row.sum;
        }
      }
    }
  }
  return result;
}

template AttentionOutput<float> attention_canonical(View<const float, 4>, View<const float, 4>,
                                                    View<const float, 4>, const AttentionOptions&);
template AttentionOutput<double> attention_canonical(View<const double, 4>, View<const double, 4>,
                                                     View<const double, 4>,
                                                     const AttentionOptions&);

}  // namespace headproof
