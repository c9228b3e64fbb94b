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

}  // namespace headproof
