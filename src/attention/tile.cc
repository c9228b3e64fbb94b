// Compiled once for each instruction set; the arithmetic of a row is that of canonical.cc.

#include "attention/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/tile.cc"

#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After it, and not sorted before it.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "attention/order.h"
#include "attention/tile-inl.h"
#include "attention/tile.h"

HWY_BEFORE_NAMESPACE();
namespace headproof {
namespace HWY_NAMESPACE {
/// The lanes of a vector folded in halves.
template <class D, class Real = hn::TFromD<D>>
HWY_INLINE Real Fold(D d, Vec<D> v) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::Half<D> half;
    return Fold(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
#endif
  (void)d;
  return hn::GetLane(v);
}

/// sum_lanes partial sums folded 8, 4, 2, 1.
template <class D, class Real = hn::TFromD<D>>
HWY_INLINE Real FoldLanes(D d, const Real* HWY_RESTRICT sums) {
  constexpr Index lanes = static_cast<Index>(hn::MaxLanes(D()));
  constexpr Index vectors = sum_lanes / lanes;
  Vec<D> sum[std::size_t{vectors}];
  for (Index n = 0; n < vectors; ++n) sum[n] = hn::Load(d, sums + n * lanes);
  for (Index width = vectors / 2; width > 0; width /= 2) {
    for (Index n = 0; n < width; ++n) sum[n] = hn::Add(sum[n], sum[n + width]);
  }
  return Fold(d, sum[0]);
}

template <class Real>
void PackKeys(const View<const Real, 2>& keys, Real* HWY_RESTRICT panel) {
  constexpr Index lanes = LanesOf<PackTag<Real>>();
  for (Index j = 0; j < keys.shape[0]; j += lanes) {
    const Index count = std::min(lanes, keys.shape[0] - j);
    const Real* key[std::size_t{lanes}];  // in the place of those that are not there the last
    for (Index n = 0; n < lanes; ++n) {
      key[n] = keys.data + (j + std::min(n, count - 1)) * keys.strides[0];
    }
    PackRows(key, count, keys.strides[1], keys.shape[1], panel + j);
  }
}

/// Vectors of a group's row that the registers hold beside the others.
inline constexpr int most_vectors = HWY_TARGET == HWY_AVX3 ? 4 : 2;
/// Elements of a cache line.
template <class Real>
inline constexpr Index line_of = 64 / Index{sizeof(Real)};
inline constexpr std::uint64_t all_keys = ~std::uint64_t{0};
/// One more than the highest bit's place.
inline Index BitWidth(std::uint64_t bits) { return 64 - std::countl_zero(bits); }

/// The bits first .. end - 1 of a block that begins at key `block_first`.
inline std::uint64_t RangeBits(KeyRange keys, Index block_first) {
  const Index begin = std::clamp<Index>(keys.begin - block_first, 0, key_block);
  const Index end = std::clamp<Index>(keys.end - block_first, 0, key_block);
  if (begin >= end) return 0;
  return (all_keys >> (key_block - (end - begin))) << begin;
}

/// Calls step(constant) with the number n, 1 .. most, as a constant.
template <int most, class Step>
HWY_INLINE void WithConstant(Index n, Step step) {
  if constexpr (most > 1) {
    if (n < most) return WithConstant<most - 1>(n, step);
  }
  step(std::integral_constant<int, most>());
}

/// Rows of a group whose registers hold 8 vectors of each. Such a group reads keys and values once,
/// in the order in which they lie, and its speed is that of memory.
inline constexpr Index few_rows = most_vectors / 2;
/// Vectors of a row's piece at most.
template <int rows>
inline constexpr int most_vectors_of = rows <= few_rows ? 8 : most_vectors;

/// Calls step(first element, vectors) for pieces of `width` elements, whole vectors each, `most` at
/// most and none much smaller than the others.
template <int most, class D, class Step>
HWY_INLINE void ForPieces(D, Index width, Step step) {
  constexpr Index lanes = LanesOf<D>();
  Index at = 0, left = (width + lanes - 1) / lanes;
  while (left > 0) {
    // 5 = 3 + 2 and 6 = 3 + 3 keep the pipelines fuller than 4 + 1 and 4 + 2.
    const Index now = left <= most ? left : left < 2 * most ? (left + 1) / 2 : most;
    WithConstant<most>(now, [&](auto vectors) HWY_ATTR { step(at, vectors); });
    at += now * lanes;
    left -= now;
  }
}

/// What a stage of a group fetches while it reads something else: a line at first + n * step in its
/// step n. It goes to the nearest cache; to the second where rows are few and read it much later.
template <class Real>
struct Ahead {
  const Real* first;
  Index step;

  template <int rows>
  HWY_INLINE void fetch(Index n, Index offset = 0) const {
    __builtin_prefetch(first + n * step + offset, 0, rows <= few_rows ? 2 : 3);
  }
};

/// s[r][j] = scale * sum over c of q[r][c] * k[c][j], ascending c, for a group and `keys` keys, and
/// maxima[r], the largest of them. A step is a channel.
template <int rows, class D, class Real = hn::TFromD<D>>
HWY_INLINE void Scores(D d, const Real* const* q, const Real* HWY_RESTRICT k, Index head_dim,
                       Real scale, Index keys, Ahead<Real> ahead, Real* HWY_RESTRICT s,
                       Real* HWY_RESTRICT maxima) {
  constexpr Index lanes = LanesOf<D>();
  const Real* query[std::size_t{rows}];
  Vec<D> largest[std::size_t{rows}];
  for (int r = 0; r < rows; ++r) {
    query[r] = q[r];
    largest[r] = hn::Set(d, -std::numeric_limits<Real>::infinity());
  }
  ForPieces<most_vectors_of<rows>>(
      d, keys, [&]<int vectors>(Index j, std::integral_constant<int, vectors>) HWY_ATTR {
        Vec<D> sum[std::size_t{rows}][std::size_t{vectors}];
        HWY_UNROLL(8)
        for (int r = 0; r < rows; ++r) {
          HWY_UNROLL(8)
          for (int n = 0; n < vectors; ++n) sum[r][n] = hn::Zero(d);
        }
        const Real* HWY_RESTRICT column = k + j;
        for (Index c = 0; c < head_dim; ++c, column += key_block) {
          ahead.template fetch<rows>(c);
          Vec<D> key[std::size_t{vectors}];
          HWY_UNROLL(8)
          for (int n = 0; n < vectors; ++n) key[n] = hn::Load(d, column + n * lanes);
          HWY_UNROLL(8)
          for (int r = 0; r < rows; ++r) {
            const Vec<D> x = hn::Set(d, query[r][c]);
            HWY_UNROLL(8)
            for (int n = 0; n < vectors; ++n) sum[r][n] = Fma(x, key[n], sum[r][n]);
          }
        }
        const Vec<D> factor = hn::Set(d, scale);
        HWY_UNROLL(8)
        for (int r = 0; r < rows; ++r) {
          HWY_UNROLL(8)
          for (int n = 0; n < vectors; ++n) {
            const Vec<D> score = hn::Mul(sum[r][n], factor);
            largest[r] = Larger(d, largest[r], score);
            hn::Store(score, d, s + r * key_block + j + n * lanes);
          }
        }
      });
  HWY_UNROLL(8)
  for (int r = 0; r < rows; ++r) maxima[r] = hn::GetLane(hn::MaxOfLanes(d, largest[r]));
}

/// The lanes from bit `first` on of a row's allowed keys.
template <class D>
HWY_INLINE hn::Mask<D> LaneMask(D d, std::uint64_t allowed, Index first) {
  const std::uint64_t bits = allowed >> first;
  return hn::LoadMaskBits(d, reinterpret_cast<const std::uint8_t*>(&bits));
}

/// Scores become logits where that needs more than the scale; masked ones -infinity. Returns the
/// largest.
template <class D, class Real = hn::TFromD<D>>
HWY_INLINE Real Logits(D d, std::uint64_t allowed, Index keys, Real softcap, const Real* added,
                       Real* HWY_RESTRICT s) {
  constexpr Index lanes = LanesOf<D>();
  const Vec<D> cap = hn::Set(d, softcap);
  const Vec<D> masked = hn::Set(d, -std::numeric_limits<Real>::infinity());
  Vec<D> largest = masked;
  for (Index j = 0; j < keys; j += lanes) {
    Vec<D> x = hn::Load(d, s + j);
    if (softcap > 0) x = hn::Mul(cap, Tanh(d, hn::Div(x, cap)));
    if (added != nullptr) x = hn::Add(x, hn::Load(d, added + j));
    x = hn::IfThenElse(LaneMask(d, allowed, j), x, masked);
    largest = Larger(d, largest, x);
    hn::Store(x, d, s + j);
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

/// Logits become weights exp(logit - shift), summed into `sums` by lanes after these are rescaled.
template <class D, class Real = hn::TFromD<D>>
HWY_INLINE void Weights(D d, Index keys, Real shift, Real rescale, Real* HWY_RESTRICT s,
                        Real* HWY_RESTRICT sums) {
  constexpr Index lanes = LanesOf<D>();
  const Vec<D> origin = hn::Set(d, shift), factor = hn::Set(d, rescale);
  HWY_UNROLL(1)
  for (Index lane = 0; lane < sum_lanes; lane += lanes) {
    Vec<D> sum = hn::Zero(d);
    for (Index j = lane; j < keys; j += sum_lanes) {
      const Vec<D> p = ExpBelowOverflow(d, hn::Sub(hn::Load(d, s + j), origin));
      hn::Store(p, d, s + j);
      sum = hn::Add(sum, p);
    }
    hn::Store(Fma(hn::Load(d, sums + lane), factor, sum), d, sums + lane);
  }
}

/// acc[r] = acc[r] * rescale[r] + sum over j of s[r][j] * v[j], ascending j, where bit j of
/// allowed[r] is set; those of `common` are set for all rows. A step is a key.
template <int rows, class D, class Real = hn::TFromD<D>>
HWY_INLINE void Accumulate(D d, const Real* HWY_RESTRICT s, const Real* HWY_RESTRICT v,
                           Index v_stride, const std::uint64_t* allowed, std::uint64_t common,
                           const Real* HWY_RESTRICT rescale, Index value_width, Ahead<Real> ahead,
                           Real* HWY_RESTRICT acc) {
  constexpr Index lanes = LanesOf<D>();
  ForPieces<most_vectors_of<rows>>(
      d, value_width, [&]<int vectors>(Index c, std::integral_constant<int, vectors>) HWY_ATTR {
        Vec<D> sum[std::size_t{rows}][std::size_t{vectors}];
        HWY_UNROLL(8)
        for (int r = 0; r < rows; ++r) {
          const Vec<D> factor = hn::Set(d, rescale[r]);
          HWY_UNROLL(8)
          for (int n = 0; n < vectors; ++n) {
            sum[r][n] = hn::Mul(hn::Load(d, acc + r * value_width + c + n * lanes), factor);
          }
        }
        for (Index j = 0; j < key_block;) {
          const Index end = j + std::countr_one(common >> j);
          const Real* HWY_RESTRICT value = v + j * v_stride + c;
          for (; j < end; ++j, value += v_stride) {
            for (Index at = 0; at < vectors * lanes; at += 4 * line_of<Real>)
              ahead.template fetch<rows>(j, c + at);
            Vec<D> row[std::size_t{vectors}];
            HWY_UNROLL(8)
            for (int n = 0; n < vectors; ++n) row[n] = hn::LoadU(d, value + n * lanes);
            HWY_UNROLL(8)
            for (int r = 0; r < rows; ++r) {
              const Vec<D> x = hn::Set(d, s[r * key_block + j]);
              HWY_UNROLL(8)
              for (int n = 0; n < vectors; ++n) sum[r][n] = Fma(x, row[n], sum[r][n]);
            }
          }
          if (j == key_block) break;
          // Up to the next key that all see, each row takes those that it sees itself.
          const KeyRange apart{j, j + std::countr_zero(common >> j)};
          HWY_UNROLL(8)
          for (int r = 0; r < rows; ++r) {
            for (std::uint64_t left = allowed[r] & RangeBits(apart, 0); left != 0;
                 left &= left - 1) {
              const Index key = std::countr_zero(left);
              const Vec<D> x = hn::Set(d, s[r * key_block + key]);
              HWY_UNROLL(8)
              for (int n = 0; n < vectors; ++n) {
                sum[r][n] = Fma(x, hn::LoadU(d, v + key * v_stride + c + n * lanes), sum[r][n]);
              }
            }
          }
          j = apart.end;
        }
        HWY_UNROLL(8)
        for (int r = 0; r < rows; ++r) {
          HWY_UNROLL(8)
          for (int n = 0; n < vectors; ++n) {
            hn::Store(sum[r][n], d, acc + r * value_width + c + n * lanes);
          }
        }
      });
}

/// What keys leave of a tile's rows: sums of their values times the weights, the largest logits,
/// and the sums of the weights.
template <class Real>
struct Sums {
  Real* values;   // [tile_rows][value_width]
  Real* maxima;   // [tile_rows]
  Real* weights;  // [tile_rows]
};

/// A task's memory; see tile_workspace.
template <class Real>
struct State {
  // Of the tile at hand, in the blocks at hand: for few rows several, tile_rows places in all.
  Real* s;         // [tile_rows][key_block]: scores, logits, weights in turn
  Real* added;     // [tile_rows][key_block]: what the mask adds
  Real* shifts;    // [tile_rows + sum_lanes], because whole vectors are written from any place on
  Real* rescales;  // [tile_rows + sum_lanes]
  Real* maxima;    // [tile_rows + sum_lanes]
  // Of the tile at hand, in one span.
  Sums<Real> part;
  Real* lanes;  // [tile_rows][sum_lanes]: the sum of the weights
  // Of every tile, tile after tile; the pointers are those of the tile at hand.
  const Real** q;    // [tile_rows]: where the queries lie, head_dim elements each
  Real* packed_q;    // [tile_rows][head_dim]: queries whose channels do not lie side by side
  Sums<Real> total;  // of the spans before
  // Of the block of keys at hand, where they are not packed.
  Real* panel;  // [head_dim][key_block]
  Real* rows;   // [key_block][value_width]

  State(Real* at, const KeysAndValues<Real>& kv, Index tiles) {
    const auto take = [&](Index elements) {
      Real* const taken = at;
      at += elements;
      return taken;
    };
    const Index width = kv.value_width();
    panel = take(kv.head_dim() * key_block);
    rows = take(key_block * width);
    s = take(tile_rows * key_block);
    added = take(tile_rows * key_block);
    part = {take(tile_rows * width), take(tile_rows), take(tile_rows)};
    lanes = take(tile_rows * sum_lanes);
    shifts = take(tile_rows + sum_lanes);
    rescales = take(tile_rows + sum_lanes);
    maxima = take(tile_rows + sum_lanes);
    total = {take(tiles * tile_rows * width), take(tiles * tile_rows), take(tiles * tile_rows)};
    packed_q = take(tiles * tile_rows * kv.head_dim());
    static_assert(sizeof(Real*) <= 2 * sizeof(Real));
    q = reinterpret_cast<const Real**>(take(2 * tiles * tile_rows));
  }

  State of_tile(const KeysAndValues<Real>& kv, Index t) const {
    State other = *this;
    other.total.values += t * tile_rows * kv.value_width();
    other.total.maxima += t * tile_rows;
    other.total.weights += t * tile_rows;
    other.q += t * tile_rows;
    other.packed_q += t * tile_rows * kv.head_dim();
    return other;
  }
};

/// A query row of a tile.
struct TileRow {
  Index h, i;     ///< query i of query head h
  KeyRange keys;  ///< what it may see before the mask, counted from the sequence's first key
};

/// Calls step(r, h, i) for the rows r of a tile: each is query i of query head h.
template <class Real, class Step>
HWY_INLINE void ForRows(const Tile<Real>& tile, Step step) {
  const Index group = tile.queries->group;
  Index i = tile.first_row / group, of_group = tile.first_row % group;
  for (Index r = 0; r < tile.count; ++r) {
    step(r, tile.first_head + of_group, i);
    if (++of_group == group) ++i, of_group = 0;
  }
}

/// Leaves out what the mask forbids to query i of head h; writes what it adds. Bit j is the
/// sequence's key first + j.
template <class Real>
std::uint64_t MaskedBits(std::uint64_t range, const Tile<Real>& tile, Index h, Index i, Index first,
                         Real* HWY_RESTRICT added) {
  const Index first_column = tile.visible.sequence().begin + first;
  return std::visit(
      [&](const auto& view) -> std::uint64_t {
        using View = std::decay_t<decltype(view)>;
        if constexpr (std::is_same_v<View, std::monostate>) {
          return range;
        } else {
          if (range == 0) return 0;
          const auto of_head = mask_of_head(view, tile.b, h);
          const Index step = of_head.strides[1];
          const auto* at = of_head.data + i * of_head.strides[0] + first_column * step;
          std::uint64_t allowed = 0;
          const Index end = BitWidth(range);
          for (Index j = std::countr_zero(range); j < end; ++j) {
            const auto value = at[j * step];
            if constexpr (std::is_same_v<std::decay_t<decltype(value)>, bool>) {
              allowed |= std::uint64_t{value} << j;
            } else {
              added[j] = static_cast<Real>(value);
              const bool open = added[j] != -std::numeric_limits<Real>::infinity();
              allowed |= std::uint64_t{open} << j;
            }
          }
          return allowed;
        }
      },
      *tile.queries->mask);
}

/// What a block of keys means for the rows of one group.
struct GroupBlock {
  Index begin, end;            ///< its rows
  std::uint64_t common, seen;  ///< the keys that all of them see, and that any of them sees
};

/// The rows of a tile and the keys that any and all of them see.
struct TileRows {
  TileRow row[std::size_t{tile_rows}];
  KeyRange any, whole;
};

/// Where a tile's queries lie, or copies of them, and what they see.
template <class Real>
HWY_INLINE void LookAtRows(const Tile<Real>& tile, const State<Real>& state, TileRows& rows) {
  const KeysAndValues<Real>& kv = *tile.kv;
  const View<const Real, 4>& q = tile.queries->q;
  const Index first_key = tile.visible.sequence().begin;
  // By themselves, so that they stay in registers.
  Index any_begin = kv.count(), any_end = 0;
  Index whole_begin = 0, whole_end = tile.queries->mask->index() == 0 ? kv.count() : 0;
  ForRows(tile, [&](Index r, Index h, Index i) HWY_ATTR {
    state.q[r] = row_of(q, tile.b, h, i);
    if (q.strides[3] != 1) {
      Real* const packed = state.packed_q + r * kv.head_dim();
      pack_rows<Real>({state.q[r], {1, kv.head_dim()}, {0, q.strides[3]}}, kv.head_dim(), packed);
      state.q[r] = packed;
    }
    const KeyRange keys = tile.visible.of(i);
    const bool sees = keys.begin < keys.end;
    const KeyRange counted = {sees ? keys.begin - first_key : 0, sees ? keys.end - first_key : 0};
    rows.row[r] = {h, i, counted};
    whole_begin = std::max(whole_begin, counted.begin);
    whole_end = std::min(whole_end, counted.end);
    if (!sees) return;
    any_begin = std::min(any_begin, counted.begin);
    any_end = std::max(any_end, counted.end);
  });
  rows.any = {any_begin, any_end};
  rows.whole = {whole_begin, whole_end};
}

/// A block of keys and values where stages read it.
template <class Real>
struct PackedBlock {
  const Real* panel;   ///< [head_dim][key_block]
  const Real* values;  ///< [key_block][value_width], values_stride apart
  Index values_stride;
};

/// The block that begins at key `first`, packed now if it has not been.
template <class Real>
HWY_INLINE PackedBlock<Real> Packed(const KeysAndValues<Real>& kv, Index first,
                                    const State<Real>& state) {
  const Index count = std::min(key_block, kv.count() - first);
  PackedBlock<Real> block{state.panel, state.rows, kv.value_width()};
  if (kv.panels != nullptr) {
    block.panel = kv.panels + first * kv.head_dim();
  } else {
    PackKeys(rows_of(kv.keys, first, count), state.panel);
  }
  if (kv.rows != nullptr) {
    block.values = kv.rows + first * kv.rows_stride;
    block.values_stride = kv.rows_stride;
  } else {
    pack_rows(rows_of(kv.values, first, count), kv.value_width(), state.rows);
  }
  return block;
}

/// A block of keys, and what it means for a tile.
template <class Real>
struct TileBlock {
  PackedBlock<Real> packed;
  std::uint64_t allowed[std::size_t{tile_rows}];  ///< bit j: the row sees the block's key j
  GroupBlock groups[std::size_t{tile_groups}];
};

/// Which rows of the tile see any key of the block that begins at key `first`, all but
/// `block.packed` of it, and what the mask adds.
template <class Real>
HWY_INLINE std::uint64_t LookAtBlock(const Tile<Real>& tile, const TileRows& rows, Index first,
                                     Real* added, TileBlock<Real>& block) {
  const bool all = rows.whole.begin <= first && first + key_block <= rows.whole.end;
  const bool masked = tile.queries->mask->index() != 0;
  std::uint64_t seeing = 0;
  GroupBlock* group = block.groups;
  for (Index begin = 0; begin < tile.count; begin += group_rows, ++group) {
    const Index end = std::min(begin + group_rows, tile.count);
    std::uint64_t common = all_keys, seen = 0;
    for (Index r = begin; r < end; ++r) {
      const TileRow& row = rows.row[r];
      std::uint64_t allowed = all ? all_keys : RangeBits(row.keys, first);
      if (masked) allowed = MaskedBits(allowed, tile, row.h, row.i, first, added + r * key_block);
      block.allowed[r] = allowed;
      seeing |= std::uint64_t{allowed != 0} << r;
      common &= allowed;
      seen |= allowed;
    }
    *group = {begin, end, common, seen};
  }
  return seeing;
}

/// The keys of `count` blocks for all rows of a tile, stage by stage: each stage takes all blocks
/// before the next one begins. Row r in block b has place b * tile.count + r in what State keeps of
/// the blocks at hand.
template <class D, class Real = hn::TFromD<D>>
HWY_INLINE void Blocks(D d, const Tile<Real>& tile, const State<Real>& state,
                       const TileBlock<Real>* blocks, Index count) {
  const Index head_dim = tile.kv->head_dim(), width = tile.kv->value_width();
  const Real softcap = tile.queries->softcap;
  const bool added = tile.queries->mask->index() > 1;  // numbers, not booleans
  const Index groups = (tile.count + group_rows - 1) / group_rows;
  // Many rows read a block again and again, and fetch what the next stage reads, a quarter in each
  // of four groups. Few read it once, and fetch one line in four of what they read themselves, two
  // pages later: the processor fetches ahead by itself, but begins anew with each page.
  const bool once = count > 1;
  constexpr Index two_pages = 8192 / Index{sizeof(Real)}, line = line_of<Real>;
  // Calls step(block, group, place of the group's first row) for groups that see some key.
  const auto for_groups = [&](auto step) HWY_ATTR {
    for (Index b = 0; b < count; ++b) {
      for (Index g = 0; g < groups; ++g) {
        const GroupBlock& group = blocks[b].groups[g];
        if (group.seen != 0) step(blocks[b], group, b * tile.count + group.begin, g);
      }
    }
  };
  for_groups([&](const auto& block, const GroupBlock& group, Index place, Index g) HWY_ATTR {
    const PackedBlock<Real>& now = block.packed;
    const Ahead<Real> ahead = once ? Ahead<Real>{now.panel + two_pages, key_block}
                                   : Ahead<Real>{now.values + g % 4 * head_dim * line, line};
    WithConstant<group_rows>(group.end - group.begin, [&](auto rows) HWY_ATTR {
      Scores<rows()>(d, state.q + group.begin, now.panel, head_dim, tile.queries->scale,
                     BitWidth(group.seen), ahead, state.s + place * key_block,
                     state.maxima + place);
    });
  });
  for (Index b = 0; b < count; ++b) {
    const Index first = b * tile.count;
    for (Index g = 0; g < groups; ++g) {
      const GroupBlock& group = blocks[b].groups[g];
      if (group.common == all_keys && !added && softcap == 0) continue;
      for (Index r = group.begin; r < group.end; ++r) {
        const Index at = (first + r) * key_block;
        state.maxima[first + r] = Logits(d, blocks[b].allowed[r], BitWidth(group.seen), softcap,
                                         added ? state.added + at : nullptr, state.s + at);
      }
    }
    for (Index r = 0; r < tile.count; r += LanesOf<D>()) {
      const Vec<D> before = hn::Load(d, state.part.maxima + r);
      const Vec<D> maximum = Larger(d, before, hn::LoadU(d, state.maxima + first + r));
      const Vec<D> shift = Origin(d, maximum);
      hn::Store(maximum, d, state.part.maxima + r);
      hn::StoreU(shift, d, state.shifts + first + r);
      hn::StoreU(ExpBelowOverflow(d, hn::Sub(before, shift)), d, state.rescales + first + r);
    }
  }
  for (Index b = 0; b < count; ++b) {
    for (Index r = 0; r < tile.count; ++r) {
      const std::uint64_t seen = blocks[b].groups[r / group_rows].seen;
      const Index place = b * tile.count + r;
      if (seen == 0) continue;
      Weights(d, BitWidth(seen), state.shifts[place], state.rescales[place],
              state.s + place * key_block, state.lanes + r * sum_lanes);
    }
  }
  for_groups([&](const auto& block, const GroupBlock& group, Index place, Index g) HWY_ATTR {
    const PackedBlock<Real>& now = block.packed;
    const Ahead<Real> ahead =
        once ? Ahead<Real>{now.values + two_pages, now.values_stride}
             : Ahead<Real>{now.panel + (head_dim + g % 4 * line) * key_block, line};
    WithConstant<group_rows>(group.end - group.begin, [&](auto rows) HWY_ATTR {
      Accumulate<rows()>(d, state.s + place * key_block, now.values, now.values_stride,
                         block.allowed + group.begin, group.common, state.rescales + place, width,
                         ahead, state.part.values + group.begin * width);
    });
  });
}

/// What a span left joins what earlier spans left. `first` says which rows have no earlier span,
/// `seen` which have keys in this one.
template <class D, class Real = hn::TFromD<D>>
HWY_INLINE void Merge(D d, Index count, Index width, std::uint64_t first, std::uint64_t seen,
                      const Sums<Real>& part, const State<Real>& state, const Sums<Real>& total) {
  constexpr Index lanes = LanesOf<D>();
  // The shares of the old and the new, in `maxima` and `rescales`.
  for (Index r = 0; r < count; r += lanes) {
    const Vec<D> old_maximum = hn::Load(d, total.maxima + r);
    const Vec<D> new_maximum = hn::Load(d, part.maxima + r);
    const Vec<D> maximum = Larger(d, old_maximum, new_maximum);
    const Vec<D> shift = Origin(d, maximum);
    hn::Store(maximum, d, state.shifts + r);
    hn::Store(ExpBelowOverflow(d, hn::Sub(old_maximum, shift)), d, state.maxima + r);
    hn::Store(ExpBelowOverflow(d, hn::Sub(new_maximum, shift)), d, state.rescales + r);
  }
  for (Index r = 0; r < count; ++r) {
    if ((seen >> r & 1) == 0) continue;
    const bool copied = (first >> r & 1) != 0;
    const Real sum = part.weights[r], old_share = state.maxima[r], new_share = state.rescales[r];
    total.maxima[r] = copied ? part.maxima[r] : state.shifts[r];
    total.weights[r] = copied ? sum : std::fma(total.weights[r], old_share, sum * new_share);
    const Real* HWY_RESTRICT from = part.values + r * width;
    Real* HWY_RESTRICT to = total.values + r * width;
    for (Index c = 0; c < width; c += lanes) {
      const Vec<D> p = hn::Load(d, from + c);
      const Vec<D> scaled = hn::Mul(p, hn::Set(d, new_share));
      const Vec<D> both = Fma(hn::Load(d, to + c), hn::Set(d, old_share), scaled);
      hn::Store(copied ? p : both, d, to + c);
    }
  }
}

/// lse = maximum + ln(sum), where it is wanted; -infinity for a row that saw no key.
template <class D, class Real = hn::TFromD<D>>
HWY_INLINE void WriteLse(D d, const Tile<Real>& tile, const Sums<Real>& total, Real* logs,
                         std::uint64_t seen) {
  constexpr Real infinity = std::numeric_limits<Real>::infinity();
  const View<Real, 3>& lse = tile.queries->lse;
  if (lse.data == nullptr) return;
  for (Index r = 0; r < tile.count; r += LanesOf<D>()) {
    const Vec<D> log = Log(d, hn::Load(d, total.weights + r));
    hn::Store(hn::Add(hn::Load(d, total.maxima + r), log), d, logs + r);
  }
  ForRows(tile, [&](Index r, Index h, Index i) HWY_ATTR {
    lse(tile.b, h, i) = (seen >> r & 1) == 0    ? -infinity
                        : total.weights[r] == 0 ? std::numeric_limits<Real>::quiet_NaN()
                                                : logs[r];
  });
}

/// out = total / sum, 0 for a row that saw no key; and lse.
template <class D, class Real = hn::TFromD<D>>
HWY_INLINE void Finish(D d, const Tile<Real>& tile, const Sums<Real>& total,
                       const State<Real>& state, std::uint64_t seen) {
  constexpr Index lanes = LanesOf<D>();
  const Index width = tile.kv->value_width(), value_dim = tile.kv->value_dim();
  const View<Real, 4>& out = tile.queries->out;
  const Index out_stride = out.strides[3];
  const bool direct = out_stride == 1 && value_dim == width;
  ForRows(tile, [&](Index r, Index h, Index i) HWY_ATTR {
    const bool empty = (seen >> r & 1) == 0;
    const Vec<D> sum = hn::Set(d, total.weights[r]);
    Real* const values = total.values + r * width;
    Real* const row = row_of(out, tile.b, h, i);
    Real* const to = direct ? row : values;
    for (Index c = 0; c < width; c += lanes) {
      hn::StoreU(empty ? hn::Zero(d) : hn::Div(hn::Load(d, values + c), sum), d, to + c);
    }
    if (direct) return;
    for (Index c = 0; c < value_dim; ++c) row[c * out_stride] = values[c];
  });
  WriteLse(d, tile, total, state.shifts, seen);
}

/// What the keys of the span that begins at key `first` leave of one tile, in state.part; returns
/// which rows see any of them. Where none does, state.part holds anything.
template <class D, class Real = hn::TFromD<D>>
HWY_INLINE std::uint64_t Span(D d, const Tile<Real>& tile, const TileRows& rows, Index span,
                              const State<Real>& state) {
  const KeysAndValues<Real>& kv = *tile.kv;
  const KeyRange keys{std::max(span, rows.any.begin), std::min(span + span_length, rows.any.end)};
  if (keys.begin >= keys.end) return 0;
  std::fill_n(state.part.values, tile.count * kv.value_width(), Real(0));
  std::fill_n(state.lanes, tile.count * sum_lanes, Real(0));
  std::fill_n(state.part.maxima, tile_rows, -std::numeric_limits<Real>::infinity());
  // Few rows take all blocks of a cache together, because memory is read faster in long runs than
  // in turns of short ones.
  static_assert(few_rows * blocks_per_span <= tile_rows, "places in what State keeps");
  TileBlock<Real> blocks[std::size_t{blocks_per_span}];
  const bool packed = kv.panels != nullptr && kv.rows != nullptr;
  const Index most = packed && tile.count <= few_rows ? blocks_per_span : 1;
  std::uint64_t seen = 0;
  Index count = 0;
  for (Index first = keys.begin / key_block * key_block; first < keys.end; first += key_block) {
    Real* const added = state.added + count * tile.count * key_block;
    const std::uint64_t seeing = LookAtBlock(tile, rows, first, added, blocks[count]);
    if (seeing == 0) continue;
    seen |= seeing;
    blocks[count].packed = Packed(kv, first, state);
    if (++count < most) continue;
    Blocks(d, tile, state, blocks, count);
    count = 0;
  }
  Blocks(d, tile, state, blocks, count);
  for (Index r = 0; r < tile.count; ++r) {
    state.part.weights[r] = FoldLanes(d, state.lanes + r * sum_lanes);
  }
  return seen;
}

/// Spans of keys, one after the other, for all tiles.
template <class Real>
void RunTiles(const Tile<Real>* tiles, Index count, Real* workspace) {
  const hn::CappedTag<Real, 64 / sizeof(Real)> d;
  const KeysAndValues<Real>& kv = *tiles->kv;
  const State<Real> memory(workspace, kv, count);
  TileRows rows[std::size_t{task_tiles}];
  std::uint64_t seen[std::size_t{task_tiles}] = {};  // bit r: row r saw a key
  Index end = 0;
  for (Index t = 0; t < count; ++t) {
    LookAtRows(tiles[t], memory.of_tile(kv, t), rows[t]);
    end = std::max(end, rows[t].any.end);
  }
  for (Index span = 0; span < end; span += span_length) {
    for (Index t = 0; t < count; ++t) {
      State<Real> state = memory.of_tile(kv, t);
      const bool is_first = seen[t] == 0;
      if (is_first) state.part = state.total;  // What nothing came before is the total.
      const std::uint64_t seeing = Span(d, tiles[t], rows[t], span, state);
      if (!is_first && seeing != 0) {
        Merge(d, tiles[t].count, kv.value_width(), ~seen[t], seeing, state.part, state,
              state.total);
      }
      seen[t] |= seeing;
    }
  }
  for (Index t = 0; t < count; ++t) {
    const State<Real> state = memory.of_tile(kv, t);
    Finish(d, tiles[t], state.total, state, seen[t]);
  }
}

/// What a span leaves of a tile, for merge_spans: which rows saw a key, and the rest.
template <class Real>
struct SpanResult {
  std::uint64_t* seen;
  Sums<Real> sums;

  /// In span_elements(...) elements; each part is aligned as they are.
  explicit SpanResult(Real* at)
      : seen(reinterpret_cast<std::uint64_t*>(at)),
        sums{at + sum_lanes + 2 * tile_rows, at + sum_lanes, at + sum_lanes + tile_rows} {}
};

template <class Real>
void RunSpan(const Tile<Real>& tile, Index span, Real* workspace, Real* result) {
  const hn::CappedTag<Real, 64 / sizeof(Real)> d;
  State<Real> state(workspace, *tile.kv, 1);
  const SpanResult<Real> left(result);
  state.part = left.sums;
  TileRows rows;
  LookAtRows(tile, state, rows);
  *left.seen = Span(d, tile, rows, span * span_length, state);
}

template <class Real>
void MergeSpans(const Tile<Real>& tile, Index spans, Real* results, Real* workspace) {
  const hn::CappedTag<Real, 64 / sizeof(Real)> d;
  const Index width = tile.kv->value_width(), size = span_elements(*tile.kv, tile.count);
  const State<Real> state(workspace, *tile.kv, 1);
  Sums<Real> total = SpanResult<Real>(results).sums;
  std::uint64_t seen = 0;
  for (Index span = 0; span < spans; ++span) {
    const SpanResult<Real> left(results + span * size);
    if (*left.seen == 0) continue;
    if (seen == 0) {
      total = left.sums;
    } else {
      Merge(d, tile.count, width, ~seen, *left.seen, left.sums, state, total);
    }
    seen |= *left.seen;
  }
  Finish(d, tile, total, state, seen);
}

void RunTilesFloat(const Tile<float>* tiles, Index count, float* workspace) {
  RunTiles(tiles, count, workspace);
}
void RunTilesDouble(const Tile<double>* tiles, Index count, double* workspace) {
  RunTiles(tiles, count, workspace);
}
void RunSpanFloat(const Tile<float>& tile, Index span, float* workspace, float* result) {
  RunSpan(tile, span, workspace, result);
}
void RunSpanDouble(const Tile<double>& tile, Index span, double* workspace, double* result) {
  RunSpan(tile, span, workspace, result);
}
void MergeSpansFloat(const Tile<float>& tile, Index spans, float* results, float* workspace) {
  MergeSpans(tile, spans, results, workspace);
}
void MergeSpansDouble(const Tile<double>& tile, Index spans, double* results, double* workspace) {
  MergeSpans(tile, spans, results, workspace);
}
void PackKeysFloat(const View<const float, 2>& keys, float* panel) { PackKeys(keys, panel); }
void PackKeysDouble(const View<const double, 2>& keys, double* panel) { PackKeys(keys, panel); }

}  // namespace HWY_NAMESPACE
}  // namespace headproof
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headproof {

HWY_EXPORT(RunTilesFloat);
HWY_EXPORT(RunTilesDouble);
HWY_EXPORT(RunSpanFloat);
HWY_EXPORT(RunSpanDouble);
HWY_EXPORT(MergeSpansFloat);
HWY_EXPORT(MergeSpansDouble);
HWY_EXPORT(PackKeysFloat);
HWY_EXPORT(PackKeysDouble);

void run_tiles(const Tile<float>* tiles, Index count, float* workspace) {
  HWY_DYNAMIC_DISPATCH(RunTilesFloat)(tiles, count, workspace);
}
void run_tiles(const Tile<double>* tiles, Index count, double* workspace) {
  HWY_DYNAMIC_DISPATCH(RunTilesDouble)(tiles, count, workspace);
}
void run_span(const Tile<float>& tile, Index span, float* workspace, float* result) {
  HWY_DYNAMIC_DISPATCH(RunSpanFloat)(tile, span, workspace, result);
}
void run_span(const Tile<double>& tile, Index span, double* workspace, double* result) {
  HWY_DYNAMIC_DISPATCH(RunSpanDouble)(tile, span, workspace, result);
}
void merge_spans(const Tile<float>& tile, Index spans, float* results, float* workspace) {
  HWY_DYNAMIC_DISPATCH(MergeSpansFloat)(tile, spans, results, workspace);
}
void merge_spans(const Tile<double>& tile, Index spans, double* results, double* workspace) {
  HWY_DYNAMIC_DISPATCH(MergeSpansDouble)(tile, spans, results, workspace);
}
void pack_keys(View<const float, 2> keys, float* panel) {
  HWY_DYNAMIC_DISPATCH(PackKeysFloat)(keys, panel);
}
void pack_keys(View<const double, 2> keys, double* panel) {
  HWY_DYNAMIC_DISPATCH(PackKeysDouble)(keys, panel);
}

}  // namespace headproof
#endif
