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
/// With so few keys each has a lane of the sums to itself, and tiles take a shorter way.
inline constexpr int few_keys = sum_lanes;

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

/// One query row. Neither this nor Tile has initial values: clearing room for the most that a task
/// may hold would take longer than a small task.
template <class Scalar>
struct TileRow {
  const Scalar* q;  ///< [head_dim]
  Scalar* out;      ///< [value_dim]
  Scalar* lse;      ///< not wanted when null
  KeyRange keys;    ///< what it may see before the mask
  Index b, h, i;
};

template <class Scalar>
struct Tile {
  const KeysAndValues<Scalar>* kv;
  const TileRow<Scalar>* rows;
  Index count;                 ///< of rows, 1 .. tile_rows
  Index q_stride, out_stride;  ///< from channel to channel
  Scalar scale;
  Scalar softcap;  ///< none when 0
  const Mask* mask;
  Index first_key;  ///< the sequence's first key as a column of the mask
  bool few_keys;    ///< logits are scores or -infinity, of headproof::few_keys keys at most
};

/// Elements of memory that a task of `tiles` tiles works in.
template <class Scalar>
Index tile_workspace(const KeysAndValues<Scalar>& kv, Index tiles) {
  const Index width = kv.value_width();
  return key_block * (kv.head_dim() + width) + tile_rows * (2 * key_block + width + sum_lanes + 4) +
         3 * sum_lanes + tiles * tile_rows * (kv.head_dim() + width + 4);
}

/// out and lse of the rows of `count` tiles of the same keys and values, or with few keys that are
/// not packed of any of the same dimensions and strides of channels, in the canonical order,
/// with the best instructions of this CPU; count <= task_tiles. The workspace has
/// tile_workspace(kv, count) elements and is aligned to 64 bytes.
void run_tiles(const Tile<float>* tiles, Index count, float* workspace);
void run_tiles(const Tile<double>* tiles, Index count, double* workspace);

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
