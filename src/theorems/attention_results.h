// The theorems about black boxes, one file each; attention_registry.cc lists them.
#pragma once

#include "theorems/attention_oracle.h"
#include "theorems/attention_theorem.h"

namespace headproof {

AttentionTheorem attention_prop_5_1();
AttentionTheorem num_accuracy();

/// Each element of `got` against the oracle's out within its bound; where the definition gives NaN
/// or an infinity, `got` must not be finite. Rows without an allowed key are left out unless the
/// subject's convention makes them zero.
void compare_out(Checked& claim, const AttentionAnswer& got, const AttentionOracle& oracle,
                 const Conventions& conventions);

/// "batch 0, head 1, query 2, channel 3".
std::string place(Index b, Index h, Index i, Index c);

}  // namespace headproof
