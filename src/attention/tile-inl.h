// Vectors as tiles use them: packing, and what belongs to a softmax.

#include "attention/targets.h"

// Once for each target.
#if defined(HEADPROOF_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADPROOF_ATTENTION_TILE_INL_H_
#undef HEADPROOF_ATTENTION_TILE_INL_H_
#else
#define HEADPROOF_ATTENTION_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>

#include "attention/elementary-inl.h"
#include "attention/order.h"

HWY_BEFORE_NAMESPACE();
namespace headproof {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using Vec = hn::Vec<D>;

/// Four numbers each from `from`, `from` + stride, ... in the vector's 128-bit blocks.
template <class D, class Real = hn::TFromD<D>>
HWY_INLINE Vec<D> LoadBlocks(D d, const Real* const* from, Index offset) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    constexpr std::size_t blocks = hn::MaxLanes(D()) / 8;
    return hn::Combine(d, LoadBlocks(half, from + 4 * blocks, offset),
                       LoadBlocks(half, from, offset));
  }
#endif
  return hn::LoadU(d, *from + offset);
}

template <class D>
constexpr Index LanesOf() {
  return static_cast<Index>(hn::MaxLanes(D()));
}

/// What PackRows takes at a time.
template <class Real>
using PackTag = hn::CappedTag<Real, 8>;

/// panel[c * key_block + n] = rows[n][c * stride] for `count` rows, as many as PackTag has lanes at
/// most; the places of the others up to there hold anything. Each of the lanes has a pointer.
template <class Real>
HWY_NOINLINE void PackRows(const Real* const* rows, Index count, Index stride, Index channels,
                           Real* HWY_RESTRICT panel) {
  Index packed = 0;  // what the loop over squares leaves
#if HWY_TARGET != HWY_SCALAR
  // Four channels at a time of a vector of rows are transposed in registers: what is read as a
  // vector soon after must have been written as one, or it is not there yet.
  if constexpr (sizeof(Real) == 4) {
    if (stride == 1) {
      const PackTag<float> d;
      const hn::RepartitionToWide<decltype(d)> wide;
      for (; packed + 4 <= channels; packed += 4) {
        const auto k0 = LoadBlocks(d, rows, packed), k1 = LoadBlocks(d, rows + 1, packed);
        const auto k2 = LoadBlocks(d, rows + 2, packed), k3 = LoadBlocks(d, rows + 3, packed);
        const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, k0, k1));
        const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, k2, k3));
        const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, k0, k1));
        const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, k2, k3));
        Real* const to = panel + packed * key_block;
        const auto store = [&](auto quad, Index channel) HWY_ATTR {
          hn::Store(hn::BitCast(d, quad), d, to + channel * key_block);
        };
        store(hn::InterleaveLower(wide, low01, low23), 0);
        store(hn::InterleaveUpper(wide, low01, low23), 1);
        store(hn::InterleaveLower(wide, high01, high23), 2);
        store(hn::InterleaveUpper(wide, high01, high23), 3);
      }
    }
  }
#endif
  if (packed == channels) return;
  for (Index n = 0; n < count; ++n) {
    for (Index c = packed; c < channels; ++c) panel[c * key_block + n] = rows[n][c * stride];
  }
}

/// x where it is larger than `largest`; NaN is not.
template <class D>
HWY_INLINE Vec<D> Larger(D, Vec<D> largest, Vec<D> x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return hn::Max(x, largest);  // Here the second is taken when one is NaN.
#else
  return hn::IfThenElse(hn::Gt(x, largest), x, largest);
#endif
}

/// The point that exponents are taken from: the maximum, or 0 while every logit is -infinity.
template <class D, class Real = hn::TFromD<D>>
HWY_INLINE Vec<D> Origin(D d, Vec<D> maximum) {
  const Vec<D> none = hn::Set(d, -std::numeric_limits<Real>::infinity());
  return hn::IfThenElse(hn::Eq(maximum, none), hn::Zero(d), maximum);
}

}  // namespace HWY_NAMESPACE
}  // namespace headproof
HWY_AFTER_NAMESPACE();

#endif  // once for each target
