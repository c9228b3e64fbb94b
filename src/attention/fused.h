// Fast exact attention in the canonical order.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>

#include "attention/check.h"
#include "attention/tile.h"
#include "headproof/attention.h"

namespace headproof {

/// What is wrong with the memory of inputs, options and results; lse may be absent (null data).
template <class Scalar>
std::optional<Error> output_error(std::initializer_list<AnyView> inputs,
                                  const AttentionOptions& options, const View<const Scalar, 4>& q,
                                  Index value_dim, const View<Scalar, 4>& out,
                                  const View<Scalar, 3>& lse);

/// Writes down those keys and values of sequence b and key/value head h that are the sequence's.
/// They are not returned: reading what a copy has just written is slow.
template <class Scalar>
using KeysAndValuesSource =
    std::function<void(Index b, Index h, KeyRange sequence, KeysAndValues<Scalar>& kv)>;

/// Forward attention with the bits of attention_canonical, in memory of O(seq_len * head_dim).
/// `source` is called again for each task. Preconditions: all shapes are right, and so are
/// the options for seq_len_k keys. The error says that `options.progress` stopped the work.
template <class Scalar>
Status attention_fused(const View<const Scalar, 4>& q, Index num_kv_heads, Index seq_len_k,
                       const KeysAndValuesSource<Scalar>& source, const AttentionOptions& options,
                       const View<Scalar, 4>& out, const View<Scalar, 3>& lse);

}  // namespace headproof
