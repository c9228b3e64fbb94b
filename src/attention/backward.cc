// The gradients of attention, square by square: a square is a span of queries of one head and a
// span of keys that they read. canonical_backward.cc has the order, docs/kernel.md the derivation.

#include <tbb/parallel_for_each.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "attention/allowed.h"
#include "attention/backward_tile.h"
#include "attention/check.h"
#include "attention/float_mode.h"
#include "attention/order.h"
#include "attention/parallel.h"
#include "attention/workspace.h"

namespace headproof {
namespace {

constexpr Index block = backward_block;

/// Fewer multiplications than this are done before threads wake up.
constexpr double serial_work = 1e6;

constexpr Index rounded_up(Index count, Index unit) { return (count + unit - 1) / unit * unit; }
constexpr Index spans_of(Index count) { return rounded_up(count, span_length) / span_length; }

template <class Scalar>
View<Scalar, 2> rows_of(View<Scalar, 2> rows, Index first, Index count) {
  if (rows.data != nullptr) rows.data += first * rows.strides[0];
  rows.shape[0] = count;
  return rows;
}

/// Calls function(r, row, step) for each row, whose elements are row[c * step].
template <class Scalar, class Function>
void for_each_row(View<Scalar, 2> rows, Function&& function) {
  if (rows.shape[1] == 0) return;  // then there is no memory
  for (Index r = 0; r < rows.shape[0]; ++r) {
    Scalar* const row = rows.data + r * rows.strides[0];
    if (rows.strides[1] == 1) {
      function(r, row, std::integral_constant<Index, 1>());  // vectors can do this
    } else {
      function(r, row, rows.strides[1]);
    }
  }
}

/// The rows as a dense array [count, width]: they themselves if they are one, else a copy, where
/// what is beyond the last row and column is 0.
template <class Scalar>
const Scalar* dense_rows(View<const Scalar, 2> rows, Index count, Index width, Scalar* copy) {
  const Index columns = rows.shape[1];
  if (rows.shape[0] == count && columns == width &&
      rows.strides == std::array<Index, 2>{width, 1}) {
    return rows.data;
  }
  for_each_row(rows, [=](Index r, const Scalar* row, auto step) {
    Scalar* const to = copy + r * width;
    for (Index c = 0; c < columns; ++c) to[c] = row[c * step];
    std::fill(to + columns, to + width, Scalar(0));
  });
  std::fill_n(copy + rows.shape[0] * width, (count - rows.shape[0]) * width, Scalar(0));
  return copy;
}

/// The rows as columns of a panel [columns, block]; what is beyond the last row becomes 0.
template <class Scalar>
void copy_transposed(View<const Scalar, 2> rows, Scalar* panel) {
  const Index columns = rows.shape[1];
  for_each_row(rows, [=](Index r, const Scalar* row, auto step) {
    for (Index c = 0; c < columns; ++c) panel[c * block + r] = row[c * step];
  });
  for (Index c = 0; c < columns; ++c, panel += block) {
    std::fill(panel + rows.shape[0], panel + block, Scalar(0));
  }
}

template <class Scalar>
void clear_rows(View<Scalar, 2> rows) {
  const Index columns = rows.shape[1];
  for_each_row(rows, [=](Index, Scalar* row, auto step) {
    for (Index c = 0; c < columns; ++c) row[c * step] = 0;
  });
}

template <class Scalar>
void add_rows(View<Scalar, 2> sums, const Scalar* rows, Index width) {
  const Index columns = sums.shape[1];
  for_each_row(sums, [=](Index r, Scalar* sum, auto step) {
    for (Index c = 0; c < columns; ++c) sum[c * step] += rows[r * width + c];
  });
}

/// Adding +0 makes a gradient of 0 a +0 for every scale.
template <class Scalar>
void multiply_rows(View<Scalar, 2> rows, Scalar scale) {
  const Index columns = rows.shape[1];
  for_each_row(rows, [=](Index, Scalar* row, auto step) {
    for (Index c = 0; c < columns; ++c) row[c * step] = row[c * step] * scale + Scalar(0);
  });
}

/// Clears the bits of keys that the mask forbids a query, and sets what it adds to the logits of
/// the others; place 0 of both is the key `first`.
template <class T, class Scalar>
void apply_mask(View<const T, 1> mask, Index first, std::uint64_t& allowed, Scalar* bias) {
  for (std::uint64_t rest = allowed; rest != 0; rest &= rest - 1) {
    const int j = std::countr_zero(rest);
    bool may = true;
    if constexpr (std::is_same_v<T, bool>) {
      may = mask(first + j);
    } else {
      bias[j] = static_cast<Scalar>(mask(first + j));
      may = bias[j] != -std::numeric_limits<Scalar>::infinity();
    }
    if (!may) allowed &= ~(std::uint64_t{1} << j);
  }
}

/// A key head and the query heads that read it, and where among them a square lies. The query
/// spans of those heads are counted through, one head after another.
struct Square {
  Index b, kv, query_span, key_span;
};

/// What a call was given.
template <class Scalar>
struct Problem {
  View<const Scalar, 4> q, k, v, out;
  View<const Scalar, 3> lse;
  View<const Scalar, 4> d_out;
  const AttentionOptions& options;
  View<Scalar, 4> d_q, d_k, d_v;
};

/// Keys begin .. end - 1 of a square, counted from the first of its span.
struct KeysOfSquare {
  std::int16_t begin = 0, end = 0;
};

template <class Scalar>
class Backward {
 public:
  explicit Backward(const Problem<Scalar>& problem)
      : x_(problem),
        head_dim_(x_.k.shape[3]),
        value_dim_(x_.v.shape[3]),
        group_(x_.k.shape[1] == 0 ? 0 : x_.q.shape[1] / x_.k.shape[1]),
        scale_(scale_of<Scalar>(x_.options, head_dim_)) {
    for (Index b = 0; b < x_.q.shape[0]; ++b) {
      const VisibleKeys visible = visible_in(b);
      for (Index first = 0; first < x_.q.shape[2]; first += span_length) {
        seen_.push_back(seen_by(visible, first, std::min(first + span_length, x_.q.shape[2])));
      }
    }
  }

  Index query_spans() const { return group_ * spans_of(x_.q.shape[2]); }
  Index key_spans() const { return spans_of(x_.k.shape[2]); }

  /// About how many multiplications the square takes.
  double work(const Square& square) const {
    const KeyRange keys = keys_of(square);
    const Index entries = (keys.end - keys.begin) * queries_of(square).count;
    return static_cast<double>(entries) * static_cast<double>(3 * head_dim_ + 2 * value_dim_);
  }

  /// What comes before a key head's first square.
  void start(Index b, Index kv) const {
    for (Index h = kv * group_; h < (kv + 1) * group_; ++h) clear_rows(x_.d_q[b][h]);
    clear_rows(x_.d_k[b][kv]);
    clear_rows(x_.d_v[b][kv]);
  }

  /// Adds a square's part to the gradients. Squares that share a query span or a key span are added
  /// in ascending order.
  void add(const Square& square) const;

  /// What comes after a key head's last square.
  void finish(Index b, Index kv) const {
    for (Index h = kv * group_; h < (kv + 1) * group_; ++h) multiply_rows(x_.d_q[b][h], scale_);
    multiply_rows(x_.d_k[b][kv], scale_);
  }

 private:
  struct Queries {
    Index head, first, count;
  };

  VisibleKeys visible_in(Index b) const {
    return VisibleKeys(x_.options, b, x_.q.shape[2], x_.k.shape[2]);
  }

  /// From the first key that one of these queries sees to the last.
  static KeyRange seen_by(const VisibleKeys& visible, Index first, Index end) {
    KeyRange seen{};
    for (Index i = first; i < end; ++i) {
      const KeyRange keys = visible.of(i);
      if (keys.begin == keys.end) continue;
      if (seen.begin == seen.end) seen = keys;
      seen = {std::min(seen.begin, keys.begin), std::max(seen.end, keys.end)};
    }
    return seen;
  }

  Queries queries_of(const Square& square) const {
    const Index spans = spans_of(x_.q.shape[2]);
    const Index first = square.query_span % spans * span_length;
    return {square.kv * group_ + square.query_span / spans, first,
            std::min(span_length, x_.q.shape[2] - first)};
  }

  /// The keys of a square that its queries see.
  KeyRange keys_of(const Square& square) const {
    const Index spans = spans_of(x_.q.shape[2]);
    const KeyRange seen =
        seen_[static_cast<std::size_t>(square.b * spans + square.query_span % spans)];
    const Index first = visible_in(square.b).sequence().begin + square.key_span * span_length;
    const KeyRange keys{std::max(seen.begin, first), std::min(seen.end, first + span_length)};
    return keys.begin < keys.end ? keys : KeyRange{};
  }

  /// Which keys of the square each of its queries sees before the mask: none where d_out is 0,
  /// because the loss does not depend on such a query.
  void find_keys(const Square& square, const Scalar* d_out, Index width,
                 KeysOfSquare* ranges) const;

  /// Which keys of a block each query of a block sees; `first_query` and `first_key` are their
  /// first. Bit j of allowed[r]: query r sees key j. bias[r][j] is what a mask of numbers adds.
  /// Returns the bits of the keys that some query sees.
  std::uint64_t find_allowed(Index b, Index head, Index first_query, Index first_key,
                             const KeysOfSquare* ranges, Index first_in_square, Index keys,
                             std::uint64_t* allowed, Scalar* bias) const;

  const Problem<Scalar>& x_;
  Index head_dim_, value_dim_;
  Index group_;  ///< query heads that read one key head
  Scalar scale_;
  std::vector<KeyRange> seen_;  ///< [batch, spans of queries]
};

template <class Scalar>
void Backward<Scalar>::find_keys(const Square& square, const Scalar* d_out, Index width,
                                 KeysOfSquare* ranges) const {
  const VisibleKeys visible = visible_in(square.b);
  const Queries queries = queries_of(square);
  const Index first_key = visible.sequence().begin + square.key_span * span_length;
  const auto place = [=](Index key) {
    return static_cast<std::int16_t>(std::clamp<Index>(key - first_key, 0, span_length));
  };
  for (Index r = 0; r < queries.count; ++r, d_out += width) {
    const auto is_zero = [](Scalar value) { return value == 0; };
    if (std::all_of(d_out, d_out + value_dim_, is_zero)) continue;
    const KeyRange range = visible.of(queries.first + r);
    ranges[r] = {place(range.begin), place(range.end)};
  }
}

template <class Scalar>
std::uint64_t Backward<Scalar>::find_allowed(Index b, Index head, Index first_query,
                                             Index first_key, const KeysOfSquare* ranges,
                                             Index first_in_square, Index keys,
                                             std::uint64_t* allowed, Scalar* bias) const {
  std::uint64_t any = 0;
  const auto find = [&](const auto& mask) {
    for (Index r = 0; r < block; ++r) {
      const Index begin = std::max<Index>(ranges[r].begin - first_in_square, 0);
      const Index count = std::min<Index>(ranges[r].end - first_in_square, keys) - begin;
      allowed[r] = count <= 0 ? 0 : ~std::uint64_t{0} >> (64 - count) << begin;
      if constexpr (!std::is_same_v<decltype(mask), const std::monostate&>) {
        if (allowed[r] != 0) {
          apply_mask(mask_of_head(mask, b, head)[first_query + r], first_key, allowed[r],
                     bias + r * block);
        }
      }
      any |= allowed[r];
    }
  };
  std::visit(find, x_.options.mask);
  return any;
}

template <class Scalar>
void Backward<Scalar>::add(const Square& square) const {
  const KeyRange seen = keys_of(square);
  if (seen.begin == seen.end || value_dim_ == 0) return;
  const Index b = square.b, kv = square.kv;
  const Queries queries = queries_of(square);
  const auto part_of = [&](const auto& array) {
    return rows_of(array[b][queries.head], queries.first, queries.count);
  };
  constexpr Index lanes = 64 / Index{sizeof(Scalar)};
  const Index key_width = rounded_up(head_dim_, lanes), value_width = rounded_up(value_dim_, lanes);
  const Index rows = rounded_up(queries.count, block);

  const Workspace space(sizeof(Scalar) *
                        static_cast<std::size_t>(rows * (2 * key_width + 2 * value_width + 2) +
                                                 block * (2 * key_width + value_width + head_dim_ +
                                                          value_dim_ + 3 * block)));
  Scalar* free_space = space.as<Scalar>();
  const auto take = [&free_space](Index count) {
    return std::exchange(free_space, free_space + count);
  };
  const Scalar* const q =
      dense_rows<Scalar>(part_of(x_.q), rows, key_width, take(rows * key_width));
  const Scalar* const d_out =
      dense_rows<Scalar>(part_of(x_.d_out), rows, value_width, take(rows * value_width));
  const Scalar* const out =
      dense_rows<Scalar>(part_of(x_.out), rows, value_width, take(rows * value_width));
  Scalar* const d_q_rows = take(rows * key_width);
  Scalar* const lse = take(rows);
  Scalar* const deltas = take(rows);
  Scalar* const k_copy = take(block * key_width);
  Scalar* const d_k_rows = take(block * key_width);
  Scalar* const d_v_rows = take(block * value_width);
  Scalar* const k_panel = take(block * head_dim_);
  Scalar* const v_panel = take(block * value_dim_);
  Scalar* const p = take(block * block);
  Scalar* const ds = take(block * block);
  Scalar* const bias = take(block * block);

  std::fill_n(d_q_rows, rows * key_width, Scalar(0));
  std::fill_n(lse, 2 * rows, Scalar(0));
  row_deltas(d_out, out, rows, value_width, value_dim_, deltas);

  for (Index r = 0; r < queries.count; ++r) lse[r] = x_.lse(b, queries.head, queries.first + r);
  const Mask& mask = x_.options.mask;
  const bool has_bias = std::holds_alternative<View<const float, 4>>(mask) ||
                        std::holds_alternative<View<const double, 4>>(mask);
  KeysOfSquare ranges[span_length];
  find_keys(square, d_out, value_width, ranges);

  const Index first_key = visible_in(b).sequence().begin + square.key_span * span_length;
  for (Index key = 0; key < seen.end - first_key; key += block) {
    const Index keys = std::min(block, seen.end - first_key - key);
    const Scalar* k_rows = nullptr;  // packed when a query sees the block
    for (Index first = 0; first < queries.count; first += block) {
      std::uint64_t allowed[block];
      if (find_allowed(b, queries.head, queries.first + first, first_key + key, ranges + first, key,
                       keys, allowed, bias) == 0) {
        continue;
      }
      if (k_rows == nullptr) {
        const auto k = rows_of(x_.k[b][kv], first_key + key, keys);
        const auto v = rows_of(x_.v[b][kv], first_key + key, keys);
        k_rows = dense_rows(k, block, key_width, k_copy);
        copy_transposed(k, k_panel);
        copy_transposed(v, v_panel);
        std::fill_n(d_k_rows, block * key_width, Scalar(0));
        std::fill_n(d_v_rows, block * value_width, Scalar(0));
      }
      add_backward_tile(BackwardTile<Scalar>{.head_dim = head_dim_,
                                             .value_dim = value_dim_,
                                             .key_width = key_width,
                                             .value_width = value_width,
                                             .scale = scale_,
                                             .softcap = static_cast<Scalar>(x_.options.softcap),
                                             .allowed = allowed,
                                             .bias = has_bias ? bias : nullptr,
                                             .q = q + first * key_width,
                                             .d_out = d_out + first * value_width,
                                             .lse = lse + first,
                                             .delta = deltas + first,
                                             .k = k_rows,
                                             .k_panel = k_panel,
                                             .v_panel = v_panel,
                                             .p = p,
                                             .ds = ds,
                                             .d_q = d_q_rows + first * key_width,
                                             .d_k = d_k_rows,
                                             .d_v = d_v_rows});
    }
    if (k_rows != nullptr) {
      add_rows(rows_of(x_.d_k[b][kv], first_key + key, keys), d_k_rows, key_width);
      add_rows(rows_of(x_.d_v[b][kv], first_key + key, keys), d_v_rows, value_width);
    }
  }
  add_rows(part_of(x_.d_q), d_q_rows, key_width);
}

}  // namespace

template <class Scalar>
Status attention_backward_into(View<const Scalar, 4> q, View<const Scalar, 4> k,
                               View<const Scalar, 4> v, View<const Scalar, 4> out,
                               View<const Scalar, 3> lse, View<const Scalar, 4> d_out,
                               const AttentionOptions& options, View<Scalar, 4> d_q,
                               View<Scalar, 4> d_k, View<Scalar, 4> d_v) {
  if (auto error = attention_error(q.shape, k.shape, v.shape, options)) return *error;
  const std::array<Index, 4> out_shape{q.shape[0], q.shape[1], q.shape[2], v.shape[3]};
  const std::array<Index, 4> lse_shape{q.shape[0], q.shape[1], q.shape[2], 1};
  if (auto error = shape_error({"out", out}, out_shape)) return *error;
  if (auto error = shape_error({"lse", lse}, lse_shape)) return *error;
  if (auto error = shape_error({"d_out", d_out}, out_shape)) return *error;
  if (auto error = shape_error({"d_q", d_q}, q.shape)) return *error;
  if (auto error = shape_error({"d_k", d_k}, k.shape)) return *error;
  if (auto error = shape_error({"d_v", d_v}, v.shape)) return *error;
  if (auto error =
          memory_error({{"q", q}, {"k", k}, {"v", v}, {"out", out}, {"lse", lse}, {"d_out", d_out}},
                       options, {{"d_q", d_q}, {"d_k", d_k}, {"d_v", d_v}})) {
    return *error;
  }
  const StandardFloatMode mode;
  const Problem<Scalar> problem{q, k, v, out, lse, d_out, options, d_q, d_k, d_v};
  const Backward<Scalar> backward(problem);
  const Index num_kv_heads = k.shape[1], heads = k.shape[0] * num_kv_heads;
  const Index query_spans = backward.query_spans(), key_spans = backward.key_spans();
  const Index squares_of_a_head = query_spans * key_spans, squares = heads * squares_of_a_head;
  const auto square = [=](Index n) {
    const Index head = n / squares_of_a_head;
    return Square{head / num_kv_heads, head % num_kv_heads, n / key_spans % query_spans,
                  n % key_spans};
  };
  double work = 0;
  for (Index n = 0; n < squares; ++n) work += backward.work(square(n));
  const bool parallel = work > serial_work && threads_at_hand() > 1;
  Progress progress(options.progress, work);
  const auto no_state = [] { return 0; };
  const auto add = [&](Index n) {
    const StandardFloatMode task_mode;
    const double of_square = backward.work(square(n));
    if (of_square == 0 || progress.stopped()) return;
    backward.add(square(n));
    progress.add(of_square);
  };

  share_out(heads, parallel, no_state,
            [&](int, Index head) { backward.start(head / num_kv_heads, head % num_kv_heads); });
  if (!parallel) {
    for (Index n = 0; n < squares; ++n) add(n);
  } else {
    // A square waits for those before it in its row and in its column.
    std::vector<std::atomic<signed char>> waits_for(static_cast<std::size_t>(squares));
    for (Index n = 0; n < squares; ++n) {
      waits_for[static_cast<std::size_t>(n)] = static_cast<signed char>(
          (n % key_spans > 0 ? 1 : 0) + (n / key_spans % query_spans > 0 ? 1 : 0));
    }
    std::vector<Index> first_squares;
    for (Index head = 0; head < heads; ++head) first_squares.push_back(head * squares_of_a_head);
    const auto is_ready = [&](Index n) { return --waits_for[static_cast<std::size_t>(n)] == 0; };
    tbb::parallel_for_each(first_squares, [&](Index n, tbb::feeder<Index>& feeder) {
      // A thread goes on with what lies nearest and leaves the rest to others.
      for (bool goes_on = true; goes_on;) {
        add(n);
        const bool right = n % key_spans + 1 < key_spans && is_ready(n + 1);
        const bool below = n / key_spans % query_spans + 1 < query_spans && is_ready(n + key_spans);
        if (right && below) feeder.add(n + key_spans);
        goes_on = right || below;
        n += right ? 1 : key_spans;
      }
    });
  }
  if (const Status done = progress.status("attention_backward"); !done) return done;
  share_out(heads, parallel, no_state,
            [&](int, Index head) { backward.finish(head / num_kv_heads, head % num_kv_heads); });
  return std::monostate();
}

template <class Scalar>
Result<AttentionGradients<Scalar>> attention_backward(
    View<const Scalar, 4> q, View<const Scalar, 4> k, View<const Scalar, 4> v,
    View<const Scalar, 4> out, View<const Scalar, 3> lse, View<const Scalar, 4> d_out,
    const AttentionOptions& options) {
  if (auto error = attention_error(q.shape, k.shape, v.shape, options)) return *error;
  AttentionGradients<Scalar> result{Tensor<Scalar, 4>(q.shape), Tensor<Scalar, 4>(k.shape),
                                    Tensor<Scalar, 4>(v.shape)};
  const auto done = attention_backward_into<Scalar>(
      q, k, v, out, lse, d_out, options, result.d_q.view(), result.d_k.view(), result.d_v.view());
  if (!done) return done.error();
  return result;
}

#define HEADPROOF_INSTANTIATE(Scalar)                                                             \
  template Status attention_backward_into(                                                        \
      View<const Scalar, 4>, View<const Scalar, 4>, View<const Scalar, 4>, View<const Scalar, 4>, \
      View<const Scalar, 3>, View<const Scalar, 4>, const AttentionOptions&, View<Scalar, 4>,     \
      View<Scalar, 4>, View<Scalar, 4>);                                                          \
  template Result<AttentionGradients<Scalar>> attention_backward(                                 \
      View<const Scalar, 4>, View<const Scalar, 4>, View<const Scalar, 4>, View<const Scalar, 4>, \
      View<const Scalar, 3>, View<const Scalar, 4>, const AttentionOptions&);
HEADPROOF_INSTANTIATE(float)
HEADPROOF_INSTANTIATE(double)
#undef HEADPROOF_INSTANTIATE

}  // namespace headproof
