#include "attention/fused.h"

#include <tbb/parallel_for.h>

#include <algorithm>

#include "attention/float_mode.h"
#include "attention/order.h"
#include "attention/tile.h"
#include "attention/visible.h"
#include "attention/workspace.h"

namespace headproof {
namespace {

/// Keys of one head as [blocks][head_dim][key_block]; places beyond the last key are 0.
template <class Scalar>
void pack_keys(View<const Scalar, 2> keys, Index block, Scalar* panel) {
  const Index first = block * key_block, count = std::min(key_block, keys.shape[0] - first);
  for (Index c = 0; c < keys.shape[1]; ++c) {
    Scalar* row = panel + c * key_block;
    for (Index j = 0; j < count; ++j) row[j] = keys(first + j, c);
    for (Index j = count; j < key_block; ++j) row[j] = 0;
  }
}

}  // namespace

template <class Scalar>
void attention_fused(View<const Scalar, 4> q, View<const Scalar, 4> k, View<const Scalar, 4> v,
                     const AttentionOptions& options, View<Scalar, 4> out, View<Scalar, 3> lse) {
  // Not structured bindings, which clang 14 does not let a lambda capture.
  const Index batch = q.shape[0], num_heads = q.shape[1];
  const Index seq_len_q = q.shape[2], head_dim = q.shape[3];
  const Index num_kv_heads = k.shape[1], seq_len_k = k.shape[2], value_dim = v.shape[3];
  const Index group = num_kv_heads == 0 ? 1 : num_heads / num_kv_heads;
  constexpr Index lanes = 64 / static_cast<Index>(sizeof(Scalar));
  const Index value_width = (value_dim + lanes - 1) / lanes * lanes;
  const Index blocks = (seq_len_k + key_block - 1) / key_block;
  const bool v_direct = v.strides[3] == 1 && value_width == value_dim;
  const StandardFloatMode mode;
  const Scalar scale = scale_of<Scalar>(options, head_dim);
  const bool causal = options.causal != Causal::none;

  for (Index b = 0; b < batch; ++b) {
    for (Index kv = 0; kv < num_kv_heads; ++kv) {
      const auto bytes = [](Index elements) {
        return static_cast<std::size_t>(elements) * sizeof(Scalar);
      };
      const Workspace panel_space(bytes(blocks * head_dim * key_block));
      const Workspace v_space(bytes(v_direct ? 0 : seq_len_k * value_width));
      Scalar* const panels = panel_space.as<Scalar>();
      Scalar* const packed_v = v_space.as<Scalar>();
      tbb::parallel_for(Index{0}, blocks, [&](Index block) {
        pack_keys(k[b][kv], block, panels + block * head_dim * key_block);
      });
      const auto values = v[b][kv];
      if (!v_direct) {
        tbb::parallel_for(Index{0}, seq_len_k, [&](Index j) {
          for (Index c = 0; c < value_width; ++c) {
            packed_v[j * value_width + c] = c < value_dim ? values(j, c) : Scalar(0);
          }
        });
      }
      const Index tiles = (seq_len_q + tile_rows - 1) / tile_rows;
      tbb::parallel_for(Index{0}, group * tiles, [&](Index task) {
        const StandardFloatMode task_mode;
        // The last tiles see the most keys: they go first.
        const Index h = kv * group + task % group, t = tiles - 1 - task / group;
        const Index first_row = t * tile_rows, rows = std::min(tile_rows, seq_len_q - first_row);
        const Workspace space(
            bytes(tile_rows * (head_dim + value_dim) + tile_workspace(value_width)));
        Scalar* const workspace = space.as<Scalar>();
        Scalar* const q_panel = workspace + tile_workspace(value_width);
        Scalar* const dense_out = q_panel + tile_rows * head_dim;
        for (Index r = 0; r < rows; ++r) {
          for (Index c = 0; c < head_dim; ++c) {
            q_panel[(r / group_rows * head_dim + c) * group_rows + r % group_rows] =
                q(b, h, first_row + r, c);
          }
        }
        const bool direct_out = out.strides[3] == 1;
        Tile<Scalar> tile{
            .rows = rows,
            .head_dim = head_dim,
            .value_dim = value_dim,
            .value_width = value_width,
            .seq_len_k = seq_len_k,
            .q = q_panel,
            .k = panels,
            .v = v_direct ? values.data : packed_v,
            .v_stride = v_direct ? values.strides[0] : value_width,
            .first_visible =
                causal ? query_offset(options.causal, seq_len_q, seq_len_k) + first_row + 1
                       : seq_len_k,
            .causal = causal,
            .scale = scale,
            .out = direct_out ? &out(b, h, first_row, 0) : dense_out,
            .out_stride = direct_out ? out.strides[2] : value_dim,
            .lse = &lse(b, h, first_row),
            .lse_stride = lse.strides[2],
            .workspace = workspace};
        run_tile(tile);
        if (!direct_out) {
          for (Index r = 0; r < rows; ++r) {
            for (Index c = 0; c < value_dim; ++c) {
              out(b, h, first_row + r, c) = dense_out[r * value_dim + c];
            }
          }
        }
      });
    }
  }
}

template <class Scalar>
Result<AttentionOutput<Scalar>> attention(View<const Scalar, 4> q, View<const Scalar, 4> k,
                                          View<const Scalar, 4> v,
                                          const AttentionOptions& options) {
  if (auto error = attention_shape_error(q.shape, k.shape, v.shape)) return *error;
  AttentionOutput<Scalar> result{
      Tensor<Scalar, 4>({q.shape[0], q.shape[1], q.shape[2], v.shape[3]}),
      Tensor<Scalar, 3>({q.shape[0], q.shape[1], q.shape[2]})};
  attention_fused(q, k, v, options, result.out.view(), result.lse.view());
  return result;
}

#define HEADPROOF_INSTANTIATE(Scalar)                                                              \
  template void attention_fused(View<const Scalar, 4>, View<const Scalar, 4>,                      \
                                View<const Scalar, 4>, const AttentionOptions&, View<Scalar, 4>,   \
                                View<Scalar, 3>);                                                  \
  template Result<AttentionOutput<Scalar>> attention(View<const Scalar, 4>, View<const Scalar, 4>, \
                                                     View<const Scalar, 4>,                        \
                                                     const AttentionOptions&);
HEADPROOF_INSTANTIATE(float)
HEADPROOF_INSTANTIATE(double)
#undef HEADPROOF_INSTANTIATE

}  // namespace headproof
