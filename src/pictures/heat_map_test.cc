#include "pictures/heat_map.h"

#include <limits>

#include "pictures/testing.h"

namespace headproof {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr int left = 30, top = 20;
const ColourMap weight_colours({.label = "weight"});

/// A map alone on a sheet, its top left corner at (left, top).
Pixels drawn(const HeatMap& map, const MapSize& size, const ColourMap& colours = weight_colours) {
  Typesetter set;
  auto canvas =
      Canvas::make(PictureFormat::png, size.width + 2 * left, size.height + 2 * top, "test");
  draw_cells(*canvas, map, colours, size, left, top, set);
  return read_png(*canvas->finish()).value();
}

PixelPlace cell(const MapSize& size, Index row, Index column) {
  return {left + column * size.cell_width, top + row * size.cell_height};
}

TEST(HeatMap, EachCellAndOnlyItHasItsOwnColourWithQueriesDownwards) {
  constexpr Index queries = 7, keys = 11;
  for (Index row = 0; row < queries; ++row) {
    for (Index column = 0; column < keys; ++column) {
      Tensor<float, 2> values({queries, keys});
      values(row, column) = 1;
      const HeatMap map{.values = values};
      const MapSize size(map, {.pixels = 9});
      const Pixels pixels = drawn(map, size);
      EXPECT_TRUE(is_filled(pixels, weight_colours(1), cell(size, row, column), 9, 9));
      EXPECT_EQ(count(pixels, weight_colours(1)), 81);
      EXPECT_EQ(count(pixels, weight_colours(0)), (queries * keys - 1) * 81);
    }
  }
}

TEST(HeatMap, TransposedViewsAreDrawnTransposed) {
  const auto values = matrix({{1, 0}, {0.5F, 0.5F}});
  const HeatMap map{.values = values.view().transposed(0, 1)};
  const MapSize size(map, {.pixels = 8});
  const Pixels pixels = drawn(map, size);
  EXPECT_TRUE(is_filled(pixels, weight_colours(0.5), cell(size, 0, 1), 8, 8));
  EXPECT_TRUE(is_filled(pixels, weight_colours(0), cell(size, 1, 0), 8, 8));
}

TEST(HeatMap, FirstAndLastRowsAreAsHighAsTheOthers) {
  for (const Index n : {1, 2, 5, 13}) {
    for (const int pixels_a_cell : {1, 3, 10}) {
      Tensor<float, 2> values({n, n});
      for (Index i = 0; i < n; ++i) {
        for (Index j = 0; j < n; ++j) {
          values(i, j) = static_cast<float>(i * n + j) / static_cast<float>(n * n);
        }
      }
      const HeatMap map{.values = values};
      const MapSize size(map, {.pixels = pixels_a_cell});
      EXPECT_EQ(size.width, n * size.cell_width);
      EXPECT_EQ(size.height, n * size.cell_height);
      const Pixels pixels = drawn(map, size);
      for (Index i = 0; i < n; ++i) {
        for (Index j = 0; j < n; ++j) {
          EXPECT_TRUE(is_filled(pixels, weight_colours(static_cast<double>(values(i, j))),
                                cell(size, i, j), size.cell_width, size.cell_height));
        }
      }
    }
  }
}

TEST(HeatMap, HiddenEntriesArePaperAndAWeightOfZeroIsNot) {
  Tensor<float, 2> values({9, 9});
  for (float& value : values) value = nan;  // a hidden entry's value is not looked at
  for (Index i = 0; i < 9; ++i) {
    for (Index j = 0; j <= i; ++j) values(i, j) = 0;
  }
  const HeatMap map{.values = values, .hide_above_diagonal = true};
  const MapSize size(map, {.pixels = 8});
  const Pixels pixels = drawn(map, size);
  EXPECT_EQ(count(pixels, weight_colours(0)), 45 * 64);
  EXPECT_EQ(count(pixels, not_a_number_colour), 0);
  // The frame runs along the diagonal outside of the cells, hence one pixel inside of the paper.
  EXPECT_TRUE(is_filled(pixels, paper, {left + 8 + 1, top}, 8 * 8 - 2, 7));
}

TEST(HeatMap, ANanHasAColourOfItsOwnAndSpoilsNoOtherCell) {
  auto values = matrix({{0, 0.25F}, {nan, 1}});
  const HeatMap map{.values = values};
  const MapSize size(map, {.pixels = 12});
  const Pixels pixels = drawn(map, size);
  EXPECT_TRUE(is_filled(pixels, not_a_number_colour, cell(size, 1, 0), 12, 12));
  EXPECT_TRUE(is_filled(pixels, weight_colours(0), cell(size, 0, 0), 12, 12));
  EXPECT_TRUE(is_filled(pixels, weight_colours(0.25), cell(size, 0, 1), 12, 12));
  EXPECT_TRUE(is_filled(pixels, weight_colours(1), cell(size, 1, 1), 12, 12));
}

TEST(HeatMap, ThinStructureSurvivesWhenEntriesShareACell) {
  constexpr Index n = 2000;
  Tensor<float, 2> values({n, n});
  values(0, 0) = 1;
  for (Index i = 1; i < n; ++i) values(i, i - 1) = 1;
  const HeatMap map{.values = values, .hide_above_diagonal = true};
  const MapSize size(map, {.block = 20, .pixels = 1});
  EXPECT_EQ(size.rows, 100);
  const Pixels pixels = drawn(map, size);
  for (Index i = 0; i < 100; ++i) {
    EXPECT_EQ(colour_at(pixels, left + i, top + i), weight_colours(1)) << i;
  }
  // Entry (20, 19) lies in the block below the diagonal.
  EXPECT_EQ(colour_at(pixels, left, top + 1), weight_colours(1));
  EXPECT_EQ(colour_at(pixels, left, top + 2), weight_colours(0));
}

TEST(HeatMap, OfEntriesThatShareACellTheOneFarthestFromTheMiddleIsShown) {
  const ColourMap scores({.label = "score", .low = -1.0, .high = 1.0, .middle = 0.0});
  const auto values = matrix({{0.5F, 0, 0, 0, 0}, {0, -0.75F, 0, 0, nan}, {0, 0, 0, 0, 1}});
  const HeatMap map{.values = values};
  const MapSize size(map, {.block = 2, .pixels = 30});
  const Pixels pixels = drawn(map, size, scores);
  ASSERT_EQ(size.rows, 2);
  ASSERT_EQ(size.columns, 3);
  EXPECT_TRUE(is_filled(pixels, scores(-0.75), cell(size, 0, 0), 30, 30));
  EXPECT_TRUE(is_filled(pixels, not_a_number_colour, cell(size, 0, 2), 30, 30));
  EXPECT_TRUE(is_filled(pixels, scores(1), cell(size, 1, 2), 30, 30));
}

TEST(HeatMap, OneRowIsHighEnoughToBeSeen) {
  const Tensor<float, 2> row({1, 500}), column({500, 1});
  EXPECT_GE(MapSize(HeatMap{.values = row}, {.pixels = 1}).height, 20);
  EXPECT_GE(MapSize(HeatMap{.values = column}, {.pixels = 1}).width, 20);
}

}  // namespace
}  // namespace headproof
