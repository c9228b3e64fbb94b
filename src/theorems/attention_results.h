// The theorems about black boxes, one file each; attention_registry.cc lists them.
#pragma once

#include "theorems/attention_oracle.h"
#include "theorems/attention_theorem.h"
#include "theorems/findings.h"

namespace headproof {

// The lecture's, in its order.
AttentionTheorem attention_prop_3_1();
AttentionTheorem attention_cor_3_2();
AttentionTheorem attention_cor_3_3();
AttentionTheorem attention_prop_5_1();
AttentionTheorem attention_lemma_4_5();
AttentionTheorem attention_ex_4();
AttentionTheorem attention_thm_6_1();
AttentionTheorem attention_cor_6_2();
AttentionTheorem attention_sec_4_5();
AttentionTheorem attention_ex_7();

// What rounding allows, and the bits.
AttentionTheorem num_accuracy();
AttentionTheorem num_shift_invariance();
AttentionTheorem num_linearity_in_v();
AttentionTheorem num_key_permutation();
AttentionTheorem num_head_independence();
AttentionTheorem num_poison();
AttentionTheorem num_nan_visible();
AttentionTheorem num_extreme_scores();
AttentionTheorem num_empty_rows();
AttentionTheorem num_zero_sizes();
AttentionTheorem num_strides();
AttentionTheorem num_inputs_untouched();
AttentionTheorem num_history();
AttentionTheorem num_options();
AttentionTheorem num_grouped_heads();
AttentionTheorem num_window();
AttentionTheorem num_softcap();
AttentionTheorem num_mask();
AttentionTheorem num_lse();
AttentionTheorem num_gradient();
AttentionTheorem num_decode();
AttentionTheorem num_determinism();
AttentionTheorem num_thread_invariance();
AttentionTheorem num_batch_invariance();
AttentionTheorem num_prefix();
AttentionTheorem num_decode_equals_prefill();

/// Each element of `got` against the oracle's out within its bound; where the definition gives NaN
/// or an infinity, `got` must not be finite. Rows without an allowed key are left out unless the
/// subject's convention makes them zero.
void compare_out(Checked& claim, const AttentionAnswer& got, const AttentionOracle& oracle,
                 const Conventions& conventions);

/// "batch 0, head 1, query 2", with ", key 3" or ", channel 3" behind it where a column is given;
/// "lse of ..." or "d_k of batch 0, head 1, key 2, channel 3" for results other than out and A.
Told told(const Place& place);

/// A result of an answer; lse with a fourth axis of size 1. Nothing where the answer has none.
std::optional<Tensor<double, 4>> result_of(const AttentionAnswer& answer, Place::Result result);

/// The place of element `at` of such a result, whose first element is at `origin`.
Place place_of(const Tensor<double, 4>& values, Index at, Place origin);

inline Told row_place(Index b, Index h, Index i) { return told({.batch = b, .head = h, .row = i}); }
inline Told weight_place(Index b, Index h, Index i, Index j) {
  return told({Place::Result::A, b, h, i, j});
}
inline Told place(Index b, Index h, Index i, Index c) {
  return told({Place::Result::out, b, h, i, c});
}

}  // namespace headproof
