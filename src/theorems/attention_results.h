// The theorems about black boxes, one file each; attention_registry.cc lists them.
#pragma once

#include "theorems/attention_oracle.h"
#include "theorems/attention_theorem.h"

namespace headproof {

AttentionTheorem attention_prop_5_1();

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

/// "batch 0, head 1, query 2, channel 3".
std::string place(Index b, Index h, Index i, Index c);

}  // namespace headproof
