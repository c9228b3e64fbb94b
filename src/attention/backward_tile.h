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

/// One block of queries and one of keys. Arrays are dense, 64-byte aligned and have
/// `backward_block` rows; the rows that no query or key has, and the columns up to a width, hold
/// any finite numbers.
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

/// deltas[r] = sum over c of d_out[r, c] * out[r, c], in ascending order.
void row_deltas(View<const float, 2> d_out, View<const float, 2> out, float* deltas);
void row_deltas(View<const double, 2> d_out, View<const double, 2> out, double* deltas);

}  // namespace headproof
