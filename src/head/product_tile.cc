// Compiled once for each instruction set. Vectors run over columns, never over the sum, so that
// their width cannot matter.

#include "attention/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "head/product_tile.cc"

#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>

#include "attention/elementary-inl.h"
#include "head/product_tile.h"

HWY_BEFORE_NAMESPACE();
namespace headproof {
namespace HWY_NAMESPACE {

// Sums that are kept in registers, beside one vector of each column and one element of a: 24 of
// the 32 registers, or 12 of AVX2's 16.
constexpr int most_rows = 6;
constexpr int most_vectors = HWY_TARGET == HWY_AVX2 ? 2 : 4;

/// `rows` rows and `vectors` vectors of columns, over the whole depth.
template <int rows, int vectors, class D, class Real = hn::TFromD<D>>
HWY_NOINLINE void Sums(D d, const ProductTile<Real>& tile, Index row, Index column) {
  constexpr Index lanes = static_cast<Index>(hn::MaxLanes(D()));
  Real* const c = tile.c + row * tile.c_row_stride + column;
  hn::Vec<D> sum[std::size_t{rows}][std::size_t{vectors}];
  HWY_UNROLL(6)
  for (int r = 0; r < rows; ++r) {
    HWY_UNROLL(4)
    for (int n = 0; n < vectors; ++n) {
      sum[r][n] = tile.add ? hn::LoadU(d, c + r * tile.c_row_stride + n * lanes) : hn::Zero(d);
    }
  }
  const Real* HWY_RESTRICT a = tile.a + row * tile.a_row_stride;
  const Real* HWY_RESTRICT b = tile.b + column;
  for (Index k = 0; k < tile.depth; ++k, a += tile.a_stride, b += tile.b_row_stride) {
    hn::Vec<D> b_row[std::size_t{vectors}];
    HWY_UNROLL(4)
    for (int n = 0; n < vectors; ++n) b_row[n] = hn::LoadU(d, b + n * lanes);
    HWY_UNROLL(6)
    for (int r = 0; r < rows; ++r) {
      const hn::Vec<D> factor = hn::Set(d, a[r * tile.a_row_stride]);
      HWY_UNROLL(4)
      for (int n = 0; n < vectors; ++n) sum[r][n] = Fma(factor, b_row[n], sum[r][n]);
    }
  }
  HWY_UNROLL(6)
  for (int r = 0; r < rows; ++r) {
    HWY_UNROLL(4)
    for (int n = 0; n < vectors; ++n) {
      hn::StoreU(sum[r][n], d, c + r * tile.c_row_stride + n * lanes);
    }
  }
}

/// All columns of at most `rows` rows.
template <int rows, class D, class Real = hn::TFromD<D>>
HWY_INLINE void Rows(D d, const ProductTile<Real>& tile, Index row, Index column) {
  constexpr Index lanes = static_cast<Index>(hn::MaxLanes(D()));
  if constexpr (rows > 1) {
    if (tile.rows - row < rows) return Rows<rows - 1>(d, tile, row, column);
  }
  switch (std::min<Index>((tile.columns - column) / lanes, most_vectors)) {
    case 4:
      return Sums<rows, 4>(d, tile, row, column);
    case 3:
      return Sums<rows, 3>(d, tile, row, column);
    case 2:
      return Sums<rows, 2>(d, tile, row, column);
    default:
      return Sums<rows, 1>(d, tile, row, column);
  }
}

template <class Real>
HWY_INLINE void Multiply(const ProductTile<Real>& tile) {
  const hn::CappedTag<Real, column_group<Real>> d;
  const Index lanes = static_cast<Index>(hn::Lanes(d));
  for (Index column = 0; column < tile.columns; column += most_vectors * lanes) {
    for (Index row = 0; row < tile.rows; row += most_rows) {
      Rows<most_rows>(d, tile, row, column);
    }
  }
}

void MultiplyFloat(const ProductTile<float>& tile) { Multiply(tile); }
void MultiplyDouble(const ProductTile<double>& tile) { Multiply(tile); }

}  // namespace HWY_NAMESPACE
}  // namespace headproof
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headproof {

HWY_EXPORT(MultiplyFloat);
HWY_EXPORT(MultiplyDouble);

void multiply(const ProductTile<float>& tile) { HWY_DYNAMIC_DISPATCH(MultiplyFloat)(tile); }
void multiply(const ProductTile<double>& tile) { HWY_DYNAMIC_DISPATCH(MultiplyDouble)(tile); }

}  // namespace headproof
#endif
