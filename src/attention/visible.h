// What reference, canonical and fused read off the options in the same way.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/elementary.h"
#include "headproof/attention.h"

namespace headproof {

/// The position of query 0 among the keys.
inline Index query_offset(Causal causal, Index seq_len_q, Index seq_len_k) {
  return causal == Causal::bottom_right ? seq_len_k - seq_len_q : 0;
}

/// How many keys query i may see: keys 0 .. count - 1.
inline Index visible_keys(Causal causal, Index i, Index seq_len_q, Index seq_len_k) {
  if (causal == Causal::none) return seq_len_k;
  return std::clamp<Index>(query_offset(causal, seq_len_q, seq_len_k) + i + 1, 0, seq_len_k);
}

/// What multiplies q k^T.
template <class Real>
Real scale_of(const AttentionOptions& options, Index head_dim) {
  if (options.scale) return static_cast<Real>(*options.scale);
  return Real(1) / std::sqrt(static_cast<Real>(head_dim));
}

/// ln of a row's sum of exponentials; -infinity for a row without an allowed key, NaN for a row
/// whose logits are all -infinity by their own value.
template <class Real>
Real lse_of(Real maximum, Real sum, bool empty) {
  if (empty) return -std::numeric_limits<Real>::infinity();
  if (sum == 0) return std::numeric_limits<Real>::quiet_NaN();
  return maximum + canonical_log(sum);
}

}  // namespace headproof
