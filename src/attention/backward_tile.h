// The backward pass of a block of queries against a block of keys.
#pragma once

#include <cstdint>

#include "attention/order.h"
#include "headproof/attention.h"

namespace headproof {

/// Queries and keys are taken in blocks of this many: a row's keys, or a key's rows, are the bits
/// of one word.
inline constexpr Index backward_block = 64;
static_assert(span_length % backward_block == 0);

/// One block of queries and one of keys. Arrays are dense and have `backward_block` rows; the rows
/// that no query or key has, and the columns up to a width, hold anything. All but q, d_out and k
/// are aligned to 64 bytes.
template <class Scalar>
struct BackwardTile {
  Index head_dim, value_dim;
  Index key_width, value_width;  ///< head_dim and value_dim rounded up to whole vectors of 64 bytes
  Scalar scale;
  Scalar softcap;                   ///< none when 0
  const std::uint64_t* allowed;     ///< of each query, bit j: it sees key j of the block
  const Scalar* bias;               ///< [queries, keys], added to the logits; may be null
  const Scalar *q, *d_out;          ///< [queries, key_width], [queries, value_width]
  const Scalar *lse, *delta;        ///< [queries]
  const Scalar* k;                  ///< [keys, key_width]
  const Scalar *k_panel, *v_panel;  ///< [head_dim, keys], [value_dim, keys]
  Scalar *p, *ds;                   ///< [queries, keys] of workspace
  Scalar *d_q, *d_k, *d_v;  ///< [queries, key_width], [keys, key_width], [keys, value_width]
};

/// Adds the tile's part to d_q (without the factor `scale`), d_k (likewise) and d_v.
void add_backward_tile(const BackwardTile<float>& tile);
void add_backward_tile(const BackwardTile<double>& tile);

/// deltas[r] = sum over c < columns of d_out[r, c] * out[r, c], ascending; the arrays are
/// [rows, width], rows a multiple of backward_block.
void row_deltas(const float* d_out, const float* out, Index rows, Index width, Index columns,
                float* deltas);
void row_deltas(const double* d_out, const double* out, Index rows, Index width, Index columns,
                double* deltas);

}  // namespace headproof
