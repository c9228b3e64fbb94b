// Attention to few keys, where what surrounds the arithmetic would take longer than it.
#pragma once

#include "attention/tile.h"

namespace headproof {

/// With so few keys each has a lane of the sums to itself.
inline constexpr int few_keys = sum_lanes;

/// Whether attention_few_keys does what the options want of this many keys.
inline bool few_keys_suffice(const AttentionOptions& options, Index seq_len_k) {
  const bool no_numbers = options.mask.index() <= 1;  // none are added to scores
  return seq_len_k <= few_keys && options.softcap == 0 && no_numbers;
}

/// Forward attention with the bits of attention_canonical; lse may be absent (null data).
/// Preconditions: few_keys_suffice, and shapes, memory and options are right. The error says that
/// `options.progress` stopped the work.
template <class Scalar>
Status attention_few_keys(const View<const Scalar, 4>& q, const View<const Scalar, 4>& k,
                          const View<const Scalar, 4>& v, const AttentionOptions& options,
                          const View<Scalar, 4>& out, const View<Scalar, 3>& lse);

}  // namespace headproof
