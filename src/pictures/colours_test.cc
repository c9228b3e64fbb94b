#include "pictures/colours.h"

#include <cmath>
#include <limits>

#include "pictures/testing.h"

namespace headproof {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

const ColourScale automatic{.label = "x", .low = {}, .high = {}};

/// The lightness L* of a colour, 0 to 100, by way of its relative luminance.
double lightness(Colour colour) {
  const auto linear = [](std::uint8_t byte) {
    const double c = byte / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  const double luminance =
      0.2126 * linear(colour.red) + 0.7152 * linear(colour.green) + 0.0722 * linear(colour.blue);
  return luminance > 0.008856 ? 116 * std::cbrt(luminance) - 16 : 903.3 * luminance;
}

int distance(Colour a, Colour b) {
  return std::abs(a.red - b.red) + std::abs(a.green - b.green) + std::abs(a.blue - b.blue);
}

TEST(Colours, SequentialLightnessFallsInEvenSteps) {
  const ColourMap colours({.label = "weight"});
  const double whole = lightness(colours(0)) - lightness(colours(1));
  EXPECT_GT(whole, 60);
  for (int i = 0; i < 16; ++i) {
    const double step = lightness(colours(i / 16.0)) - lightness(colours((i + 1) / 16.0));
    EXPECT_NEAR(step, whole / 16, 0.4 * whole / 16) << "at " << i / 16.0;
  }
}

TEST(Colours, DivergingSidesAreEquallyDarkAndTheMiddleIsTheLightest) {
  const ColourMap colours({.label = "score", .low = -1.0, .high = 1.0, .middle = 0.0});
  for (int i = 1; i <= 16; ++i) {
    const double below = lightness(colours(-i / 16.0)), above = lightness(colours(i / 16.0));
    EXPECT_NEAR(below, above, 6);
    EXPECT_LT(below, lightness(colours((1 - i) / 16.0)));
    EXPECT_LT(above, lightness(colours((i - 1) / 16.0)));
  }
}

TEST(Colours, SidesOfADivergingScaleDifferInBlueWhichRedGreenBlindReadersSee) {
  const ColourMap colours({.label = "score", .low = -1.0, .high = 1.0, .middle = 0.0});
  for (const double value : {0.25, 0.5, 1.0}) {
    const Colour below = colours(-value), above = colours(value);
    EXPECT_GT(below.blue - (below.red + below.green) / 2, 20);
    EXPECT_LT(above.blue - (above.red + above.green) / 2, -20);
  }
}

TEST(Colours, ZeroIsNotPaperAndNanIsNoValue) {
  for (const auto middle : {std::optional<double>{}, std::optional<double>{0.5}}) {
    const ColourMap colours({.label = "x", .middle = middle});
    EXPECT_EQ(colours(nan), not_a_number_colour);
    for (int i = 0; i <= 256; ++i) {
      EXPECT_GT(distance(colours(i / 256.0), paper), 40);
      EXPECT_GT(distance(colours(i / 256.0), not_a_number_colour), 100);
    }
  }
}

TEST(Colours, NanAndInfinityDoNotMoveTheEnds) {
  const auto values = matrix({{1, 2}, {3, nan}, {infinity, -infinity}});
  const auto scale = with_ends(automatic, {HeatMap{.values = values}});
  ASSERT_TRUE(scale);
  EXPECT_EQ(scale->low, 1);
  EXPECT_EQ(scale->high, 3);
  const ColourMap colours(*scale);
  EXPECT_EQ(colours.position(1), 0);
  EXPECT_EQ(colours.position(2), 0.5);
  EXPECT_EQ(colours.position(3), 1);
  EXPECT_TRUE(std::isnan(colours.position(nan)));
  EXPECT_EQ(colours(infinity), colours(3));
  EXPECT_EQ(colours(-infinity), colours(1));
}

TEST(Colours, HiddenValuesDoNotMoveTheEnds) {
  const auto values = matrix({{1, 99}, {2, 3}});
  const auto scale = with_ends(automatic, {HeatMap{.values = values, .hide_above_diagonal = true}});
  EXPECT_EQ(scale->high, 3);
}

TEST(Colours, GivenEndsDoNotFollowTheData) {
  const auto values = matrix({{0.49F, 0.51F}});
  const auto scale = with_ends({.label = "weight"}, {HeatMap{.values = values}});
  const ColourMap colours(*scale);
  EXPECT_LT(distance(colours(0.49), colours(0.51)), 20);
  EXPECT_GT(distance(colours(0.1), colours(0.9)), 200);
}

TEST(Colours, AutomaticEndsLieEquallyFarFromTheMiddle) {
  const auto values = matrix({{-1, 0.5F, 4}});
  auto scale =
      with_ends({.label = "x", .low = {}, .high = {}, .middle = 1.0}, {HeatMap{.values = values}});
  EXPECT_EQ(scale->low, -2);
  EXPECT_EQ(scale->high, 4);
  // On a logarithmic scale the ratios are equal, and what has no logarithm does not count.
  scale = with_ends({.label = "x", .low = {}, .high = {}, .middle = 1.0, .logarithmic = true},
                    {HeatMap{.values = values}});
  EXPECT_EQ(scale->low, 0.25);
  EXPECT_EQ(scale->high, 4);
}

TEST(Colours, LogarithmicScaleHasTheLowEndsColourForZeroAndBelow) {
  const ColourMap colours(
      {.label = "x", .low = 0.125, .high = 8.0, .middle = 1.0, .logarithmic = true});
  EXPECT_NEAR(colours.position(2), 4 / 6.0, 1e-12);
  EXPECT_NEAR(colours.position(0.125), 0, 1e-12);
  EXPECT_EQ(colours(0), colours(0.125));
  EXPECT_EQ(colours(-1), colours(0.125));
}

TEST(Colours, NothingToShowStillMakesAScale) {
  const auto constant = matrix({{5, 5}}), bad = matrix({{nan, infinity}}), none = matrix({});
  for (const auto* values : {&constant, &bad, &none}) {
    for (const auto middle : {std::optional<double>{}, std::optional<double>{5}}) {
      for (const bool logarithmic : {false, true}) {
        const auto scale = with_ends(
            {.label = "x", .low = {}, .high = {}, .middle = middle, .logarithmic = logarithmic},
            {HeatMap{.values = *values}});
        ASSERT_TRUE(scale) << scale.error().message;
        EXPECT_LT(*scale->low, *scale->high);
      }
    }
  }
}

TEST(Colours, UnusableEndsAreRefusedWithASentence) {
  const auto message = [](const ColourScale& scale) {
    const auto result = with_ends(scale, {});
    return result ? "accepted" : result.error().message;
  };
  EXPECT_EQ(message({.label = "w", .low = 1.0, .high = 0.0}),
            "the colour scale \"w\" goes from 1 to 0; it needs two finite ends, the lower one "
            "first");
  EXPECT_NE(message({.label = "w", .low = nan}), "accepted");
  EXPECT_NE(message({.label = "w", .high = infinity}), "accepted");
  EXPECT_EQ(message({.label = "w", .logarithmic = true}),
            "the colour scale \"w\" is logarithmic and starts at 0; it must start above 0");
  EXPECT_NE(message({.label = "w", .middle = 1.0}), "accepted");
  EXPECT_NE(message({.label = "w", .middle = nan}), "accepted");
  EXPECT_NE(message({.label = "w", .low = {}, .high = {}, .middle = -1.0, .logarithmic = true}),
            "accepted");
}

}  // namespace
}  // namespace headproof
