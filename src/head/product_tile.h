// The part of a product that one task does.
#pragma once

#include "headproof/tensor.h"

namespace headproof {

/// Columns come in groups of this many, 64 bytes: one vector of the widest instruction set.
template <class Real>
inline constexpr Index column_group = 64 / static_cast<Index>(sizeof(Real));

/// c = a b, or c += a b if `add`; see product. `columns` is a multiple of column_group, and the
/// strides between columns of b and c are 1.
template <class Real>
struct ProductTile {
  Index rows, depth, columns;
  const Real* a;
  Index a_row_stride, a_stride;
  const Real* b;
  Index b_row_stride;
  Real* c;
  Index c_row_stride;
  bool add;
};

void multiply(const ProductTile<float>& tile);
void multiply(const ProductTile<double>& tile);

}  // namespace headproof
