#include "attention/elementary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace headproof {
namespace {

template <class Real>
constexpr Real infinity = std::numeric_limits<Real>::infinity();

/// The error of `found` in units in the last place of the exact value.
template <class Real, class Wide>
Wide ulps(Real found, Wide exact) {
  using Limits = std::numeric_limits<Real>;
  const int exponent = std::max(std::ilogb(exact), Limits::min_exponent - 1);
  return std::fabs(std::ldexp(static_cast<Wide>(found) - exact, Limits::digits - 1 - exponent));
}

/// The largest error over every `step`th float of one sign from `first` to `last`. The C library's
/// function in double counts as exact: its own error is less than a millionth of a float's ulp.
template <class Canonical, class Exact>
double largest_error(Canonical canonical, Exact exact, float first, float last,
                     std::uint32_t step) {
  double largest = 0;
  const auto end = std::bit_cast<std::uint32_t>(last);
  for (auto bits = std::bit_cast<std::uint32_t>(first); bits <= end; bits += step) {
    const auto x = std::bit_cast<float>(bits);
    const double error = ulps(canonical(x), exact(static_cast<double>(x)));
    if (!(error <= largest)) largest = error;  // a NaN too
  }
  return largest;
}

void expect_errors_in_float(std::uint32_t step) {
  const auto exp_error = [&](float first, float last) {
    return largest_error([](float x) { return canonical_exp(x); },
                         [](double x) { return std::exp(x); }, first, last, step);
  };
  EXPECT_LE(exp_error(0.0F, 88.72283F), 1.01);
  EXPECT_LE(exp_error(-0.0F, -104.0F), 1.01);
  EXPECT_LE(
      largest_error([](float x) { return canonical_log(x); }, [](double x) { return std::log(x); },
                    std::numeric_limits<float>::min(), std::numeric_limits<float>::max(), step),
      1.97);
  EXPECT_LE(largest_error([](float x) { return canonical_tanh(x); },
                          [](double x) { return std::tanh(x); }, 0.0F, infinity<float>, step),
            1.47);
}

TEST(Elementary, ErrorsInFloatAreAsStatedForEvery97thFloat) { expect_errors_in_float(97); }

TEST(Sweep, ErrorsInFloatAreAsStatedForEveryFloat) {
  if (std::getenv("HEADPROOF_SWEEP") == nullptr) {
    GTEST_SKIP() << "takes minutes; ./run sweep runs it, as does any run with HEADPROOF_SWEEP set";
  }
  expect_errors_in_float(1);
}

TEST(Elementary, ErrorsInDoubleAreAsStated) {
  for (double x = -745; x < 709.7; x += 0.000317) {
    ASSERT_LE(ulps(canonical_exp(x), std::exp(static_cast<long double>(x))), 1.05) << x;
  }
  // Around 1, where the logarithm is small, and far from it.
  for (double x = 0.5; x < 2; x += 0.00000117) {
    ASSERT_LE(ulps(canonical_log(x), std::log(static_cast<long double>(x))), 2) << x;
  }
  for (double x = 1e-300; x < 1e300; x *= 1.00117) {
    ASSERT_LE(ulps(canonical_log(x), std::log(static_cast<long double>(x))), 2) << x;
  }
  for (double x = 1e-300; x < 30; x *= 1.00117) {
    ASSERT_LE(ulps(canonical_tanh(x), std::tanh(static_cast<long double>(x))), 1.5) << x;
  }
  for (double x = 0.3; x < 3; x += 0.00000117) {
    ASSERT_LE(ulps(canonical_tanh(x), std::tanh(static_cast<long double>(x))), 1.5) << x;
  }
}

template <class Real>
class ElementaryOf : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(ElementaryOf, Reals);

TYPED_TEST(ElementaryOf, ExpIsExactWhereItMustBe) {
  using Real = TypeParam;
  EXPECT_EQ(canonical_exp(Real(0)), 1);
  EXPECT_EQ(canonical_exp(-Real(0)), 1);
  EXPECT_EQ(canonical_exp(-infinity<Real>), 0);
  EXPECT_EQ(canonical_exp(Real(-1e30)), 0);
  EXPECT_EQ(canonical_exp(infinity<Real>), infinity<Real>);
  EXPECT_EQ(canonical_exp(Real(1e30)), infinity<Real>);
  EXPECT_TRUE(std::isnan(canonical_exp(std::numeric_limits<Real>::quiet_NaN())));
  // The smallest subnormal number is kept.
  const Real smallest = std::numeric_limits<Real>::denorm_min();
  EXPECT_EQ(canonical_exp(std::log(smallest)), smallest);
}

TYPED_TEST(ElementaryOf, LogIsExactWhereItMustBe) {
  using Real = TypeParam;
  EXPECT_EQ(canonical_log(Real(1)), 0);
  EXPECT_EQ(canonical_log(infinity<Real>), infinity<Real>);
  EXPECT_TRUE(std::isnan(canonical_log(std::numeric_limits<Real>::quiet_NaN())));
}

TYPED_TEST(ElementaryOf, TanhIsExactWhereItMustBeAndOdd) {
  using Real = TypeParam;
  EXPECT_EQ(canonical_tanh(Real(0)), 0);
  EXPECT_TRUE(std::signbit(canonical_tanh(-Real(0))));
  EXPECT_FALSE(std::signbit(canonical_tanh(Real(0))));
  for (Real large : {Real(20), Real(1e30), infinity<Real>}) EXPECT_EQ(canonical_tanh(large), 1);
  const Real smallest = std::numeric_limits<Real>::denorm_min();
  EXPECT_EQ(canonical_tanh(smallest), smallest);
  EXPECT_TRUE(std::isnan(canonical_tanh(std::numeric_limits<Real>::quiet_NaN())));
  for (Real x = Real(0.001); x < 50; x *= Real(1.01)) {
    EXPECT_EQ(canonical_tanh(-x), -canonical_tanh(x)) << x;
  }
}

}  // namespace
}  // namespace headproof
