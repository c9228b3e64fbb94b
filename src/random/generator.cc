#include <bit>
#include <cmath>
#include <utility>

#include "headproof/random.h"

namespace headproof {
namespace {

// The single-precision ln, sin and cos below are the polynomials of S. Moshier's Cephes library,
// evaluated by Horner's rule in fused multiply-adds: that is what PyTorch's vector code does, and
// the C library's functions differ from it in the last bits.

float natural_log(float x) {
  int exponent = 0;
  float m = std::frexp(x, &exponent);  // x = m 2^exponent, m in [0.5, 1)
  if (m < 0.70710678F) {
    exponent -= 1;
    m = (m - 1.0F) + m;
  } else {
    m -= 1.0F;
  }
  const auto e = static_cast<float>(exponent);
  const float z = m * m;
  float y = 7.0376836292e-2F;
  for (float coefficient :
       {-1.1514610310e-1F, 1.1676998740e-1F, -1.2420140846e-1F, 1.4249322787e-1F, -1.6668057665e-1F,
        2.0000714765e-1F, -2.4999993993e-1F, 3.3333331174e-1F}) {
    y = std::fma(y, m, coefficient);
  }
  y = y * m;
  y = std::fma(y, z, e * -2.12194440e-4F);  // the low part of e ln 2
  y = std::fma(-z, 0.5F, y);
  return std::fma(e, 0.693359375F, m + y);  // the high part of e ln 2
}

/// Sine and cosine of x >= 0.
std::pair<float, float> sine_cosine(float x) {
  // x = octant pi/4 + rest, the octant rounded up to an even number, pi/4 in three parts.
  const int octant = (static_cast<int>(x * 1.27323954473516F) + 1) & ~1;
  const auto j = static_cast<float>(octant);
  x = std::fma(j, -0.78515625F, x);
  x = std::fma(j, -2.4187564849853515625e-4F, x);
  x = std::fma(j, -3.77489497744594108e-8F, x);
  const float z = x * x;
  float cosine = std::fma(2.443315711809948e-5F, z, -1.388731625493765e-3F);
  cosine = std::fma(cosine, z, 4.166664568298827e-2F);
  cosine = std::fma(cosine * z, z, -(0.5F * z)) + 1.0F;
  float sine = std::fma(-1.9515295891e-4F, z, 8.3321608736e-3F);
  sine = std::fma(sine, z, -1.6666654611e-1F);
  sine = std::fma(sine * z, x, x);
  if ((octant & 2) != 0) std::swap(sine, cosine);
  if ((octant & 4) != 0) sine = -sine;
  if (((octant - 2) & 4) == 0) cosine = -cosine;
  return {sine, cosine};
}

/// Box-Muller on 16 uniform numbers in place: the first eight give radii, the last eight angles.
void box_muller(const View<float, 1>& out, Index first) {
  constexpr float two_pi = 6.283185307179586F;
  for (Index j = first; j < first + 8; ++j) {
    const float radius = std::sqrt(-2.0F * natural_log(1.0F - out(j)));
    const auto [sine, cosine] = sine_cosine(two_pi * out(j + 8));
    out(j) = radius * cosine;
    out(j + 8) = radius * sine;
  }
}

}  // namespace

void Generator::manual_seed(std::uint64_t seed) {
  engine_.seed(static_cast<std::uint32_t>(seed));
  cached_normal_.reset();
}

std::uint64_t Generator::draw64() {
  const std::uint64_t high = engine_();
  return high << 32 | engine_();
}

void Generator::uniform(View<float, 1> out, float low, float high) {
  for (Index i = 0; i < out.size(); ++i) {
    const float u = static_cast<float>(engine_() & 0xFFFFFFU) * 0x1p-24F;
    out(i) = std::fma(u, high - low, low);
  }
}

double Generator::normal_double() {
  if (cached_normal_) return *std::exchange(cached_normal_, std::nullopt);
  constexpr std::uint64_t mask = (std::uint64_t{1} << 53) - 1;
  const double u1 = static_cast<double>(draw64() & mask) * 0x1p-53;
  const double u2 = static_cast<double>(draw64() & mask) * 0x1p-53;
  const double radius = std::sqrt(-2.0 * std::log1p(-u2));
  const double angle = 2.0 * 3.14159265358979323846 * u1;
  cached_normal_ = radius * std::sin(angle);
  return radius * std::cos(angle);
}

void Generator::normal(View<float, 1> out) {
  const Index n = out.size();
  if (n < 16) {
    for (Index i = 0; i < n; ++i) out(i) = static_cast<float>(normal_double());
    return;
  }
  uniform(out, 0.0F, 1.0F);
  for (Index first = 0; first + 16 <= n; first += 16) box_muller(out, first);
  if (n % 16 != 0) {  // the last 16 places are drawn again and transformed as one more block
    uniform({&out(n - 16), {Index{16}}, out.strides}, 0.0F, 1.0F);
    box_muller(out, n - 16);
  }
}

Tensor<Index, 1> Generator::randint(Index low, Index high, Index count) {
  Tensor<Index, 1> out({count});
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  for (Index& value : out) {
    const std::uint64_t draw = range >> 28 != 0 ? draw64() : engine_();
    value = static_cast<Index>(static_cast<std::uint64_t>(low) + draw % range);
  }
  return out;
}

Tensor<Index, 1> Generator::randperm(Index n) {
  Tensor<Index, 1> out({n});
  for (Index i = 0; i < n; ++i) out(i) = i;
  for (Index i = 0; i + 1 < n; ++i) {
    std::swap(out(i), out(i + static_cast<Index>(engine_() % static_cast<std::uint64_t>(n - i))));
  }
  return out;
}

}  // namespace headproof
