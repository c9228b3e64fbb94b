// exp, ln and tanh with the same bits on every machine: nothing but +, -, *, /, fused multiply-adds
// and powers of two. elementary-inl.h has them for vectors. Each function says its largest error,
// in units in the last place (ulp) of the exact result; elementary_test.cc measures it.
//
// The polynomials are minimax: Remez exchange in 50 digits on the relative error of the function,
// then each coefficient rounded to Real.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>

namespace headproof {

/// exp(x) = 2^n e^r with n = round(x / ln 2) and |r| <= ln(2) / 2; e^r = 1 + (r + r^2 q(r)); the
/// polynomial leaves a relative error of 3e-9 in float, 4e-18 in double.
template <class Real>
struct ExpConstants;

template <>
struct ExpConstants<float> {
  using Int = std::int32_t;
  static constexpr float log2e = 0x1.715476p+0F;
  static constexpr float ln2_high = 0x1.62e4p-1F, ln2_low = 0x1.7f7d1cp-20F;
  static constexpr float lowest = -106, highest = 89;  // 0 below, infinity above
  static constexpr float round = 0x1.8p23F;            // adding it leaves a whole number
  static constexpr int mantissa_bits = 23, bias = 127;
  static constexpr float q[] = {0.0013814596090174413945F, 0.0083687457154196351418F,
                                0.041668389845735189614F, 0.16666520393311209857F,
                                0.49999993435502511343F};
};

template <>
struct ExpConstants<double> {
  using Int = std::int64_t;
  static constexpr double log2e = 0x1.71547652b82fep+0;
  static constexpr double ln2_high = 0x1.62e42fefap-1, ln2_low = 0x1.cf79abc9e3b3ap-40;
  static constexpr double lowest = -748, highest = 710;
  static constexpr double round = 0x1.8p52;
  static constexpr int mantissa_bits = 52, bias = 1023;
  static constexpr double q[] = {2.499997447899377328e-8,   2.7630299117548001144e-7,
                                 2.7557586895035980647e-6,  0.000024801492969152249456,
                                 0.00019841269505734300368, 0.0013888888943742124227,
                                 0.0083333333334949645522,  0.041666666666529789884,
                                 0.16666666666666411577,    0.50000000000000106626};
};

/// e^x for every x, subnormal results included. Largest error: 1.01 ulp in float (over all x),
/// 1.05 in double (over samples).
template <class Real>
Real canonical_exp(Real x) {
  using C = ExpConstants<Real>;
  if (x != x) return x;
  if (x < C::lowest) x = C::lowest;
  if (x > C::highest) x = C::highest;
  const Real n = std::fma(x, C::log2e, C::round) - C::round;
  Real r = std::fma(n, -C::ln2_high, x);
  r = std::fma(n, -C::ln2_low, r);
  Real q = C::q[0];
  for (std::size_t c = 1; c < std::size(C::q); ++c) q = std::fma(q, r, C::q[c]);
  const Real e = std::fma(r * r, q, r) + Real(1);
  // 2^n in two factors, so that only the second product rounds, once, where the result is
  // subnormal.
  using Int = typename C::Int;
  const Int whole = static_cast<Int>(n), half = whole >> 1;
  const auto power = [](Int k) { return std::bit_cast<Real>((k + C::bias) << C::mantissa_bits); };
  return e * power(half) * power(whole - half);
}

/// x = 2^e m with m in [sqrt(1/2), sqrt(2)), s = (m - 1) / (m + 1), z = s^2; ln m = 2 atanh(s) =
/// 2 s + s z L(z); the polynomial leaves a relative error of ln m of 8e-10 in float, 1e-18 in
/// double.
template <class Real>
struct LogConstants;

template <>
struct LogConstants<float> {
  static constexpr std::int32_t sqrt_half = 0x3f3504f3;  // the bits of sqrt(1/2)
  static constexpr float l[] = {0.29873069864837274196F, 0.39977495768081665811F,
                                0.66666776714831687357F};
};

template <>
struct LogConstants<double> {
  static constexpr std::int64_t sqrt_half = 0x3fe6a09e667f3bcd;
  static constexpr double l[] = {0.14797547459037857987, 0.1531389885000355542,
                                 0.18183569932742759308, 0.22222198471737381621,
                                 0.2857142874331137897,  0.39999999999410824002,
                                 0.66666666666667349486};
};

/// ln(x) for x > 0 that is not subnormal, +infinity or NaN. Largest error: 1.97 ulp in float (over
/// all x), 2 in double (over samples).
template <class Real>
Real canonical_log(Real x) {
  using C = ExpConstants<Real>;
  using L = LogConstants<Real>;
  if (!(x < std::numeric_limits<Real>::infinity())) return x;
  // The bits of a positive number grow with it, and one exponent is worth 2^mantissa_bits of them.
  const auto bits = std::bit_cast<typename C::Int>(x);
  const auto exponent = (bits - L::sqrt_half) >> C::mantissa_bits;
  const auto m = std::bit_cast<Real>(bits - (exponent << C::mantissa_bits));
  const Real s = (m - 1) / (m + 1), z = s * s;
  Real l = L::l[0];
  for (std::size_t c = 1; c < std::size(L::l); ++c) l = std::fma(l, z, L::l[c]);
  const auto e = static_cast<Real>(exponent);
  const Real low = std::fma(s * z, l, e * C::ln2_low);
  return std::fma(e, C::ln2_high, std::fma(Real(2), s, low));
}

/// With a = |x| below `cut`, tanh a = a + a z t(z), z = a^2; the polynomial leaves a relative error
/// of 1.1e-9 in float, 6e-19 in double. From `cut` on, where nothing cancels,
/// tanh a = 1 - 2 / (e^(2a) + 1), which is 1 from e^`one` on.
template <class Real>
struct TanhConstants;

template <>
struct TanhConstants<float> {
  static constexpr float cut = 0.55F, one = 20;
  static constexpr float t[] = {-0.0062742361844841731657F, 0.021071676614776507523F,
                                -0.053852309282625242334F, 0.13332586131694068278F,
                                -0.33333317559393524714F};
};

template <>
struct TanhConstants<double> {
  static constexpr double cut = 0.55, one = 40;
  static constexpr double t[] = {
      -0.000019494713057508090333, 0.000083316490572041541928, -0.00023338159669945184632,
      0.00058844449912501409244,   -0.0014555428490572106327,  0.003592092030982222599,
      -0.0088632326014997055529,   0.021869488385859761854,    -0.053968253963760765027,
      0.13333333333326621129,      -0.33333333333333298418};
};

/// tanh(x) for every x; the sign of a zero stays. Largest error: 1.47 ulp in float (over all x),
/// 1.5 in double (over samples).
template <class Real>
Real canonical_tanh(Real x) {
  using T = TanhConstants<Real>;
  if (x != x) return x;
  const Real a = std::abs(x), z = a * a;
  if (a < T::cut) {
    Real t = T::t[0];
    for (std::size_t c = 1; c < std::size(T::t); ++c) t = std::fma(t, z, T::t[c]);
    return std::copysign(std::fma(a * z, t, a), x);
  }
  const Real e = canonical_exp(2 * a < T::one ? 2 * a : T::one);
  return std::copysign(1 - 2 / (e + 1), x);
}

}  // namespace headproof
