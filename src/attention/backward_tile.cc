// Compiled once for each instruction set; the arithmetic is that of canonical_backward.cc.

#include "attention/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/backward_tile.cc"

#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "attention/backward_tile.h"
#include "attention/elementary-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headproof {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// How many rows and vectors of sums fill the registers.
constexpr int most_rows = 6, most_vectors = HWY_TARGET == HWY_AVX3 ? 4 : 2;

/// Numbers [row, step] that multiply the rows of a matrix: one row's lie together, or one step's.
template <class Real, bool rows_together>
struct Factors {
  const Real* data;
  Index stride;

  HWY_INLINE Real operator()(Index row, Index step) const {
    return rows_together ? data[row * stride + step] : data[step * stride + row];
  }
  HWY_INLINE Factors from(Index row) const {
    return {data + (rows_together ? row * stride : row), stride};
  }
};

/// What a product does with its sums and its entries.
struct FromZero {};
struct Everything {};

/// sums[r] (+)= sum over t in first .. last - 1 of factors(r, t) * x[t], ascending t, where
/// allowed(r, t), for `vectors` vectors.
template <int rows, int vectors, class D, class Left, class Allowed, class Real = hn::TFromD<D>>
HWY_NOINLINE void MultiplyVectors(D d, Left factors, const Real* HWY_RESTRICT x, Index x_stride,
                                  Index first, Index last, bool from_zero, Allowed allowed,
                                  Real* HWY_RESTRICT sums, Index sums_stride) {
  constexpr Index lanes = static_cast<Index>(hn::MaxLanes(D()));
  hn::Vec<D> sum[std::size_t{rows}][std::size_t{vectors}];
  HWY_UNROLL(8)
  for (int r = 0; r < rows; ++r) {
    HWY_UNROLL(4)
    for (int n = 0; n < vectors; ++n) {
      sum[r][n] = from_zero ? hn::Zero(d) : hn::Load(d, sums + r * sums_stride + n * lanes);
    }
  }
  x += first * x_stride;
  for (Index t = first; t < last; ++t, x += x_stride) {
    hn::Vec<D> row[std::size_t{vectors}];
    HWY_UNROLL(4)
    for (int n = 0; n < vectors; ++n) row[n] = hn::LoadU(d, x + n * lanes);
    HWY_UNROLL(8)
    for (int r = 0; r < rows; ++r) {
      const hn::Vec<D> factor = hn::Set(d, factors(r, t));
      if constexpr (std::is_same_v<Allowed, Everything>) {
        HWY_UNROLL(4)
        for (int n = 0; n < vectors; ++n) sum[r][n] = Fma(factor, row[n], sum[r][n]);
      } else {
        const hn::RebindToSigned<D> di;
        using Int = hn::TFromD<decltype(di)>;
        const auto mask =
            hn::RebindMask(d, hn::MaskFromVec(hn::Set(di, static_cast<Int>(-allowed(r, t)))));
        HWY_UNROLL(4)
        for (int n = 0; n < vectors; ++n) {
          sum[r][n] = hn::IfThenElse(mask, Fma(factor, row[n], sum[r][n]), sum[r][n]);
        }
      }
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < rows; ++r) {
    HWY_UNROLL(4)
    for (int n = 0; n < vectors; ++n) {
      hn::Store(sum[r][n], d, sums + r * sums_stride + n * lanes);
    }
  }
}

/// The same for columns begin .. end - 1, whole vectors, of x and sums.
template <int rows, class D, class Left, class Allowed, class Real = hn::TFromD<D>>
HWY_INLINE void Multiply(D d, Left factors, const Real* HWY_RESTRICT x, Index x_stride, Index first,
                         Index last, bool from_zero, Allowed allowed, Real* HWY_RESTRICT sums,
                         Index sums_stride, Index begin, Index end) {
  constexpr Index lanes = static_cast<Index>(hn::MaxLanes(D()));
  const auto multiply = [&]<int vectors>(std::integral_constant<int, vectors>) HWY_ATTR {
    MultiplyVectors<rows, vectors>(d, factors, x + begin, x_stride, first, last, from_zero, allowed,
                                   sums + begin, sums_stride);
    begin += vectors * lanes;
  };
  while (begin + most_vectors * lanes <= end) {
    multiply(std::integral_constant<int, most_vectors>());
  }
  const Index rest = (end - begin) / lanes;
  if constexpr (most_vectors >= 4) {
    if (rest == 3) multiply(std::integral_constant<int, 3>());
    if (rest == 2) multiply(std::integral_constant<int, 2>());
  }
  if (rest == 1) multiply(std::integral_constant<int, 1>());
}

/// Calls function(row, count) for groups of rows of a block; all but the last have most_rows.
template <class Function>
HWY_INLINE void ForGroups(Function&& function) {
  constexpr int rest = backward_block % most_rows;
  Index row = 0;
  for (; row + most_rows <= backward_block; row += most_rows) {
    function(row, std::integral_constant<int, most_rows>());
  }
  if constexpr (rest > 0) function(row, std::integral_constant<int, rest>());
}

/// sums[r] += sum over t of factors(r, t) * x[t], ascending t, where allowed(r, t). Bit t of `any`
/// and `all`: whether some of the rows, and whether all, are allowed t.
template <int rows, class D, class Left, class Allowed, class Real = hn::TFromD<D>>
HWY_INLINE void AddProducts(D d, Left factors, const Real* HWY_RESTRICT x, Index width,
                            std::uint64_t any, std::uint64_t all, Allowed allowed,
                            Real* HWY_RESTRICT sums) {
  // From the first of `all`, those that follow without a gap need not be looked at one by one.
  const Index begin = std::countr_zero(any), end = 64 - std::countl_zero(any);
  const Index full = all == 0 ? end : std::countr_zero(all);
  const Index full_end = all == 0 ? end : full + std::countr_one(all >> full);
  const auto multiply = [&](Index first, Index last, auto which) HWY_ATTR {
    if (first < last) {
      Multiply<rows>(d, factors, x, width, first, last, false, which, sums, width, 0, width);
    }
  };
  multiply(begin, full, allowed);
  multiply(full, full_end, Everything());
  multiply(full_end, end, allowed);
}

/// Scores become weights, and the gradients of the weights those of the scores, for keys
/// begin .. end - 1 of a query.
template <class D, class Real = hn::TFromD<D>>
HWY_INLINE void Differentiate(D d, const BackwardTile<Real>& tile, Index row, Index begin,
                              Index end) {
  constexpr Index lanes = static_cast<Index>(hn::MaxLanes(D()));
  Real* HWY_RESTRICT p = tile.p + row * backward_block;
  Real* HWY_RESTRICT ds = tile.ds + row * backward_block;
  const Real* HWY_RESTRICT bias = tile.bias == nullptr ? nullptr : tile.bias + row * backward_block;
  const auto scale = hn::Set(d, tile.scale), softcap = hn::Set(d, tile.softcap);
  const auto lse = hn::Set(d, tile.lse[row]), delta = hn::Set(d, tile.delta[row]);
  const bool capped = tile.softcap > 0;
  for (Index j = begin; j < end; j += lanes) {
    auto logit = hn::Mul(hn::Load(d, p + j), scale), tanh = logit;
    if (capped) {
      tanh = Tanh(d, hn::Div(logit, softcap));
      logit = hn::Mul(softcap, tanh);
    }
    if (bias != nullptr) logit = hn::Add(logit, hn::Load(d, bias + j));
    const auto weight = Exp(d, hn::Sub(logit, lse));
    auto gradient = hn::Mul(weight, hn::Sub(hn::Load(d, ds + j), delta));
    if (capped) {
      gradient = hn::Mul(gradient, Fma(hn::Neg(tanh), tanh, hn::Set(d, Real(1))));
    }
    hn::Store(weight, d, p + j);
    hn::Store(gradient, d, ds + j);
  }
}

template <class Real>
HWY_INLINE void AddBackwardTile(const BackwardTile<Real>& tile) {
  const hn::CappedTag<Real, 64 / sizeof(Real)> d;
  constexpr Index lanes = static_cast<Index>(hn::MaxLanes(d));
  constexpr Index block = backward_block;
  const std::uint64_t* const allowed = tile.allowed;
  const auto any_of = [&](Index row, int count) HWY_ATTR {
    std::uint64_t any = 0;
    for (int r = 0; r < count; ++r) any |= allowed[row + r];
    return any;
  };
  const auto all_of = [&](Index row, int count) HWY_ATTR {
    std::uint64_t all = ~std::uint64_t{0};
    for (int r = 0; r < count; ++r) all &= allowed[row + r];
    return all;
  };
  const auto first_column = [](std::uint64_t any)
                                HWY_ATTR { return std::countr_zero(any) / lanes * lanes; };
  const auto last_column = [](std::uint64_t any) HWY_ATTR {
    return (64 - std::countl_zero(any) + lanes - 1) / lanes * lanes;
  };
  // Each stage reads one array of keys or queries again and again: it stays in the nearest cache.
  ForGroups([&]<int rows>(Index row, std::integral_constant<int, rows>) HWY_ATTR {
    if (const std::uint64_t any = any_of(row, rows); any != 0) {
      Multiply<rows>(d, Factors<Real, true>{tile.q + row * tile.key_width, tile.key_width},
                     tile.k_panel, block, 0, tile.head_dim, true, Everything(),
                     tile.p + row * block, block, first_column(any), last_column(any));
    }
  });
  ForGroups([&]<int rows>(Index row, std::integral_constant<int, rows>) HWY_ATTR {
    if (const std::uint64_t any = any_of(row, rows); any != 0) {
      const Index begin = first_column(any), end = last_column(any);
      Multiply<rows>(d, Factors<Real, true>{tile.d_out + row * tile.value_width, tile.value_width},
                     tile.v_panel, block, 0, tile.value_dim, true, Everything(),
                     tile.ds + row * block, block, begin, end);
      for (Index r = row; r < row + rows; ++r) Differentiate(d, tile, r, begin, end);
    }
  });
  ForGroups([&]<int rows>(Index row, std::integral_constant<int, rows>) HWY_ATTR {
    if (const std::uint64_t any = any_of(row, rows); any != 0) {
      AddProducts<rows>(
          d, Factors<Real, true>{tile.ds + row * block, block}, tile.k, tile.key_width, any,
          all_of(row, rows), [=](int r, Index t) { return allowed[row + r] >> t & 1; },
          tile.d_q + row * tile.key_width);
    }
  });
  // Of each group of keys, bit t: query t sees some of them, and all of them.
  constexpr std::uint64_t every = ~std::uint64_t{0};
  std::uint64_t any[block], all[block];
  const bool full = all_of(0, block) == every;
  ForGroups([&]<int keys>(Index key, std::integral_constant<int, keys>) HWY_ATTR {
    constexpr std::uint64_t group = (std::uint64_t{1} << keys) - 1;
    any[key] = all[key] = full ? every : 0;
    for (Index row = 0; row < block && !full; ++row) {
      const std::uint64_t seen = allowed[row] >> key & group;
      any[key] |= std::uint64_t{seen != 0} << row;
      all[key] |= std::uint64_t{seen == group} << row;
    }
  });
  const auto add_to_keys = [&](const Real* factors, const Real* x, Index width,
                               Real* sums) HWY_ATTR {
    ForGroups([&]<int keys>(Index key, std::integral_constant<int, keys>) HWY_ATTR {
      if (any[key] == 0) return;
      AddProducts<keys>(
          d, Factors<Real, false>{factors + key, block}, x, width, any[key], all[key],
          [=](int r, Index t) { return allowed[t] >> (key + r) & 1; }, sums + key * width);
    });
  };
  add_to_keys(tile.ds, tile.q, tile.key_width, tile.d_k);
  add_to_keys(tile.p, tile.d_out, tile.value_width, tile.d_v);
}

/// The chains of `count` rows side by side, because each waits for itself.
template <Index count, class Real>
HWY_INLINE void Chains(const Real* HWY_RESTRICT a, const Real* HWY_RESTRICT b, Index width,
                       Index columns, Real* HWY_RESTRICT sums) {
  Real sum[std::size_t{count}] = {};
  for (Index c = 0; c < columns; ++c) {
    HWY_UNROLL(8)
    for (Index r = 0; r < count; ++r) sum[r] = std::fma(a[r * width + c], b[r * width + c], sum[r]);
  }
  std::copy(sum, sum + count, sums);
}

template <class Real>
HWY_INLINE void RowDeltas(const Real* d_out, const Real* out, Index rows, Index width,
                          Index columns, Real* deltas) {
  constexpr Index together = 8;
  static_assert(backward_block % together == 0);
  for (Index row = 0; row < rows; row += together) {
    Chains<together>(d_out + row * width, out + row * width, width, columns, deltas + row);
  }
}

void AddBackwardTileFloat(const BackwardTile<float>& tile) { AddBackwardTile(tile); }
void AddBackwardTileDouble(const BackwardTile<double>& tile) { AddBackwardTile(tile); }
void RowDeltasFloat(const float* d_out, const float* out, Index rows, Index width, Index columns,
                    float* deltas) {
  RowDeltas(d_out, out, rows, width, columns, deltas);
}
void RowDeltasDouble(const double* d_out, const double* out, Index rows, Index width, Index columns,
                     double* deltas) {
  RowDeltas(d_out, out, rows, width, columns, deltas);
}

}  // namespace HWY_NAMESPACE
}  // namespace headproof
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headproof {

HWY_EXPORT(AddBackwardTileFloat);
HWY_EXPORT(AddBackwardTileDouble);
HWY_EXPORT(RowDeltasFloat);
HWY_EXPORT(RowDeltasDouble);

void add_backward_tile(const BackwardTile<float>& tile) {
  HWY_DYNAMIC_DISPATCH(AddBackwardTileFloat)(tile);
}
void add_backward_tile(const BackwardTile<double>& tile) {
  HWY_DYNAMIC_DISPATCH(AddBackwardTileDouble)(tile);
}
void row_deltas(const float* d_out, const float* out, Index rows, Index width, Index columns,
                float* deltas) {
  HWY_DYNAMIC_DISPATCH(RowDeltasFloat)(d_out, out, rows, width, columns, deltas);
}
void row_deltas(const double* d_out, const double* out, Index rows, Index width, Index columns,
                double* deltas) {
  HWY_DYNAMIC_DISPATCH(RowDeltasDouble)(d_out, out, rows, width, columns, deltas);
}

}  // namespace headproof
#endif
