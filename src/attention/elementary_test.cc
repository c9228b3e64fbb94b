#include "attention/elementary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace headproof {
namespace {

/// The error of `found` in units in the last place of the exact value.
template <class Real>
long double ulps(Real found, long double exact) {
  const auto rounded = static_cast<Real>(exact);
  const long double unit =
      static_cast<long double>(std::nextafter(rounded, std::numeric_limits<Real>::infinity())) -
      static_cast<long double>(rounded);
  return std::fabs(static_cast<long double>(found) - exact) / unit;
}

// Over all floats of the range the largest error is 1.0086 ulp; every 97th is tried here.
TEST(CanonicalExp, IsWithin101HundredthsOfAnUlpOverItsRangeInFloat) {
  for (std::uint32_t bits = 0; bits < 0x42D00000U; bits += 97) {  // 0 .. 104
    for (float x : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
      if (x > 88.72F || x < -103) continue;
      ASSERT_LE(ulps(canonical_exp(x), std::exp(static_cast<long double>(x))), 1.01) << x;
    }
  }
}

TEST(CanonicalExp, IsWithin105HundredthsOfAnUlpOverItsRangeInDouble) {
  for (double x = -744; x < 709; x += 0.00317) {
    ASSERT_LE(ulps(canonical_exp(x), std::exp(static_cast<long double>(x))), 1.05) << x;
  }
}

TEST(CanonicalExp, IsExactWhereItMustBe) {
  EXPECT_EQ(canonical_exp(0.0F), 1);
  EXPECT_EQ(canonical_exp(-0.0), 1);
  EXPECT_EQ(canonical_exp(-std::numeric_limits<float>::infinity()), 0);
  EXPECT_EQ(canonical_exp(-std::numeric_limits<double>::infinity()), 0);
  EXPECT_EQ(canonical_exp(-200.0F), 0);
  EXPECT_EQ(canonical_exp(100.0F), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(canonical_exp(std::nanf(""))));
  EXPECT_GT(canonical_exp(-103.0F), 0);  // subnormal numbers are kept
}

TEST(CanonicalLog, IsWithinTwoUlpFromOneOn) {
  for (float x = 1; x < 1e7F; x *= 1.00037F) {
    ASSERT_LE(ulps(canonical_log(x), std::log(static_cast<long double>(x))), 2) << x;
  }
  for (double x = 1; x < 1e12; x *= 1.00037) {
    ASSERT_LE(ulps(canonical_log(x), std::log(static_cast<long double>(x))), 2) << x;
  }
  EXPECT_EQ(canonical_log(1.0F), 0);
  EXPECT_EQ(canonical_log(1.0), 0);
}

}  // namespace
}  // namespace headproof
