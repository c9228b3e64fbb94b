// The work of one task: a tile of query rows of one head, against that head's packed keys.
#pragma once

#include "attention/order.h"
#include "headproof/tensor.h"

namespace headproof {

/// Query rows are computed in groups of this many, which fill the registers.
inline constexpr Index group_rows = 6;
/// Groups in a tile: what shares one pass over the keys.
inline constexpr Index tile_groups = 8;
inline constexpr Index tile_rows = group_rows * tile_groups;

template <class Scalar>
struct Tile {
  Index rows;  ///< at most tile_rows
  Index head_dim;
  Index value_dim;
  Index value_width;  ///< value_dim rounded up to whole vectors of 64 bytes
  Index seq_len_k;
  const Scalar* q;  ///< [groups][head_dim][group_rows]
  const Scalar* k;  ///< [blocks][head_dim][key_block]
  const Scalar* v;  ///< row j at v + j * v_stride, value_width readable elements
  Index v_stride;
  Index first_visible;  ///< how many keys row 0 sees
  bool causal;          ///< each later row sees one more, at most seq_len_k; else all see as many
  Scalar scale;
  Scalar* out;  ///< row r at out + r * out_stride, channels dense
  Index out_stride;
  Scalar* lse;  ///< [rows], stride lse_stride
  Index lse_stride;
  Scalar* workspace;  ///< tile_workspace(value_width) elements, 64-byte aligned
};

/// Elements of workspace: a group's scores on one block; for each row two accumulators, sum_lanes
/// partial sums, two maxima and a sum.
inline Index tile_workspace(Index value_width) {
  return group_rows * key_block + tile_rows * (2 * value_width + sum_lanes + 3);
}

/// out[r][c] for each row of the tile, with the best instructions of this CPU.
void run_tile(const Tile<float>& tile);
void run_tile(const Tile<double>& tile);

}  // namespace headproof
