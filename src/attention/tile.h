// The work of one task: a tile of query rows that read the same keys and values.
#pragma once

#include "attention/allowed.h"
#include "attention/order.h"

namespace headproof {

/// Query rows are computed in groups of this many, which fill the registers.
inline constexpr Index group_rows = 6;
/// Groups in a tile: what shares one pass over a block of keys. A tile's rows fill whole vectors.
inline constexpr Index tile_groups = 8;
inline constexpr Index tile_rows = group_rows * tile_groups;
/// Tiles in a task at most: what shares one pass over a span of keys.
inline constexpr Index task_tiles = 4;

/// Elements of a row of `dim`, rounded up to whole vectors of 64 bytes.
template <class Scalar>
Index width_of(Index dim) {
  constexpr Index lanes = 64 / Index{sizeof(Scalar)};
  return (dim + lanes - 1) / lanes * lanes;
}

/// Keys and values of one sequence and one key/value head; positions are counted from the
/// sequence's first key.
template <class Scalar>
struct KeysAndValues {
  View<const Scalar, 2> keys;    ///< [count, head_dim]
  View<const Scalar, 2> values;  ///< [count, value_dim]
  /// The keys as [blocks][head_dim][key_block], or null: then a tile packs block after block.
  const Scalar* panels = nullptr;
  /// The values as rows of value_width elements, or null: then a tile copies block after block.
  const Scalar* rows = nullptr;
  Index rows_stride = 0;

  Index count() const { return keys.shape[0]; }
  Index head_dim() const { return keys.shape[1]; }
  Index value_dim() const { return values.shape[1]; }
  Index value_width() const { return width_of<Scalar>(value_dim()); }
};

/// What the tiles of a call have in common.
template <class Scalar>
struct Queries {
  View<const Scalar, 4> q;
  View<Scalar, 4> out;
  View<Scalar, 3> lse;  ///< not wanted when its data is null
  Index group;          ///< query heads that read one key/value head
  Scalar scale;
  Scalar softcap;  ///< none when 0
  const Mask* mask;
};

/// Query rows that read one key/value head: row r is query (first_row + r) / group of query head
/// first_head + (first_row + r) % group.
template <class Scalar>
struct Tile {
  const Queries<Scalar>* queries;
  const KeysAndValues<Scalar>* kv;
  VisibleKeys visible;  ///< of sequence b
  Index b, first_head, first_row;
  Index count;  ///< of rows, 1 .. tile_rows
};

/// Where row i of sequence b and head h lies; nowhere in a view without memory.
template <class T, std::size_t Rank>
T* row_of(const View<T, Rank>& view, Index b, Index h, Index i) {
  if (view.data == nullptr) return nullptr;
  return view.data + b * view.strides[0] + h * view.strides[1] + i * view.strides[2];
}

/// Elements of memory that a task of `tiles` tiles works in.
template <class Scalar>
Index tile_workspace(const KeysAndValues<Scalar>& kv, Index tiles) {
  const Index width = kv.value_width();
  return key_block * (kv.head_dim() + width) + tile_rows * (2 * key_block + width + sum_lanes + 5) +
         3 * sum_lanes + tiles * tile_rows * (kv.head_dim() + width + 4);
}

/// out and lse of the rows of `count` tiles of the same keys and values, in the canonical order,
/// with the best instructions of this CPU; count <= task_tiles. The workspace has
/// tile_workspace(kv, count) elements and is aligned to 64 bytes.
void run_tiles(const Tile<float>* tiles, Index count, float* workspace);
void run_tiles(const Tile<double>* tiles, Index count, double* workspace);

/// Elements that a span leaves of a tile with this many rows.
template <class Scalar>
Index span_elements(const KeysAndValues<Scalar>& kv, Index rows) {
  return sum_lanes + 2 * tile_rows + rows * kv.value_width();
}

/// run_tiles in pieces, for one tile. What one span of keys leaves of it goes to `result`, which
/// has span_elements and is aligned to 64 bytes; then merge_spans makes out and lse of the results
/// of all spans, one after the other in memory, in the canonical order.
void run_span(const Tile<float>& tile, Index span, float* workspace, float* result);
void run_span(const Tile<double>& tile, Index span, double* workspace, double* result);
void merge_spans(const Tile<float>& tile, Index spans, float* results, float* workspace);
void merge_spans(const Tile<double>& tile, Index spans, double* results, double* workspace);

/// Keys [count, head_dim], count <= key_block, as [head_dim][key_block]; the places beyond the last
/// key hold anything.
void pack_keys(View<const float, 2> keys, float* panel);
void pack_keys(View<const double, 2> keys, double* panel);

/// Rows first .. first + count - 1.
template <class Scalar>
View<const Scalar, 2> rows_of(View<const Scalar, 2> all, Index first, Index count) {
  if (all.data != nullptr) all.data += first * all.strides[0];  // what is empty has no memory
  all.shape[0] = count;
  return all;
}

/// Rows [count, dim] as rows of `width` elements, 0 beyond dim.
template <class Scalar>
void pack_rows(View<const Scalar, 2> rows, Index width, Scalar* packed) {
  for (Index r = 0; r < rows.shape[0]; ++r, packed += width) {
    for (Index c = 0; c < rows.shape[1]; ++c) packed[c] = rows(r, c);
    for (Index c = rows.shape[1]; c < width; ++c) packed[c] = 0;
  }
}

}  // namespace headproof
