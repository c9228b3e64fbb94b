// exp, ln and tanh of vectors, with the bits of elementary.h on every target.

#include "attention/targets.h"

// Once for each target.
#if defined(HEADPROOF_ATTENTION_ELEMENTARY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADPROOF_ATTENTION_ELEMENTARY_INL_H_
#undef HEADPROOF_ATTENTION_ELEMENTARY_INL_H_
#else
#define HEADPROOF_ATTENTION_ELEMENTARY_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <iterator>
#include <limits>

#include "attention/elementary.h"

HWY_BEFORE_NAMESPACE();
namespace headproof {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// a b + c, rounded once.
template <class V>
HWY_INLINE V Fma(V a, V b, V c) {
#if HWY_TARGET == HWY_SCALAR
  return V{std::fma(a.raw, b.raw, c.raw)};
#else
  return hn::MulAdd(a, b, c);
#endif
}

#if HWY_TARGET == HWY_AVX3
/// e 2^n with one rounding, where it is subnormal; elsewhere that takes two products.
HWY_INLINE hn::Vec512<float> ScalePower(hn::Vec512<float> e, hn::Vec512<float> n) {
  return {_mm512_scalef_ps(e.raw, n.raw)};
}
HWY_INLINE hn::Vec512<double> ScalePower(hn::Vec512<double> e, hn::Vec512<double> n) {
  return {_mm512_scalef_pd(e.raw, n.raw)};
}
HWY_INLINE hn::Vec256<float> ScalePower(hn::Vec256<float> e, hn::Vec256<float> n) {
  return {_mm256_scalef_ps(e.raw, n.raw)};
}
HWY_INLINE hn::Vec256<double> ScalePower(hn::Vec256<double> e, hn::Vec256<double> n) {
  return {_mm256_scalef_pd(e.raw, n.raw)};
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

/// The polynomial with these coefficients, the highest power first.
template <class D, class V = hn::Vec<D>, std::size_t count>
HWY_INLINE V Polynomial(D d, V x, const hn::TFromD<D> (&coefficients)[count]) {
  V sum = hn::Set(d, coefficients[0]);
  for (std::size_t c = 1; c < count; ++c) sum = Fma(sum, x, hn::Set(d, coefficients[c]));
  return sum;
}

/// canonical_exp for lanes from `lowest` to `highest`, or NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpInRange(D d, V x) {
  using Real = hn::TFromD<D>;
  using C = ExpConstants<Real>;
  const V shifted = Fma(x, hn::Set(d, C::log2e), hn::Set(d, C::round));
  const V n = hn::Sub(shifted, hn::Set(d, C::round));
  V r = Fma(n, hn::Set(d, -C::ln2_high), x);
  r = Fma(n, hn::Set(d, -C::ln2_low), r);
  const V q = Polynomial(d, r, C::q);
  const V e = hn::Add(Fma(hn::Mul(r, r), q, r), hn::Set(d, Real(1)));
#if HWY_TARGET == HWY_AVX3
  return ScalePower(e, n);
#else
  // The low bits of `shifted` are n, so that no conversion is needed. Both exponents carry the
  // bias.
  const hn::RebindToUnsigned<D> du;
  using Bits = hn::TFromD<decltype(du)>;
  const auto bits = hn::BitCast(du, shifted);
  const auto whole = hn::Add(bits, hn::Set(du, Bits{2 * C::bias} - std::bit_cast<Bits>(C::round)));
  const auto half = hn::ShiftRight<1>(whole);
  const V power = hn::BitCast(d, hn::ShiftLeft<C::mantissa_bits>(half));
  const V rest = hn::BitCast(d, hn::ShiftLeft<C::mantissa_bits>(hn::Sub(whole, half)));
  return hn::Mul(hn::Mul(e, power), rest);
#endif
}

/// canonical_exp for lanes up to `highest`, or NaN: all that a softmax needs.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpBelowOverflow(D d, V x) {
  const V lowest = hn::Set(d, ExpConstants<hn::TFromD<D>>::lowest);
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return ExpInRange(d, hn::Max(lowest, x));  // Here a NaN in the second place stays.
#else
  return ExpInRange(d, hn::IfThenElse(hn::Lt(x, lowest), lowest, x));
#endif
}

/// canonical_exp of every lane.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  const V highest = hn::Set(d, ExpConstants<hn::TFromD<D>>::highest);
  return ExpBelowOverflow(d, hn::IfThenElse(hn::Gt(x, highest), highest, x));
}

/// canonical_log of every lane, each positive and not subnormal, or NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log(D d, V x) {
  using Real = hn::TFromD<D>;
  using C = ExpConstants<Real>;
  using L = LogConstants<Real>;
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(di, x);
  const auto exponent = hn::ShiftRight<C::mantissa_bits>(hn::Sub(bits, hn::Set(di, L::sqrt_half)));
  const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<C::mantissa_bits>(exponent)));
  const V one = hn::Set(d, Real(1));
  const V s = hn::Div(hn::Sub(m, one), hn::Add(m, one)), z = hn::Mul(s, s);
  const V l = Polynomial(d, z, L::l);
  const V e = hn::ConvertTo(d, exponent);
  const V low = Fma(hn::Mul(s, z), l, hn::Mul(e, hn::Set(d, C::ln2_low)));
  const V log = Fma(e, hn::Set(d, C::ln2_high), Fma(hn::Set(d, Real(2)), s, low));
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, std::numeric_limits<Real>::infinity())), log, x);
}

/// canonical_tanh of every lane.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  using Real = hn::TFromD<D>;
  using T = TanhConstants<Real>;
  const V a = hn::Abs(x), z = hn::Mul(a, a);
  const V near = Fma(hn::Mul(a, z), Polynomial(d, z, T::t), a);
  const V e = ExpInRange(d, hn::Min(hn::Add(a, a), hn::Set(d, T::one)));
  const V one = hn::Set(d, Real(1));
  const V far = hn::Sub(one, hn::Div(hn::Set(d, Real(2)), hn::Add(e, one)));
  // A NaN is not far, and stays.
  return hn::CopySign(hn::IfThenElse(hn::Ge(a, hn::Set(d, T::cut)), far, near), x);
}

}  // namespace HWY_NAMESPACE
}  // namespace headproof
HWY_AFTER_NAMESPACE();

#endif  // HEADPROOF_ATTENTION_ELEMENTARY_INL_H_
