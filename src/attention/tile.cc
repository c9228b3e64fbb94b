// Compiled once for each instruction set; the arithmetic of a row is that of canonical.cc.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/tile.cc"
// Targets without a fused multiply-add are left out; plain scalar code with std::fma stays. So are
// those that newer releases of Highway add above AVX-512, for which nothing here is different.
#define HWY_BROKEN_EMU128 1
#define HWY_DISABLED_TARGETS ~(HWY_SCALAR | HWY_AVX2 | HWY_AVX3 | HWY_NEON)

#include "attention/tile.h"

#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "attention/elementary.h"
#include "attention/order.h"
#include "attention/visible.h"

HWY_BEFORE_NAMESPACE();
namespace headproof {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using Vec = hn::Vec<D>;

template <class V>
HWY_INLINE V Fma(V a, V b, V c) {
#if HWY_TARGET == HWY_SCALAR
  return V{std::fma(a.raw, b.raw, c.raw)};
#else
  return hn::MulAdd(a, b, c);
#endif
}

#if HWY_TARGET == HWY_AVX3
// e 2^n with one rounding, where it is subnormal; elsewhere that takes two products.
HWY_INLINE hn::Vec512<float> ScalePower(hn::Vec512<float> e, hn::Vec512<float> n) {
  return {_mm512_scalef_ps(e.raw, n.raw)};
}
HWY_INLINE hn::Vec512<double> ScalePower(hn::Vec512<double> e, hn::Vec512<double> n) {
  return {_mm512_scalef_pd(e.raw, n.raw)};
}
HWY_INLINE hn::Vec256<float> ScalePower(hn::Vec256<float> e, hn::Vec256<float> n) {
  return {_mm256_scalef_ps(e.raw, n.raw)};
}
template <class Real, std::size_t lanes>
HWY_INLINE hn::Vec128<Real, lanes> ScalePower(hn::Vec128<Real, lanes> e,
                                              hn::Vec128<Real, lanes> n) {
  if constexpr (sizeof(Real) == 4) {
    return hn::Vec128<Real, lanes>{_mm_scalef_ps(e.raw, n.raw)};
  } else {
    return hn::Vec128<Real, lanes>{_mm_scalef_pd(e.raw, n.raw)};
  }
}
#endif

template <class D, class V = Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  using Real = hn::TFromD<D>;
  using C = ExpConstants<Real>;
  const auto constant = [&](Real value) { return hn::Set(d, value); };
  x = hn::IfThenElse(hn::Lt(x, constant(C::lowest)), constant(C::lowest), x);
  const V n = hn::Sub(Fma(x, constant(C::log2e), constant(C::round)), constant(C::round));
  V r = Fma(n, constant(-C::ln2_high), x);
  r = Fma(n, constant(-C::ln2_low), r);
  V q = constant(C::q[0]);
  for (std::size_t c = 1; c < std::size(C::q); ++c) q = Fma(q, r, constant(C::q[c]));
  const V e = hn::Add(Fma(hn::Mul(r, r), q, r), constant(1));
#if HWY_TARGET == HWY_AVX3
  return ScalePower(e, n);
#else
  const hn::RebindToSigned<D> di;
  using Int = hn::TFromD<decltype(di)>;
  const auto whole = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(whole);
  const auto power = [&](auto exponent) {
    return hn::BitCast(
        d, hn::ShiftLeft<C::mantissa_bits>(hn::Add(exponent, hn::Set(di, Int{C::bias}))));
  };
  return hn::Mul(hn::Mul(e, power(half)), power(hn::Sub(whole, half)));
#endif
}

/// exp of one number, with the vector code's bits.
template <class Real>
HWY_INLINE Real OneExp(Real x) {
  const hn::CappedTag<Real, 16 / sizeof(Real)> d;
  return hn::GetLane(Exp(d, hn::Set(d, x)));
}

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

/// s[r][j] = scale * sum over c of q[c][r] * k[c][j], ascending c, for a group's rows and a block.
template <int rows, class D, class Real = hn::TFromD<D>>
HWY_INLINE void Scores(D d, const Real* HWY_RESTRICT q, const Real* HWY_RESTRICT k, Index head_dim,
                       Real scale, Real* HWY_RESTRICT s) {
  constexpr Index lanes = static_cast<Index>(hn::MaxLanes(D()));
  constexpr int vectors = HWY_TARGET == HWY_AVX3 ? 4 : 2;
  for (Index j = 0; j < key_block; j += vectors * lanes) {
    Vec<D> sum[std::size_t{rows}][std::size_t{vectors}];
    HWY_UNROLL(8)
    for (int r = 0; r < rows; ++r) {
      HWY_UNROLL(4)
      for (int n = 0; n < vectors; ++n) sum[r][n] = hn::Zero(d);
    }
    const Real* HWY_RESTRICT column = k + j;
    for (Index c = 0; c < head_dim; ++c, column += key_block) {
      Vec<D> key[std::size_t{vectors}];
      HWY_UNROLL(4)
      for (int n = 0; n < vectors; ++n) key[n] = hn::Load(d, column + n * lanes);
      HWY_UNROLL(8)
      for (int r = 0; r < rows; ++r) {
        const Vec<D> query = hn::Set(d, q[c * group_rows + r]);
        HWY_UNROLL(4)
        for (int n = 0; n < vectors; ++n) sum[r][n] = Fma(query, key[n], sum[r][n]);
      }
    }
    const Vec<D> factor = hn::Set(d, scale);
    HWY_UNROLL(8)
    for (int r = 0; r < rows; ++r) {
      HWY_UNROLL(4)
      for (int n = 0; n < vectors; ++n) {
        hn::Store(hn::Mul(sum[r][n], factor), d, s + r * key_block + j + n * lanes);
      }
    }
  }
}

/// The softmax step of a group on a block: logits in s become weights, row r's keys from counts[r]
/// on are masked; maxima and sums move on, and rescale[r] is the factor for what row r has
/// accumulated. A row that sees no key here keeps its state.
template <int rows, class D, class Real = hn::TFromD<D>>
HWY_INLINE void Weights(D d, Real* HWY_RESTRICT s, const Index* HWY_RESTRICT counts,
                        Real* HWY_RESTRICT maxima, Real* HWY_RESTRICT sums,
                        Real* HWY_RESTRICT rescale) {
  constexpr Index lanes = static_cast<Index>(hn::MaxLanes(D()));
  constexpr Index vectors = key_block / lanes;
  constexpr Real minus_infinity = -std::numeric_limits<Real>::infinity();
  HWY_ALIGN Real shift[8] = {}, before[8] = {};
  for (int r = 0; r < rows; ++r) {
    Real* HWY_RESTRICT row = s + r * key_block;
    for (Index j = counts[r]; j < key_block; ++j) row[j] = minus_infinity;
    Vec<D> largest = hn::Set(d, maxima[r]);
    for (Index n = 0; n < vectors; ++n) {
      const Vec<D> x = hn::Load(d, row + n * lanes);
      largest = hn::IfThenElse(hn::Gt(x, largest), x, largest);
    }
    const Real maximum = hn::GetLane(hn::MaxOfLanes(d, largest));
    before[r] = maxima[r];
    maxima[r] = maximum;
    shift[r] = maximum == minus_infinity ? Real(0) : maximum;
  }
  const hn::CappedTag<Real, 8> d8;
  for (Index r = 0; r < 8; r += static_cast<Index>(hn::MaxLanes(d8))) {
    hn::Store(Exp(d8, hn::Sub(hn::Load(d8, before + r), hn::Load(d8, shift + r))), d8, rescale + r);
  }
  for (int r = 0; r < rows; ++r) {
    if (counts[r] == 0) {
      rescale[r] = 1;
      continue;
    }
    Real* HWY_RESTRICT row = s + r * key_block;
    Real* HWY_RESTRICT sum = sums + r * sum_lanes;
    const Vec<D> origin = hn::Set(d, shift[r]), factor = hn::Set(d, rescale[r]);
    for (Index lane = 0; lane < sum_lanes; lane += lanes) {
      Vec<D> block_sum;
      for (Index j = lane; j < key_block; j += sum_lanes) {
        const Vec<D> p = Exp(d, hn::Sub(hn::Load(d, row + j), origin));
        hn::Store(p, d, row + j);
        block_sum = j == lane ? p : hn::Add(block_sum, p);
      }
      hn::Store(Fma(hn::Load(d, sum + lane), factor, block_sum), d, sum + lane);
    }
  }
}

/// acc[r] = acc[r] * rescale[r] + sum over j < keys of s[r][j] * v[j], ascending j; then, for the
/// first `steps` of the keys after those, row r takes key keys + t - 1 if r >= t (the diagonal).
template <int rows, class D, class Real = hn::TFromD<D>>
HWY_INLINE void Accumulate(D d, const Real* HWY_RESTRICT s, const Real* HWY_RESTRICT v,
                           Index v_stride, Index keys, Index steps,
                           const Real* HWY_RESTRICT rescale, Index value_width,
                           Real* HWY_RESTRICT acc) {
  constexpr Index lanes = static_cast<Index>(hn::MaxLanes(D()));
  constexpr int most = HWY_TARGET == HWY_AVX3 ? 4 : 2;
  const auto chunk = [&]<int vectors>(Index c, std::integral_constant<int, vectors>) HWY_ATTR {
    Vec<D> sum[std::size_t{rows}][std::size_t{vectors}];
    HWY_UNROLL(8)
    for (int r = 0; r < rows; ++r) {
      const Vec<D> factor = hn::Set(d, rescale[r]);
      HWY_UNROLL(4)
      for (int n = 0; n < vectors; ++n) {
        sum[r][n] = hn::Mul(hn::Load(d, acc + r * value_width + c + n * lanes), factor);
      }
    }
    const Real* HWY_RESTRICT value = v + c;
    const Real* HWY_RESTRICT weight_column = s;
    for (Index j = 0; j < keys; ++j, value += v_stride, ++weight_column) {
      Vec<D> row[std::size_t{vectors}];
      HWY_UNROLL(4)
      for (int n = 0; n < vectors; ++n) row[n] = hn::LoadU(d, value + n * lanes);
      HWY_UNROLL(8)
      for (int r = 0; r < rows; ++r) {
        const Vec<D> weight = hn::Set(d, weight_column[r * key_block]);
        HWY_UNROLL(4)
        for (int n = 0; n < vectors; ++n) sum[r][n] = Fma(weight, row[n], sum[r][n]);
      }
    }
    HWY_UNROLL(8)
    for (int t = 1; t < rows; ++t) {
      if (t > steps) break;
      Vec<D> row[std::size_t{vectors}];
      HWY_UNROLL(4)
      for (int n = 0; n < vectors; ++n) row[n] = hn::LoadU(d, value + n * lanes);
      HWY_UNROLL(8)
      for (int r = t; r < rows; ++r) {
        const Vec<D> weight = hn::Set(d, weight_column[r * key_block]);
        HWY_UNROLL(4)
        for (int n = 0; n < vectors; ++n) sum[r][n] = Fma(weight, row[n], sum[r][n]);
      }
      value += v_stride;
      ++weight_column;
    }
    HWY_UNROLL(8)
    for (int r = 0; r < rows; ++r) {
      HWY_UNROLL(4)
      for (int n = 0; n < vectors; ++n) {
        hn::Store(sum[r][n], d, acc + r * value_width + c + n * lanes);
      }
    }
  };
  Index c = 0;
  for (; c + most * lanes <= value_width; c += most * lanes) {
    chunk(c, std::integral_constant<int, most>());
  }
  for (; c < value_width; c += lanes) chunk(c, std::integral_constant<int, 1>());
}

/// A row's state at the end of a span joins what earlier spans left.
template <class D, class Real = hn::TFromD<D>>
HWY_INLINE void Merge(D d, bool first, Index value_width, Real* HWY_RESTRICT part,
                      Real& part_maximum, Real* HWY_RESTRICT part_sums, Real* HWY_RESTRICT row,
                      Real& row_maximum, Real& row_sum) {
  constexpr Index lanes = static_cast<Index>(hn::MaxLanes(D()));
  constexpr Real minus_infinity = -std::numeric_limits<Real>::infinity();
  const Real part_sum = FoldLanes(d, part_sums);
  Real old_share = 0, new_share = 1;
  if (first) {
    row_maximum = part_maximum;
    row_sum = part_sum;
  } else {
    const Real maximum = part_maximum > row_maximum ? part_maximum : row_maximum;
    const Real shift = maximum == minus_infinity ? Real(0) : maximum;
    old_share = OneExp<Real>(row_maximum - shift);
    new_share = OneExp<Real>(part_maximum - shift);
    row_maximum = maximum;
    row_sum = std::fma(row_sum, old_share, part_sum * new_share);
  }
  for (Index c = 0; c < value_width; c += lanes) {
    const Vec<D> p = hn::Load(d, part + c);
    hn::Store(
        first ? p
              : Fma(hn::Load(d, row + c), hn::Set(d, old_share), hn::Mul(p, hn::Set(d, new_share))),
        d, row + c);
    hn::Store(hn::Zero(d), d, part + c);
  }
  part_maximum = minus_infinity;
  for (Index lane = 0; lane < sum_lanes; ++lane) part_sums[lane] = 0;
}

/// A tile's running state; see Tile::workspace.
template <class Real>
struct State {
  Real* s;             // [group_rows][key_block], logits and then weights
  Real* part;          // [tile_rows][value_width], this span's sums
  Real* part_sums;     // [tile_rows][sum_lanes]
  Real* part_maxima;   // [tile_rows]
  Real* total;         // [tile_rows][value_width], those of the spans before
  Real* total_maxima;  // [tile_rows]
  Real* total_sums;    // [tile_rows]
};

template <int rows, class D, class Real = hn::TFromD<D>>
HWY_INLINE void GroupBlock(D d, const Tile<Real>& tile, const State<Real>& state, Index group,
                           Index block, Index first_count) {
  const Index row = group * group_rows, width = tile.value_width;
  const Real* v = tile.v + block * key_block * tile.v_stride;
  Real* acc = state.part + row * width;
  Scores<rows>(d, tile.q + group * tile.head_dim * group_rows,
               tile.k + block * tile.head_dim * key_block, tile.head_dim, tile.scale, state.s);
  HWY_ALIGN Real rescale[8];
  Index counts[std::size_t{rows}];
  const Index last = std::min(key_block, tile.seq_len_k - block * key_block);
  for (int r = 0; r < rows; ++r) {
    counts[r] = std::clamp<Index>(first_count + (tile.causal ? r : 0), 0, last);
  }
  Weights<rows>(d, state.s, counts, state.part_maxima + row, state.part_sums + row * sum_lanes,
                rescale);
  // Keys that every row sees, then the few at the diagonal that only the later rows see.
  const Index common = counts[0], beyond = counts[rows - 1] - common;
  const bool regular = first_count >= 0;
  Accumulate<rows>(d, state.s, v, tile.v_stride, common, regular ? beyond : 0, rescale, width, acc);
  if (regular) return;
  const Real one = 1;
  for (int r = 1; r < rows; ++r) {
    if (counts[r] > 0) {
      Accumulate<1>(d, state.s + r * key_block, v, tile.v_stride, counts[r], 0, &one, width,
                    acc + r * width);
    }
  }
}

template <class Real>
void RunTile(const Tile<Real>& tile) {
  const hn::CappedTag<Real, 64 / sizeof(Real)> d;
  constexpr Index lanes = static_cast<Index>(hn::MaxLanes(decltype(d)()));
  constexpr Real minus_infinity = -std::numeric_limits<Real>::infinity();
  const Index width = tile.value_width;
  State<Real> state;
  state.s = tile.workspace;
  state.part = state.s + group_rows * key_block;
  state.total = state.part + tile_rows * width;
  state.part_sums = state.total + tile_rows * width;
  state.part_maxima = state.part_sums + tile_rows * sum_lanes;
  state.total_maxima = state.part_maxima + tile_rows;
  state.total_sums = state.total_maxima + tile_rows;
  for (Index n = 0; n < tile.rows * width; ++n) state.part[n] = 0;
  for (Index n = 0; n < tile.rows * sum_lanes; ++n) state.part_sums[n] = 0;
  for (Index r = 0; r < tile.rows; ++r) {
    state.part_maxima[r] = state.total_maxima[r] = minus_infinity;
    state.total_sums[r] = 0;
  }
  const auto visible = [&](Index r) {
    return std::clamp<Index>(tile.first_visible + (tile.causal ? r : 0), 0, tile.seq_len_k);
  };
  const Index most = visible(tile.rows - 1);
  for (Index span = 0; span < most; span += key_block * blocks_per_span) {
    const Index span_end = std::min(span + key_block * blocks_per_span, most);
    for (Index first = span; first < span_end; first += key_block) {
      for (Index group = 0; group * group_rows < tile.rows; ++group) {
        const Index row = group * group_rows;
        const Index rows = std::min(group_rows, tile.rows - row);
        if (visible(row + rows - 1) <= first) continue;
        const Index first_count = tile.first_visible + (tile.causal ? row : 0) - first;
        const Index block = first / key_block;
        switch (rows) {
          case 6:
            GroupBlock<6>(d, tile, state, group, block, first_count);
            break;
          case 5:
            GroupBlock<5>(d, tile, state, group, block, first_count);
            break;
          case 4:
            GroupBlock<4>(d, tile, state, group, block, first_count);
            break;
          case 3:
            GroupBlock<3>(d, tile, state, group, block, first_count);
            break;
          case 2:
            GroupBlock<2>(d, tile, state, group, block, first_count);
            break;
          default:
            GroupBlock<1>(d, tile, state, group, block, first_count);
            break;
        }
      }
    }
    for (Index r = 0; r < tile.rows; ++r) {
      if (visible(r) > span) {
        Merge(d, span == 0, width, state.part + r * width, state.part_maxima[r],
              state.part_sums + r * sum_lanes, state.total + r * width, state.total_maxima[r],
              state.total_sums[r]);
      }
    }
  }
  for (Index r = 0; r < tile.rows; ++r) {
    const bool empty = visible(r) == 0;
    const Real sum = state.total_sums[r];
    Real* out = tile.out + r * tile.out_stride;
    const Real* total = state.total + r * width;
    Index c = 0;
    for (; c + lanes <= tile.value_dim; c += lanes) {
      const auto quotient = hn::Div(hn::Load(d, total + c), hn::Set(d, sum));
      hn::StoreU(empty ? hn::Zero(d) : quotient, d, out + c);
    }
    for (; c < tile.value_dim; ++c) out[c] = empty ? Real(0) : total[c] / sum;
    tile.lse[r * tile.lse_stride] = lse_of(state.total_maxima[r], sum, empty);
  }
}

void RunTileFloat(const Tile<float>& tile) { RunTile(tile); }
void RunTileDouble(const Tile<double>& tile) { RunTile(tile); }

}  // namespace HWY_NAMESPACE
}  // namespace headproof
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headproof {

HWY_EXPORT(RunTileFloat);
HWY_EXPORT(RunTileDouble);

void run_tile(const Tile<float>& tile) { HWY_DYNAMIC_DISPATCH(RunTileFloat)(tile); }
void run_tile(const Tile<double>& tile) { HWY_DYNAMIC_DISPATCH(RunTileDouble)(tile); }

}  // namespace headproof
#endif
