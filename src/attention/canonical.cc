// Attention in the canonical order, spelled out: the oracle for bits. docs/kernel.md has the
// derivation.
#include "attention/canonical.h"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/allowed.h"
#include "attention/elementary.h"
#include "attention/float_mode.h"
#include "attention/order.h"

namespace headproof {
namespace {

/// A row's running state: the maximum, the sum of exp(logit - maximum), and the weighted values.
template <class Scalar>
struct Running {
  Scalar maximum = -std::numeric_limits<Scalar>::infinity();
  std::array<Scalar, sum_lanes> lanes{};  ///< of the sum, lane = key mod sum_lanes
  Scalar sum = 0;                         ///< the lanes, folded at the end of a span
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

/// A key that the row may see, and its logit.
template <class Scalar>
struct Seen {
  Index key;
  Scalar logit;
};

/// Takes the allowed keys of one block into the state.
template <class Scalar>
void add_block(Running<Scalar>& state, const std::vector<Seen<Scalar>>& block, Index first_key,
               View<const Scalar, 2> values) {
  if (block.empty()) return;
  Scalar maximum = state.maximum;
  for (const auto& seen : block) {
    if (seen.logit > maximum) maximum = seen.logit;
  }
  const Scalar rescale = canonical_exp(state.maximum - origin(maximum));
  std::array<Scalar, sum_lanes> lanes{};
  for (Scalar& value : state.values) value *= rescale;
  for (const auto& seen : block) {
    const Scalar weight = canonical_exp(seen.logit - origin(maximum));
    lanes[static_cast<std::size_t>((seen.key - first_key) % sum_lanes)] += weight;
    for (std::size_t c = 0; c < state.values.size(); ++c) {
      state.values[c] = std::fma(weight, values(seen.key, static_cast<Index>(c)), state.values[c]);
    }
  }
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    state.lanes[lane] = std::fma(state.lanes[lane], rescale, lanes[lane]);
  }
  state.maximum = maximum;
  state.empty = false;
}

/// Takes a finished span into the row.
template <class Scalar>
void merge_span(Running<Scalar>& row, Running<Scalar> span) {
  if (span.empty) return;
  span.sum = folded_sum(span.lanes);
  if (row.empty) {
    row = std::move(span);
    return;
  }
  const Scalar maximum = span.maximum > row.maximum ? span.maximum : row.maximum;
  const Scalar old_share = canonical_exp(row.maximum - origin(maximum));
  const Scalar new_share = canonical_exp(span.maximum - origin(maximum));
  row.maximum = maximum;
  row.sum = std::fma(row.sum, old_share, span.sum * new_share);
  for (std::size_t c = 0; c < row.values.size(); ++c) {
    row.values[c] = std::fma(row.values[c], old_share, span.values[c] * new_share);
  }
}

}  // namespace

template <class Scalar>
AttentionOutput<Scalar> attention_canonical(View<const Scalar, 4> q, View<const Scalar, 4> k,
                                            View<const Scalar, 4> v,
                                            const AttentionOptions& options) {
  constexpr Scalar infinity = std::numeric_limits<Scalar>::infinity();
  const auto [batch, num_heads, seq_len_q, head_dim] = q.shape;
  const Index value_dim = v.shape[3];
  const Index group = k.shape[1] == 0 ? 1 : num_heads / k.shape[1];
  const StandardFloatMode mode;
  const Scalar scale = scale_of<Scalar>(options, head_dim);
  const auto softcap = static_cast<Scalar>(options.softcap);
  AttentionOutput<Scalar> result{Tensor<Scalar, 4>({batch, num_heads, seq_len_q, value_dim}),
                                 Tensor<Scalar, 3>({batch, num_heads, seq_len_q})};
  for (Index b = 0; b < batch; ++b) {
    const VisibleKeys visible(options, b, seq_len_q, k.shape[2]);
    const Index first_key = visible.sequence().begin;
    for (Index h = 0; h < num_heads; ++h) {
      const auto queries = q[b][h];
      const auto keys = k[b][h / group];
      const auto values = v[b][h / group];
      for (Index i = 0; i < seq_len_q; ++i) {
        const Running<Scalar> zero{.values = std::vector<Scalar>(std::size_t(value_dim))};
        Running<Scalar> row = zero, span = zero;
        std::vector<Seen<Scalar>> block;
        const KeyRange range = visible.of(i);
        for (Index j = range.begin; j < range.end; ++j) {
          const Scalar added = mask_value<Scalar>(options.mask, b, h, i, j);
          if (added != -infinity) {
            Scalar score = 0;
            for (Index c = 0; c < head_dim; ++c) {
              score = std::fma(queries(i, c), keys(j, c), score);
            }
            score *= scale;
            if (softcap > 0) score = softcap * canonical_tanh(score / softcap);
            block.push_back({j, score + added});
          }
          const Index done = j + 1 - first_key;
          if (done % key_block == 0 || j + 1 == range.end) {
            add_block(span, block, first_key, values);
            block.clear();
          }
          if (done % span_length == 0 || j + 1 == range.end) {
            merge_span(row, std::exchange(span, zero));
          }
        }
        // All logits may be -infinity by their own value: then the sum is 0, and the row NaN.
        result.lse(b, h, i) = row.empty      ? -infinity
                              : row.sum == 0 ? std::numeric_limits<Scalar>::quiet_NaN()
                                             : row.maximum + canonical_log(row.sum);
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
