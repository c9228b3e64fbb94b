// The canonical order in scalar code: the oracle for bits.
#pragma once

#include "headproof/attention.h"

namespace headproof {

/// Forward attention in the canonical order; the same bits as the fused kernel on every machine.
/// Preconditions and conventions are those of attention_reference. Scalar: float or double.
template <class Scalar>
AttentionOutput<Scalar> attention_canonical(View<const Scalar, 4> q, View<const Scalar, 4> k,
                                            View<const Scalar, 4> v,
                                            const AttentionOptions& options = {});

/// The gradients of sum(d_out * out) in the canonical order; out and lse are those of
/// attention_canonical for the same q, k, v and options.
template <class Scalar>
AttentionGradients<Scalar> attention_canonical_backward(
    View<const Scalar, 4> q, View<const Scalar, 4> k, View<const Scalar, 4> v,
    View<const Scalar, 4> out, View<const Scalar, 3> lse, View<const Scalar, 4> d_out,
    const AttentionOptions& options = {});

}  // namespace headproof
