// The product of two matrices, in one order of arithmetic.
#pragma once

#include "headproof/tensor.h"

namespace headproof {

/// c[i, j] = the sum over k, ascending, of a[i, k] b[k, j]: one chain of fused multiply-adds from
/// +0 or, if `add`, from what c holds, so that its bits depend on the row of a, the column of b and
/// that start alone, not on threads, instruction set, strides, other rows and columns, or the
/// caller's floating-point mode. a [rows, depth], b [depth, columns], c [rows, columns] with
/// c.strides[1] == 1, overlapping neither. Fastest where b.strides[1] == 1. Real: float or double.
template <class Real>
void product(View<const Real, 2> a, View<const Real, 2> b, View<Real, 2> c, bool add = false);

}  // namespace headproof
