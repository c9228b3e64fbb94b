// How the softmax saturates as d_k grows: the sample behind lemma-4.5.
#pragma once

#include <vector>

#include "headproof/tensor.h"

namespace headproof {

/// Means over rows of 8 scores q . k, raw and divided by sqrt(d_k).
struct Saturation {
  Index d_k = 0;
  double variance = 0;        ///< of the raw scores, about their known mean 0
  double standard_error = 0;  ///< of that variance, from independent blocks
  double largest_raw = 0;     ///< mean of the row's largest softmax weight
  double largest_scaled = 0;
  double jacobian_raw = 0;  ///< mean Frobenius norm of diag(p) - p p^T
  double jacobian_scaled = 0;
};

/// Draws `blocks` blocks of 8 queries and 8 keys (so 8 rows of 8 scores a block), from a fixed seed
/// of its own, and looks at their first d_k channels for each d_k of the list, which ascends and
/// ends at 16,384 at most. The entries are uniform over 256 levels with mean 0 and variance 1: the
/// lemma asks for nothing more, and one draw gives four of them.
std::vector<Saturation> sample_saturation(const std::vector<Index>& d_k, Index blocks);

}  // namespace headproof
