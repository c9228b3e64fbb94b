// Which keys a query may see, as every implementation reads it off the options.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <variant>

#include "headproof/attention.h"

namespace headproof {

/// Keys begin .. end - 1; none when begin == end.
struct KeyRange {
  Index begin, end;
};

/// What causality, windows and lengths allow in one sequence of the batch, before the mask.
class VisibleKeys {
 public:
  VisibleKeys() {}  // without values
  VisibleKeys(const AttentionOptions& options, Index b, Index seq_len_q, Index seq_len_k)
      : first_(options.first_key.size() == 0 ? 0 : options.first_key(b)),
        end_(options.key_length.size() == 0 ? seq_len_k : options.key_length(b)),
        offset_(options.query_offset.value_or(
            options.causal == Causal::bottom_right ? end_ - seq_len_q : 0)),
        before_(options.window ? *options.window - 1 : unlimited),
        after_(options.causal != Causal::none ? 0 : options.window_right.value_or(unlimited)) {}

  /// Where the sequence's keys lie: blocks of keys are counted from the first.
  KeyRange sequence() const { return {first_, end_}; }

  /// What query i might see in a sequence without ends; query i + 1 might see what is one later.
  KeyRange around(Index i) const { return {offset_ + i - before_, offset_ + i + after_ + 1}; }

  /// What query i may see.
  KeyRange of(Index i) const {
    const KeyRange near = around(i);
    const Index begin = std::max(first_, near.begin), end = std::min(end_, near.end);
    return begin < end ? KeyRange{begin, end} : KeyRange{};
  }

 private:
  /// Positions are at most 2^61 in size, as the limits of the options say.
  static constexpr Index unlimited = Index{1} << 62;
  Index first_, end_, offset_, before_, after_;
};

/// The mask of one batch element and head, without its broadcast axes.
template <class T>
View<const T, 2> mask_of_head(const View<const T, 4>& mask, Index b, Index h) {
  std::array<Index, 4> strides = mask.strides;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (mask.shape[axis] == 1) strides[axis] = 0;
  }
  return {mask.data + b * strides[0] + h * strides[1],
          {mask.shape[2], mask.shape[3]},
          {strides[2], strides[3]}};
}

/// What the mask adds to the logit of a query and a key; -infinity forbids.
template <class Real>
Real mask_value(const Mask& mask, Index b, Index h, Index i, Index j) {
  return std::visit(
      [&](const auto& view) -> Real {
        using View = std::decay_t<decltype(view)>;
        if constexpr (std::is_same_v<View, std::monostate>) {
          return 0;
        } else {
          const auto value = mask_of_head(view, b, h)(i, j);
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, bool>) {
            return value ? Real(0) : -std::numeric_limits<Real>::infinity();
          } else {
            return static_cast<Real>(value);
          }
        }
      },
      mask);
}

/// What multiplies q k^T.
template <class Real>
Real scale_of(const AttentionOptions& options, Index head_dim) {
  if (options.scale) return static_cast<Real>(*options.scale);
  return Real(1) / std::sqrt(static_cast<Real>(head_dim));
}

}  // namespace headproof
