#include <limits>

#include "pictures/canvas.h"
#include "pictures/testing.h"

namespace headproof {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr Colour first_line{0, 114, 178}, second_line{213, 94, 0};

Result<std::string> drawn(const Chart& chart, PictureFormat format = PictureFormat::png) {
  return draw(ChartPicture{.title = "title", .caption = "caption", .charts = {chart}}, format);
}

/// The mean place of a colour's pixels.
PixelPlace middle_of(const Pixels& pixels, Colour colour) {
  PixelPlace sum;
  for (Index y = 0; y < pixels.height; ++y) {
    for (Index x = 0; x < pixels.width; ++x) {
      if (colour_at(pixels, x, y) == colour) sum = {sum.x + x, sum.y + y};
    }
  }
  const Index n = std::max<Index>(count(pixels, colour), 1);
  return {sum.x / n, sum.y / n};
}

TEST(ChartPicture, FormatsBeginAsTheyMust) {
  const Chart chart{.lines = {{"", {1, 2}, {3, 4}}}};
  EXPECT_TRUE(drawn(chart, PictureFormat::png)->starts_with("\x89PNG\r\n\x1a\n"));
  EXPECT_TRUE(drawn(chart, PictureFormat::svg)->starts_with("<?xml"));
  EXPECT_TRUE(drawn(chart, PictureFormat::pdf)->starts_with("%PDF-"));
}

TEST(ChartPicture, LargerValuesStandHigherAndFartherRight) {
  const auto pixels = read_png(*drawn({.lines = {{"", {1, 2}, {1, 1.1}}, {"", {8, 9}, {5, 5.1}}}}));
  const PixelPlace low = middle_of(*pixels, first_line), high = middle_of(*pixels, second_line);
  EXPECT_LT(low.x, high.x);
  EXPECT_GT(low.y, high.y);
}

TEST(ChartPicture, LogarithmicAxesTakeEqualRatiosForEqualSteps) {
  // Isolated points: the marker of 4 stands half way between those of 1 and 16.
  const auto pixels = read_png(
      *drawn({.log_x = true, .log_y = true, .lines = {{"", {1, 16}, {1, 16}}, {"", {4}, {4}}}}));
  const PixelPlace whole = middle_of(*pixels, first_line), half = middle_of(*pixels, second_line);
  EXPECT_NEAR(static_cast<double>(whole.x), static_cast<double>(half.x), 12);
  EXPECT_NEAR(static_cast<double>(whole.y), static_cast<double>(half.y), 12);
}

TEST(ChartPicture, PointsThatCannotBeShownAreLeftOutAndCounted) {
  const std::string with = *drawn({.log_y = true, .lines = {{"", {1, 2, 3}, {1, 2, 4}}}});
  const std::string without =
      *drawn({.log_y = true, .lines = {{"", {1, 2, 3, 4, 5, nan}, {1, 2, 4, 0, nan, 1}}}});
  const auto plain = read_png(with), remarked = read_png(without);
  // The same line, and a caption that says more.
  EXPECT_EQ(count(*plain, first_line), count(*remarked, first_line));
  EXPECT_GT(count(*remarked, soft_ink), count(*plain, soft_ink) + 50);
}

TEST(ChartPicture, ChartsWithNothingToShowAreDrawn) {
  EXPECT_TRUE(drawn({}));
  EXPECT_TRUE(drawn({.log_x = true, .log_y = true, .lines = {{"a", {}, {}}}}));
  EXPECT_TRUE(drawn({.lines = {{"a", {1}, {nan}}}}));
  EXPECT_TRUE(drawn({.lines = {{"a", {1}, {5}}}, .marks = {{nan, "nowhere"}, {7, "outside"}}}));
  EXPECT_TRUE(drawn({.lines = {{"a", {1, 2}, {0, 0}}}}));
  EXPECT_TRUE(drawn({.log_y = true, .lines = {{"a", {1, 2}, {5e-324, 1.7e308}}}}));
}

TEST(ChartPicture, HostileTextsAreDrawn) {
  const std::string text = "<b>$x$ & \x01 \xff \n שלום 注 " + std::string(3000, 'w');
  Chart chart{.title = text, .x_label = text, .y_label = text};
  chart.lines = {{text, {1, 2}, {1, 2}}, {text, {1, 2}, {1, 3}}};
  chart.marks = {{1.5, text}};
  for (const auto format : {PictureFormat::png, PictureFormat::svg, PictureFormat::pdf}) {
    EXPECT_TRUE(drawn(chart, format));
  }
}

TEST(ChartPicture, TheSamePictureIsTheSameBytes) {
  const Chart chart{.title = "t", .lines = {{"a", {1, 2, 3}, {3, 1, 2}}}, .marks = {{2, "here"}}};
  for (const auto format : {PictureFormat::png, PictureFormat::svg, PictureFormat::pdf}) {
    EXPECT_EQ(*drawn(chart, format), *drawn(chart, format));
  }
}

TEST(ChartPicture, WhatMakesNoChartIsRefusedWithASentence) {
  const auto message = [](const Chart& chart) {
    const auto result = drawn(chart);
    return result ? "accepted" : result.error().message;
  };
  EXPECT_EQ(message({.title = "c", .lines = {{"l", {1, 2}, {1}}}}),
            "the chart \"c\" has a line \"l\" with 2 values of x and 1 of y; it takes as many of "
            "both");
  EXPECT_NE(message({.y_low = 2, .y_high = 1}), "accepted");
  EXPECT_NE(message({.y_low = nan}), "accepted");
  EXPECT_NE(message({.log_y = true, .y_low = 0}), "accepted");
  EXPECT_FALSE(draw(ChartPicture{}, PictureFormat::png));
}

}  // namespace
}  // namespace headproof
