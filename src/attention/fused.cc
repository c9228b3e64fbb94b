#include "attention/fused.h"

#include <algorithm>
#include <array>

#include "attention/parallel.h"
#include "attention/workspace.h"

namespace headproof {
namespace {

template <class Scalar>
std::size_t bytes_of(Index elements) {
  return static_cast<std::size_t>(elements) * sizeof(Scalar);
}

/// Where row i of sequence b and head h lies; nowhere in a view without memory.
template <class T, std::size_t Rank>
T* row_of(const View<T, Rank>& view, Index b, Index h, Index i) {
  if (view.data == nullptr) return nullptr;
  return view.data + b * view.strides[0] + h * view.strides[1] + i * view.strides[2];
}

/// Multiply-adds below which a call is over before other threads are awake.
constexpr double serial_work = 1 << 18;
/// Heads are taken together while their packed keys and values stay below this.
constexpr Index packed_bytes = Index{12} << 20;
/// What a core keeps near itself of keys and values.
constexpr Index cached_bytes = Index{1} << 20;

/// One forward pass. The query rows of all heads that read one key/value head are rows of the same
/// tiles: row r is query r / group of the group's head r % group.
template <class Scalar>
class Forward {
 public:
  Forward(const View<const Scalar, 4>& q, Index num_kv_heads, Index seq_len_k,
          const AttentionOptions& options, const View<Scalar, 4>& out, const View<Scalar, 3>& lse)
      : q_(q),
        options_(options),
        out_(out),
        lse_(lse),
        seq_len_k_(seq_len_k),
        num_kv_heads_(num_kv_heads),
        group_(num_kv_heads == 0 ? 1 : q.shape[1] / num_kv_heads),
        scale_(scale_of<Scalar>(options, q.shape[3])) {}

  /// Query rows of a key/value head.
  Index rows() const { return group_ * q_.shape[2]; }
  Index heads() const { return q_.shape[0] * num_kv_heads_; }

  /// Whether a head's rows, one tile of them, take the shorter way of few keys. Numbers of a mask
  /// are added to scores; booleans are not.
  bool few_keys() const {
    return seq_len_k_ <= headproof::few_keys && options_.softcap == 0 && options_.mask.index() <= 1;
  }

  /// Tiles and what they are made of. It has no initial values, which would take longer than a
  /// small task.
  struct Task {
    Index used = 0;
    std::array<KeysAndValues<Scalar>, std::size_t{task_tiles}> kv;
    std::array<Tile<Scalar>, std::size_t{task_tiles}> tiles;
    std::array<TileRow<Scalar>, std::size_t{task_tiles * tile_rows}> rows;
  };

  /// The rows from `first_row` on, `tiles` tiles at most, of the queries of sequence b that read
  /// key/value head h join a task.
  void add(const KeysAndValues<Scalar>& kv, Index b, Index h, Index first_row, Index tiles,
           Task& task) const {
    const VisibleKeys visible(options_, b, q_.shape[2], seq_len_k_);
    const Index first_key = visible.sequence().begin;
    TileRow<Scalar>* const all = &task.rows[static_cast<std::size_t>(task.used * tile_rows)];
    const Index count = std::min(tiles * tile_rows, rows() - first_row);
    // From row to row; a view without memory has none.
    const Index q_step = q_.data == nullptr ? 0 : q_.strides[2];
    const Index out_step = out_.data == nullptr ? 0 : out_.strides[2];
    const Index lse_step = lse_.data == nullptr ? 0 : lse_.strides[2];
    const Index first_query = first_row == 0 ? 0 : first_row / group_;
    const Index first_in_group = first_row - first_query * group_;
    for (Index g = 0; g < group_; ++g) {
      const Index query_head = h * group_ + g;
      // Of this head, query first_query was among the rows before, or it is row g - first_in_group.
      const bool was_before = g < first_in_group;
      Index i = first_query + (was_before ? 1 : 0);
      const Scalar* q = row_of(q_, b, query_head, i);
      Scalar* out = row_of(out_, b, query_head, i);
      Scalar* lse = row_of(lse_, b, query_head, i);
      for (Index r = g - first_in_group + (was_before ? group_ : 0); r < count; r += group_, ++i) {
        const KeyRange keys = visible.of(i);
        const bool any = keys.begin < keys.end;
        all[r] = {.q = q,
                  .out = out,
                  .lse = lse,
                  .keys = {any ? keys.begin - first_key : 0, any ? keys.end - first_key : 0},
                  .b = b,
                  .h = query_head,
                  .i = i};
        q += q_step;
        out += out_step;
        lse += lse_step;
      }
    }
    for (Index r = 0; r < count; r += tile_rows) {
      task.tiles[static_cast<std::size_t>(task.used++)] = {
          .kv = &kv,
          .rows = all + r,
          .count = std::min(tile_rows, count - r),
          .q_stride = q_.strides[3],
          .out_stride = out_.strides[3],
          .scale = scale_,
          .softcap = static_cast<Scalar>(options_.softcap),
          .mask = &options_.mask,
          .first_key = first_key,
          .few_keys = few_keys()};
    }
  }

 private:
  const View<const Scalar, 4>& q_;
  const AttentionOptions& options_;
  const View<Scalar, 4>& out_;
  const View<Scalar, 3>& lse_;
  const Index seq_len_k_, num_kv_heads_, group_;
  const Scalar scale_;
};

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
  const Forward<Scalar> forward(q, num_kv_heads, seq_len_k, options, out, lse);
  const Index heads = forward.heads(), rows = forward.rows();
  if (heads == 0 || rows == 0) return std::monostate();
  KeysAndValues<Scalar> example;
  source(0, 0, example);
  const Index head_dim = example.head_dim(), width = example.value_width();
  const double work =
      static_cast<double>(heads * rows) * static_cast<double>(seq_len_k * (head_dim + width));
  const bool parallel = work > serial_work;
  // Where a head's keys and values do not fit a core's cache, several tiles share a span of them.
  const Index head_bytes = static_cast<Index>(bytes_of<Scalar>(seq_len_k * (head_dim + width)));
  const Index tiles = head_bytes > cached_bytes ? task_tiles : 1;
  const Index tasks = (rows + tiles * tile_rows - 1) / (tiles * tile_rows);
  // Few keys do not fill the pipelines: several heads go through a stage together.
  // A cache keeps them packed; there the first sequence may be empty and have neither.
  const bool packed_before = example.keys.data == nullptr;
  const bool few = forward.few_keys() && !packed_before;
  const Index abreast = few && rows <= tile_rows ? task_tiles : 1;
  Progress progress(options.progress, static_cast<double>(heads * tasks));

  // What many tiles read is packed once.
  const bool pack_k = rows > tile_rows && !packed_before && !few;
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
            const Index head = first + task / blocks;
            KeysAndValues<Scalar> kv;
            source(head / num_kv_heads, head % num_kv_heads, kv);
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
    share_out((count + abreast - 1) / abreast * tasks, parallel,
              [&] { return Workspace(bytes_of<Scalar>(tile_workspace(example, tiles * abreast))); },
              [&](const Workspace& workspace, Index task) {
                if (progress.stopped()) return;
                const Index begin = task / tasks * abreast, end = std::min(begin + abreast, count);
                const Index first_row = (tasks - 1 - task % tasks) * tiles * tile_rows;
                typename Forward<Scalar>::Task together_now;
                Index b = (first + begin) / num_kv_heads, h = (first + begin) % num_kv_heads;
                for (Index n = begin; n < end; ++n) {
                  KeysAndValues<Scalar>& of_head =
                      together_now.kv[static_cast<std::size_t>(n - begin)];
                  source(b, h, of_head);
                  if (pack_k) of_head.panels = memory_of(n);
                  if (pack_v) {
                    of_head.rows = memory_of(n) + k_size;
                    of_head.rows_stride = width;
                  }
                  forward.add(of_head, b, h, first_row, tiles, together_now);
                  if (++h == num_kv_heads) ++b, h = 0;
                }
                run_tiles(together_now.tiles.data(), together_now.used, workspace.as<Scalar>());
                progress.add(static_cast<double>(end - begin));
              });
  }
  if (progress.stopped()) return Error{"attention was stopped by its progress callback"};
  return std::monostate();
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
  const auto source = [&](Index b, Index h, KeysAndValues<Scalar>& kv) {
    const KeyRange keys = VisibleKeys(options, b, q.shape[2], seq_len_k).sequence();
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
