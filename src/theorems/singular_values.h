// Singular values, for ranks.
#pragma once

#include <vector>

#include "headproof/tensor.h"

namespace headproof {

/// The singular values of a matrix, largest first; NaN when it holds a number that is not finite.
std::vector<double> singular_values(View<const double, 2> matrix);

}  // namespace headproof
