#include "theorems/saturation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace headproof {
namespace {

TEST(Saturation, TheSampleIsSharpEnoughToTellANeighbouringVariance) {
  for (const Saturation& sample : sample_saturation({16, 64, 256}, 512)) {
    const auto expected = static_cast<double>(sample.d_k);
    EXPECT_LE(std::fabs(sample.variance - expected), 5 * sample.standard_error);
    // Had the entries a variance 5 % off, that of the scores would be 10 % off.
    EXPECT_GT(std::fabs(sample.variance - 1.10 * expected), 5 * sample.standard_error)
        << sample.d_k;
    EXPECT_GT(std::fabs(sample.variance - 0.90 * expected), 5 * sample.standard_error)
        << sample.d_k;
  }
}

TEST(Saturation, RawScoresSaturateAsTheDimensionGrowsAndScaledOnesDoNot) {
  const auto samples = sample_saturation({4, 1024}, 64);
  const Saturation &narrow = samples[0], &wide = samples[1];
  EXPECT_GT(wide.largest_raw, 0.95);
  EXPECT_LT(wide.jacobian_raw, narrow.jacobian_raw / 4);
  EXPECT_NEAR(wide.largest_scaled, narrow.largest_scaled, 0.05);
  EXPECT_NEAR(wide.jacobian_scaled, narrow.jacobian_scaled, 0.05);
}

TEST(Saturation, TheScaleOfOneDimensionChangesNothing) {
  const Saturation sample = sample_saturation({1}, 16).front();
  EXPECT_EQ(sample.largest_raw, sample.largest_scaled);
  EXPECT_EQ(sample.jacobian_raw, sample.jacobian_scaled);
}

}  // namespace
}  // namespace headproof
