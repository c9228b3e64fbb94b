// Fast exact attention in the canonical order.
#pragma once

#include "headproof/attention.h"

namespace headproof {

/// Forward attention with the bits of attention_canonical; memory O(seq_len * head_dim).
template <class Scalar>
void attention_fused(View<const Scalar, 4> q, View<const Scalar, 4> k, View<const Scalar, 4> v,
                     const AttentionOptions& options, View<Scalar, 4> out, View<Scalar, 3> lse);

}  // namespace headproof
