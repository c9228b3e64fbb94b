#include "attention/fused.h"

#include <algorithm>
#include <array>

#include "attention/few_keys.h"
#include "attention/parallel.h"
#include "attention/workspace.h"

namespace headproof {
namespace {

template <class Scalar>
std::size_t bytes_of(Index elements) {
  return static_cast<std::size_t>(elements) * sizeof(Scalar);
}

/// Heads are taken together while their packed keys and values stay below this.
constexpr Index packed_bytes = Index{12} << 20;
/// What spans leave may take this much.
constexpr std::size_t split_bytes = std::size_t{4} << 20;
/// What a core keeps near itself of keys and values.
constexpr Index cached_bytes = Index{1} << 20;

}  // namespace

template <class Scalar>
std::optional<Error> output_error(std::initializer_list<AnyView> inputs,
                                  const AttentionOptions& options, const View<const Scalar, 4>& q,
                                  Index value_dim, const View<Scalar, 4>& out,
                                  const View<Scalar, 3>& lse) {
  if (auto error = shape_error({"out", out}, {q.shape[0], q.shape[1], q.shape[2], value_dim})) {
    return error;
  }
  if (lse.data == nullptr) return memory_error(inputs, options, {{"out", out}});
  if (auto error = shape_error({"lse", lse}, {q.shape[0], q.shape[1], q.shape[2], 1})) {
    return error;
  }
  return memory_error(inputs, options, {{"out", out}, {"lse", lse}});
}

template <class Scalar>
Status attention_fused(const View<const Scalar, 4>& q, Index num_kv_heads, Index seq_len_k,
                       const KeysAndValuesSource<Scalar>& source, const AttentionOptions& options,
                       const View<Scalar, 4>& out, const View<Scalar, 3>& lse) {
  const StandardFloatMode mode;
  const Index heads = q.shape[0] * num_kv_heads;
  const Index group = num_kv_heads == 0 ? 1 : q.shape[1] / num_kv_heads;
  const Index rows = group * q.shape[2];  // of a key/value head
  if (heads == 0 || rows == 0) return std::monostate();
  const auto visible_in = [&](Index b) { return VisibleKeys(options, b, q.shape[2], seq_len_k); };
  KeysAndValues<Scalar> example;
  source(0, 0, visible_in(0).sequence(), example);
  const Index head_dim = example.head_dim(), width = example.value_width();
  const double work =
      static_cast<double>(heads * rows) * static_cast<double>(seq_len_k * (head_dim + width));
  const bool parallel = work > forward_serial_work;
  // Where a head's keys and values do not fit a core's cache, several tiles share a span of them.
  const Index head_bytes = static_cast<Index>(bytes_of<Scalar>(seq_len_k * (head_dim + width)));
  const Index tiles = head_bytes > cached_bytes ? task_tiles : 1;
  const Index tasks = (rows + tiles * tile_rows - 1) / (tiles * tile_rows);
  // A cache keeps keys packed; there the first sequence may be empty and have neither.
  const bool packed_before = example.keys.data == nullptr;
  const Queries<Scalar> queries = {.q = q,
                                   .out = out,
                                   .lse = lse,
                                   .group = group,
                                   .scale = scale_of<Scalar>(options, q.shape[3]),
                                   .softcap = static_cast<Scalar>(options.softcap),
                                   .mask = &options.mask};
  // One tile of each head would be a task: with few heads their spans are, so that all threads have
  // work and none waits long for the last one.
  const Index spans = (seq_len_k + span_length - 1) / span_length;
  const Index span_size = span_elements(example, rows);
  const bool split = parallel && heads < 4 * threads_at_hand() && spans > 1 && rows <= tile_rows &&
                     bytes_of<Scalar>(heads * spans * span_size) <= split_bytes;
  const Index of_head = split ? spans : tasks;
  Progress progress(options.progress, static_cast<double>(heads * of_head));
  const auto tile_of = [&](const KeysAndValues<Scalar>& kv, Index head, Index first_row) {
    const Index b = head / num_kv_heads;
    return Tile<Scalar>{.queries = &queries,
                        .kv = &kv,
                        .visible = visible_in(b),
                        .b = b,
                        .first_head = head % num_kv_heads * group,
                        .first_row = first_row,
                        .count = std::min(tile_rows, rows - first_row)};
  };
  const auto make_workspace = [&] {
    return Workspace(bytes_of<Scalar>(tile_workspace(example, tiles)));
  };
  const auto read_head = [&](Index head, KeysAndValues<Scalar>& kv) {
    const Index b = head / num_kv_heads;
    source(b, head % num_kv_heads, visible_in(b).sequence(), kv);
  };
  if (split) {
    const Workspace results(bytes_of<Scalar>(heads * spans * span_size));
    const auto result_of = [&](Index task) { return results.as<Scalar>() + task * span_size; };
    share_out(heads * spans, parallel, make_workspace, [&](const Workspace& workspace, Index task) {
      if (progress.stopped()) return;
      KeysAndValues<Scalar> kv;
      read_head(task / spans, kv);
      run_span(tile_of(kv, task / spans, 0), task % spans, workspace.as<Scalar>(), result_of(task));
      progress.add(1);
    });
    if (const Status done = progress.status("attention"); !done) return done;
    share_out(heads, parallel, make_workspace, [&](const Workspace& workspace, Index head) {
      KeysAndValues<Scalar> kv;
      read_head(head, kv);
      merge_spans(tile_of(kv, head, 0), spans, result_of(head * spans), workspace.as<Scalar>());
    });
    return std::monostate();
  }

  // What many tiles read is packed once.
  const bool pack_k = rows > tile_rows && !packed_before;
  const bool pack_v = rows > tile_rows && !packed_before && example.rows == nullptr;
  const Index k_size = pack_k ? blocks_of(seq_len_k) * head_dim * key_block : 0;
  const Index v_size = pack_v ? seq_len_k * width : 0;
  const Index packed_size = static_cast<Index>(bytes_of<Scalar>(k_size + v_size));
  const Index together =
      std::clamp<Index>(packed_bytes / std::max<Index>(packed_size, 1), 1, heads);
  const Workspace packed(bytes_of<Scalar>(together * (k_size + v_size)));
  for (Index first = 0; first < heads && !progress.stopped(); first += together) {
    const Index count = std::min(together, heads - first);
    const auto memory_of = [&](Index n) { return packed.as<Scalar>() + n * (k_size + v_size); };
    if (pack_k || pack_v) {
      const Index blocks = blocks_of(seq_len_k);
      share_out(
          count * blocks, parallel, [] { return 0; },
          [&](int, Index task) {
            KeysAndValues<Scalar> kv;
            read_head(first + task / blocks, kv);
            const Index key = task % blocks * key_block;
            const Index keys = std::min(key_block, kv.count() - key);
            if (keys <= 0) return;
            Scalar* const memory = memory_of(task / blocks);
            if (pack_k) pack_keys(rows_of(kv.keys, key, keys), memory + key * head_dim);
            if (pack_v)
              pack_rows(rows_of(kv.values, key, keys), width, memory + k_size + key * width);
          });
    }
    // The last rows see the most keys when causal: they go first.
    share_out(count * tasks, parallel, make_workspace, [&](const Workspace& workspace, Index task) {
      if (progress.stopped()) return;
      KeysAndValues<Scalar> kv;
      read_head(first + task / tasks, kv);
      if (pack_k) kv.panels = memory_of(task / tasks);
      if (pack_v) {
        kv.rows = memory_of(task / tasks) + k_size;
        kv.rows_stride = width;
      }
      const Index first_row = (tasks - 1 - task % tasks) * tiles * tile_rows;
      const Index end_row = std::min(first_row + tiles * tile_rows, rows);
      std::array<Tile<Scalar>, std::size_t{task_tiles}> of_task;
      std::size_t used = 0;
      for (Index row = first_row; row < end_row; row += tile_rows) {
        of_task[used++] = tile_of(kv, first + task / tasks, row);
      }
      run_tiles(of_task.data(), static_cast<Index>(used), workspace.as<Scalar>());
      progress.add(1);
    });
  }
  return progress.status("attention");
}

template <class Scalar>
Status attention_into(View<const Scalar, 4> q, View<const Scalar, 4> k, View<const Scalar, 4> v,
                      const AttentionOptions& options, View<Scalar, 4> out, View<Scalar, 3> lse) {
  if (auto error = attention_error(q.shape, k.shape, v.shape, options)) return *error;
  if (auto error =
          output_error<Scalar>({{"q", q}, {"k", k}, {"v", v}}, options, q, v.shape[3], out, lse)) {
    return *error;
  }
  const Index seq_len_k = k.shape[2];
  if (few_keys_suffice(options, seq_len_k)) {
    return attention_few_keys<Scalar>(q, k, v, options, out, lse);
  }
  const auto source = [&](Index b, Index h, KeyRange keys, KeysAndValues<Scalar>& kv) {
    const Index count = keys.end - keys.begin;
    kv.keys = {row_of(k, b, h, keys.begin), {count, k.shape[3]}, {k.strides[2], k.strides[3]}};
    kv.values = {row_of(v, b, h, keys.begin), {count, v.shape[3]}, {v.strides[2], v.strides[3]}};
    const bool as_they_are = v.strides[3] == 1 && kv.value_dim() == kv.value_width();
    kv.panels = nullptr;
    kv.rows = as_they_are ? kv.values.data : nullptr;
    kv.rows_stride = v.strides[2];
  };
  return attention_fused<Scalar>(q, k.shape[1], seq_len_k, std::cref(source), options, out, lse);
}

template <class Scalar>
Result<AttentionOutput<Scalar>> attention(View<const Scalar, 4> q, View<const Scalar, 4> k,
                                          View<const Scalar, 4> v,
                                          const AttentionOptions& options) {
  if (auto error = attention_error(q.shape, k.shape, v.shape, options)) return *error;
  AttentionOutput<Scalar> result{
      Tensor<Scalar, 4>({q.shape[0], q.shape[1], q.shape[2], v.shape[3]}),
      Tensor<Scalar, 3>({q.shape[0], q.shape[1], q.shape[2]})};
  if (auto done = attention_into<Scalar>(q, k, v, options, result.out.view(), result.lse.view());
      !done) {
    return done.error();
  }
  return result;
}

#define HEADPROOF_INSTANTIATE(Scalar)                                                              \
  template std::optional<Error> output_error(                                                      \
      std::initializer_list<AnyView>, const AttentionOptions&, const View<const Scalar, 4>&,       \
      Index, const View<Scalar, 4>&, const View<Scalar, 3>&);                                      \
  template Status attention_fused(const View<const Scalar, 4>&, Index, Index,                      \
                                  const KeysAndValuesSource<Scalar>&, const AttentionOptions&,     \
                                  const View<Scalar, 4>&, const View<Scalar, 3>&);                 \
  template Status attention_into(View<const Scalar, 4>, View<const Scalar, 4>,                     \
                                 View<const Scalar, 4>, const AttentionOptions&, View<Scalar, 4>,  \
                                 View<Scalar, 3>);                                                 \
  template Result<AttentionOutput<Scalar>> attention(View<const Scalar, 4>, View<const Scalar, 4>, \
                                                     View<const Scalar, 4>,                        \
                                                     const AttentionOptions&);
HEADPROOF_INSTANTIATE(float)
HEADPROOF_INSTANTIATE(double)
#undef HEADPROOF_INSTANTIATE

}  // namespace headproof
