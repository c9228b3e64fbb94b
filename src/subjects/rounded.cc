#include "subjects/rounded.h"

#include <algorithm>
#include <cmath>

namespace headproof {

float rounded(float value, Dtype dtype) {
  if (dtype == Dtype::float32 || dtype == Dtype::float64 || !std::isfinite(value) || value == 0) {
    return value;
  }
  // To the nearest multiple, ties to even, of the unit in the last place that the dtype has here.
  int exponent = 0;
  std::frexp(value, &exponent);
  const bool half = dtype == Dtype::float16;
  const int unit = half ? std::max(exponent - 11, -24) : std::max(exponent - 8, -133);
  const double result =
      std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(value), -unit)), unit);
  const double largest = half ? 65504 : 0x1.FEp127;
  return static_cast<float>(std::clamp(result, -largest, largest));
}

}  // namespace headproof
