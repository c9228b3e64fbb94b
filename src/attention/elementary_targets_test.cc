// The vector functions on every target that this processor has, against the scalar ones.

#include "attention/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/elementary_targets_test.cc"

#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <cstddef>

#include "attention/elementary-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headproof {
namespace HWY_NAMESPACE {

// Vectors of at most `most` lanes; `count` is a multiple of 16.
template <std::size_t most, class Real>
HWY_INLINE void EvaluateIn(std::size_t function, const Real* x, std::size_t count, Real* y) {
  const hn::CappedTag<Real, most> d;
  for (std::size_t n = 0; n < count; n += hn::Lanes(d)) {
    const auto v = hn::LoadU(d, x + n);
    hn::StoreU(function == 0   ? Exp(d, v)
               : function == 1 ? ExpBelowOverflow(d, v)
               : function == 2 ? Log(d, v)
                               : Tanh(d, v),
               d, y + n);
  }
}

template <class Real>
HWY_INLINE void Evaluate(std::size_t function, std::size_t most, const Real* x, std::size_t count,
                         Real* y) {
  switch (most) {
    case 1:
      return EvaluateIn<1>(function, x, count, y);
    case 4:
      return EvaluateIn<4>(function, x, count, y);
    case 8:
      return EvaluateIn<8>(function, x, count, y);
    default:
      return EvaluateIn<16>(function, x, count, y);
  }
}

void EvaluateFloat(std::size_t function, std::size_t most, const float* x, std::size_t count,
                   float* y) {
  Evaluate(function, most, x, count, y);
}
void EvaluateDouble(std::size_t function, std::size_t most, const double* x, std::size_t count,
                    double* y) {
  Evaluate(function, most, x, count, y);
}

}  // namespace HWY_NAMESPACE
}  // namespace headproof
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace headproof {
namespace {

HWY_EXPORT(EvaluateFloat);
HWY_EXPORT(EvaluateDouble);

void evaluate(std::size_t function, std::size_t most, const std::vector<float>& x,
              std::vector<float>& y) {
  HWY_DYNAMIC_DISPATCH(EvaluateFloat)(function, most, x.data(), x.size(), y.data());
}
void evaluate(std::size_t function, std::size_t most, const std::vector<double>& x,
              std::vector<double>& y) {
  HWY_DYNAMIC_DISPATCH(EvaluateDouble)(function, most, x.data(), x.size(), y.data());
}

/// One function, and whether it takes x.
template <class Real>
struct Function {
  const char* name;
  Real (*scalar)(Real);
  bool (*takes)(Real);
};

template <class Real>
const Function<Real> functions[] = {
    {"exp", canonical_exp<Real>, [](Real) { return true; }},
    {"exp below overflow", canonical_exp<Real>,
     [](Real x) { return !(x > ExpConstants<Real>::highest); }},
    {"log", canonical_log<Real>, [](Real x) { return !(x < std::numeric_limits<Real>::min()); }},
    {"tanh", canonical_tanh<Real>, [](Real) { return true; }}};

/// Tries what each function takes of `values`, a multiple of 16 in number.
template <class Real>
void expect_scalar_bits(const std::vector<Real>& values) {
  std::vector<Real> x(values.size()), expected(values.size()), found(values.size());
  for (std::size_t f = 0; f < std::size(functions<Real>); ++f) {
    const Function<Real>& function = functions<Real>[f];
    for (std::size_t n = 0; n < x.size(); ++n) {
      x[n] = function.takes(values[n]) ? values[n] : Real(1);
      expected[n] = function.scalar(x[n]);
    }
    for (std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      for (std::size_t most : {1U, 4U, 8U, 16U}) {
        evaluate(f, most, x, found);
        for (std::size_t n = 0; n < x.size(); ++n) {
          // Any NaN is as good as any other.
          ASSERT_TRUE(std::memcmp(&expected[n], &found[n], sizeof(Real)) == 0 ||
                      (std::isnan(expected[n]) && std::isnan(found[n])))
              << function.name << '(' << x[n] << ") on " << hwy::TargetName(target) << " in "
              << most << " lanes: " << found[n] << " instead of " << expected[n];
        }
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(ElementaryTargets, VectorsHaveTheScalarBitsForEvery3001stFloat) {
  // NaN and subnormal ones too, in pieces.
  std::vector<float> x(1 << 16);
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32;) {
    for (float& value : x) {
      value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
      bits += 3001;
    }
    ASSERT_NO_FATAL_FAILURE(expect_scalar_bits(x));
  }
}

TEST(ElementaryTargets, VectorsHaveTheScalarBitsInDouble) {
  std::vector<double> x(1 << 18);
  // Numbers of every size and sign, NaN and subnormal ones too; then those that are not mere
  // limits.
  for (std::size_t n = 0; n < x.size(); ++n) {
    x[n] = std::bit_cast<double>(n * 0x9e3779b97f4a7c15U);
  }
  expect_scalar_bits(x);
  for (std::size_t n = 0; n < x.size(); ++n) {
    x[n] = -760 + 0.0057 * static_cast<double>(n);
  }
  expect_scalar_bits(x);
  for (std::size_t n = 0; n < x.size(); ++n) {
    x[n] = -3 + 0.0000237 * static_cast<double>(n);
  }
  expect_scalar_bits(x);
}

template <class Real>
void expect_scalar_bits_of_special_values() {
  using Limits = std::numeric_limits<Real>;
  std::vector<Real> x = {
      0,
      1,
      Limits::infinity(),
      Limits::quiet_NaN(),
      Limits::denorm_min(),
      Limits::min(),
      Limits::max(),
      Limits::epsilon(),
      TanhConstants<Real>::cut,
      std::nextafter(TanhConstants<Real>::cut, Real(0)),
      TanhConstants<Real>::one / 2,
      -ExpConstants<Real>::lowest,
      ExpConstants<Real>::highest,
      std::nextafter(ExpConstants<Real>::highest, Real(0)),
      std::bit_cast<Real>(LogConstants<Real>::sqrt_half),
      std::nextafter(std::bit_cast<Real>(LogConstants<Real>::sqrt_half), Real(0))};
  for (std::size_t n = 0; n < 16; ++n) x.push_back(-x[n]);
  expect_scalar_bits(x);
}

TEST(ElementaryTargets, VectorsHaveTheScalarBitsOfSpecialValues) {
  expect_scalar_bits_of_special_values<float>();
  expect_scalar_bits_of_special_values<double>();
}

}  // namespace
}  // namespace headproof

#endif
