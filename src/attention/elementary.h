// exp and ln with the same bits on every machine: nothing but +, -, *, /, fused multiply-adds and
// powers of two. elementary_test.cc states and tests how close they are.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>

namespace headproof {

/// exp(x) = 2^n e^r with n = round(x / ln 2) and |r| <= ln(2) / 2; e^r = 1 + (r + r^2 q(r)), q a
/// minimax polynomial (Remez exchange, relative error of e^r 3e-9 in float, 4e-18 in double).
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

template <class Real>
Real canonical_exp(Real x) {
  using C = ExpConstants<Real>;
  if (x < C::lowest) x = C::lowest;
  if (x > C::highest) x = C::highest;
  if (x != x) return x;
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

/// ln(x) for x > 0: x = 2^e m with m in [1/sqrt(2), sqrt(2)), s = (m - 1) / (m + 1), z = s^2;
/// ln m = 2 atanh(s) = 2 s + s z L(z), L a minimax polynomial (Remez exchange, relative error of
/// ln m 8e-10 in float, 1e-18 in double).
template <class Real>
Real canonical_log(Real x) {
  using C = ExpConstants<Real>;
  constexpr auto coefficients = [] {
    if constexpr (sizeof(Real) == 4) {
      return std::array{0.29873069864837274196F, 0.39977495768081665811F, 0.66666776714831687357F};
    } else {
      return std::array{0.14797547459037857987, 0.1531389885000355542, 0.18183569932742759308,
                        0.22222198471737381621, 0.2857142874331137897, 0.39999999999410824002,
                        0.66666666666667349486};
    }
  }();
  int exponent = 0;
  Real m = std::frexp(x, &exponent);
  if (m < Real(0.70710678118654752440)) {
    m *= 2;
    exponent -= 1;
  }
  const Real s = (m - 1) / (m + 1), z = s * s;
  Real l = coefficients[0];
  for (std::size_t c = 1; c < coefficients.size(); ++c) l = std::fma(l, z, coefficients[c]);
  const auto e = static_cast<Real>(exponent);
  const Real low = std::fma(s * z, l, e * C::ln2_low);
  return std::fma(e, C::ln2_high, std::fma(Real(2), s, low));
}

}  // namespace headproof
