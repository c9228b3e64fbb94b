#include "pictures/ticks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace headproof {
namespace {

std::vector<std::string> labels(const std::vector<Tick>& ticks) {
  std::vector<std::string> texts;
  for (const Tick& tick : ticks) texts.push_back(tick.label);
  return texts;
}

using Labels = std::vector<std::string>;

TEST(Ticks, NumbersAreShortAndTypeset) {
  EXPECT_EQ(number_label(0), "0");
  EXPECT_EQ(number_label(-0.0), "0");
  EXPECT_EQ(number_label(0.25), "0.25");
  EXPECT_EQ(number_label(-3), "−3");
  EXPECT_EQ(number_label(1024), "1024");
  EXPECT_EQ(number_label(1e-8), "10⁻⁸");
  EXPECT_EQ(number_label(-1e12), "−10¹²");
  EXPECT_EQ(number_label(2.5e-7), "2.5·10⁻⁷");
  EXPECT_EQ(number_label(std::numeric_limits<double>::quiet_NaN()), "NaN");
  EXPECT_EQ(number_label(-std::numeric_limits<double>::infinity()), "−∞");
}

TEST(Ticks, LinearTicksAreRoundNumbersWithinTheRange) {
  EXPECT_EQ(labels(linear_ticks(0, 1, 6)), (Labels{"0", "0.2", "0.4", "0.6", "0.8", "1"}));
  EXPECT_EQ(labels(linear_ticks(-0.9, 0.93, 5)), (Labels{"−0.5", "0", "0.5"}));
  EXPECT_EQ(labels(linear_ticks(0, 0.31, 7)),
            (Labels{"0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3"}));
  EXPECT_EQ(labels(linear_ticks(0, 3e-9, 3)), (Labels{"0", "10⁻⁹", "2·10⁻⁹", "3·10⁻⁹"}));
}

TEST(Ticks, RangesNarrowerThanTheNumbersInThemEnd) {
  EXPECT_LE(linear_ticks(1e300, std::nextafter(1e300, 2e300), 5).size(), 12U);
  EXPECT_LE(linear_ticks(1, 1 + 1e-15, 5).size(), 12U);
}

TEST(Ticks, IndexTicksAreWholeNumbers) {
  EXPECT_EQ(labels(index_ticks(3, 8)), (Labels{"0", "1", "2"}));
  EXPECT_EQ(labels(index_ticks(48, 8)), (Labels{"0", "10", "20", "30", "40"}));
  EXPECT_EQ(labels(index_ticks(1, 8)), (Labels{"0"}));
  EXPECT_EQ(labels(index_ticks(0, 8)), (Labels{}));
}

TEST(Ticks, LogTicksArePowersThatIncludeOne) {
  EXPECT_EQ(labels(log_ticks(0.125, 8, 9)), (Labels{"1/8", "1/4", "1/2", "1", "2", "4", "8"}));
  EXPECT_EQ(labels(log_ticks(1.0 / 64, 64, 9)),
            (Labels{"1/64", "1/16", "1/4", "1", "4", "16", "64"}));
  EXPECT_EQ(labels(log_ticks(2e-9, 40, 6)), (Labels{"10⁻⁸", "10⁻⁶", "10⁻⁴", "10⁻²", "10⁰"}));
}

TEST(Ticks, LogTicksOfANarrowRangeAreRoundNumbers) {
  EXPECT_EQ(labels(log_ticks(1.1, 1.9, 5)), (Labels{"1.2", "1.4", "1.6", "1.8"}));
}

}  // namespace
}  // namespace headproof
