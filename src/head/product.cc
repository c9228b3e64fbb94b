#include "head/product.h"

#include <algorithm>
#include <optional>

#include "attention/parallel.h"
#include "attention/workspace.h"
#include "head/product_tile.h"

namespace headproof {
namespace {

// What one task does of c; a panel of b that is this deep stays in the cache from one group of rows
// to the next.
constexpr Index tile_rows = 48, tile_depth = 256;
template <class Real>
constexpr Index tile_columns = 4 * column_group<Real>;

/// Fewer multiply-adds than this are done sooner by one thread than handed to others: some ten
/// microseconds of work.
constexpr double parallel_size = 1 << 20;

constexpr Index round_up(Index n, Index step) { return (n + step - 1) / step * step; }

/// to[k, j] = from[k, j], and 0 in the columns that fill a group; tile_columns apart in k.
template <class Real>
void pack(View<const Real, 2> from, Real* to) {
  constexpr Index width = tile_columns<Real>;
  const Index depth = from.shape[0], columns = from.shape[1];
  // A few rows at a time, which stay in the cache: often it is the columns that are contiguous.
  constexpr Index some = 16;
  for (Index first = 0; first < depth; first += some) {
    const Index last = std::min(first + some, depth);
    if (from.strides[1] == 1) {
      for (Index k = first; k < last; ++k) std::copy_n(&from(k, 0), columns, to + k * width);
    } else {
      for (Index j = 0; j < columns; ++j) {
        for (Index k = first; k < last; ++k) to[k * width + j] = from(k, j);
      }
    }
    for (Index k = first; k < last; ++k) {
      for (Index j = columns; j < round_up(columns, column_group<Real>); ++j) to[k * width + j] = 0;
    }
  }
}

/// The tile over the whole depth, in pieces; a chain goes on from what c holds.
template <class Real>
void multiply_deep(ProductTile<Real> tile, Index depth) {
  for (Index k = 0; k < depth; k += tile_depth) {
    tile.depth = std::min(tile_depth, depth - k);
    multiply(tile);
    tile.a += tile.depth * tile.a_stride;
    tile.b += tile.depth * tile.b_row_stride;
    tile.add = true;
  }
}

/// The same where c has fewer columns than the tile: by way of memory that has them all.
template <class Real>
void multiply_ragged(ProductTile<Real> tile, Index depth, View<Real, 2> c) {
  constexpr Index width = tile_columns<Real>;
  alignas(64) Real dense[std::size_t{tile_rows * width}];
  for (Index r = 0; r < tile.rows; ++r) {
    for (Index j = 0; j < tile.columns; ++j) {
      dense[r * width + j] = tile.add && j < c.shape[1] ? c(r, j) : Real(0);
    }
  }
  tile.c = dense;
  tile.c_row_stride = width;
  multiply_deep(tile, depth);
  for (Index r = 0; r < tile.rows; ++r) {
    std::copy_n(dense + r * width, c.shape[1], &c(r, 0));
  }
}

/// Some rows or columns of a matrix.
template <class T>
View<T, 2> part(const View<T, 2>& matrix, std::size_t axis, Index first, Index most) {
  View<T, 2> some = matrix;
  some.data += first * matrix.strides[axis];
  some.shape[axis] = std::min(most, matrix.shape[axis] - first);
  return some;
}

}  // namespace

template <class Real>
void product(View<const Real, 2> a, View<const Real, 2> b, View<Real, 2> c, bool add) {
  const Index rows = c.shape[0], columns = c.shape[1], depth = a.shape[1];
  if (rows == 0 || columns == 0) return;
  if (depth == 0) {
    if (!add) c.for_each([](Real& sum) { sum = 0; });
    return;
  }
  constexpr Index group = column_group<Real>, width = tile_columns<Real>;
  const StandardFloatMode mode;
  const double size =
      static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(depth);
  const bool parallel = size >= parallel_size;
  const auto no_state = [] { return 0; };
  const Index row_tiles = round_up(rows, tile_rows) / tile_rows;
  const Index panels = round_up(columns, width) / width;
  // Panels of b that have whole groups of contiguous columns are read where they are, unless there
  // are rows enough to make packing cheap: rows of b may lie such that they displace each other in
  // the cache.
  const bool in_place = b.strides[1] == 1 && rows <= tile_rows;
  const Index direct = !in_place ? 0 : columns % group != 0 ? panels - 1 : panels;
  std::optional<Workspace> space;
  Real* packed = nullptr;
  if (direct < panels) {
    space.emplace(static_cast<std::size_t>((panels - direct) * depth * width) * sizeof(Real));
    packed = space->as<Real>();
    share_out(panels - direct, parallel, no_state, [&](int, Index n) {
      pack(part(b, 1, (direct + n) * width, width), packed + n * depth * width);
    });
  }
  share_out(panels * row_tiles, parallel, no_state, [&](int, Index task) {
    const Index panel = task / row_tiles, first_row = task % row_tiles * tile_rows;
    const auto a_part = part(a, 0, first_row, tile_rows);
    const auto b_part = part(b, 1, panel * width, width);
    const auto c_part = part(part(c, 0, first_row, tile_rows), 1, panel * width, width);
    const ProductTile<Real> tile{
        .rows = c_part.shape[0],
        .depth = 0,
        .columns = round_up(c_part.shape[1], group),
        .a = a_part.data,
        .a_row_stride = a.strides[0],
        .a_stride = a.strides[1],
        .b = panel < direct ? b_part.data : packed + (panel - direct) * depth * width,
        .b_row_stride = panel < direct ? b.strides[0] : width,
        .c = c_part.data,
        .c_row_stride = c.strides[0],
        .add = add};
    if (tile.columns == c_part.shape[1]) {
      multiply_deep(tile, depth);
    } else {
      multiply_ragged(tile, depth, c_part);
    }
  });
}

template void product(View<const float, 2>, View<const float, 2>, View<float, 2>, bool);
template void product(View<const double, 2>, View<const double, 2>, View<double, 2>, bool);

}  // namespace headproof
