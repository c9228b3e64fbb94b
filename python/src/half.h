// The 16-bit floating-point numbers, as floats and back.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace headproof::python {

/// A float16 (1 sign, 5 exponent and 10 mantissa bits) of IEEE 754.
struct Half {
  std::uint16_t bits;
};
/// A bfloat16: the upper half of a float.
struct Bfloat {
  std::uint16_t bits;
};

inline float widened(Half half) {
  const std::uint32_t sign = (half.bits & 0x8000U) << 16, exponent = half.bits >> 10 & 0x1FU;
  const std::uint32_t mantissa = half.bits & 0x3FFU;
  if (exponent == 0) {  // zero or subnormal: a multiple of 2^-24
    const float size = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(size) | sign);
  }
  const std::uint32_t wide = exponent == 0x1F ? 0xFFU : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}
inline float widened(Bfloat number) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(number.bits) << 16);
}

/// The nearest one, ties to even; a NaN stays one.
inline void narrow(float value, Bfloat& to) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded =
      std::isnan(value) ? bits | 0x400000U : bits + 0x7FFFU + (bits >> 16 & 1U);
  to.bits = static_cast<std::uint16_t>(rounded >> 16);
}
/// The nearest one, ties to even, infinite from 65520 on; a NaN stays one.
inline void narrow(float value, Half& to) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U, size = bits & 0x7FFFFFFFU;
  std::uint32_t half = 0;
  if (size > 0x7F800000U) {
    half = 0x7E00U;
  } else if (size >= 0x477FF000U) {
    half = 0x7C00U;
  } else if (size >= 0x38800000U) {  // 2^-14: a normal number; its exponent is 112 less
    half = (size - (112U << 23) + 0xFFFU + (size >> 13 & 1U)) >> 13;
  } else {
    // A multiple of 2^-24: adding 0.5, whose last place that is, rounds to one.
    const float sum = std::bit_cast<float>(size) + 0.5F;
    half = std::bit_cast<std::uint32_t>(sum) - 0x3F000000U;
  }
  to.bits = static_cast<std::uint16_t>(sign | half);
}

}  // namespace headproof::python
