// What no head may let through, beside the lecture's results.
#pragma once

#include "headproof/theorems.h"

namespace headproof {

/// NaN or infinity in x_j reaches no row before j under the causal mask. Only id, title, statement,
/// bound and check are set.
Theorem head_num_poison();

}  // namespace headproof
