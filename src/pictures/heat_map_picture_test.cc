#include <algorithm>
#include <limits>
#include <map>
#include <thread>

#include "pictures/testing.h"

namespace headproof {
namespace {

const ColourMap weight_colours({.label = "weight"});

HeatMapPicture picture_of(std::vector<HeatMap> maps, ColourScale scale = {.label = "weight"}) {
  return {.title = "title", .caption = "caption", .rows = {{{std::move(maps), std::move(scale)}}}};
}

Tensor<float, 2> running_mean(Index n) {
  Tensor<float, 2> A({n, n});
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j <= i; ++j) A(i, j) = 1 / static_cast<float>(i + 1);
  }
  return A;
}

const std::vector<std::string> hostile_labels = {"$",
                                                 "$$",
                                                 "a$b",
                                                 "\\",
                                                 "_",
                                                 "^",
                                                 "{",
                                                 "<",
                                                 "&amp;",
                                                 "a&b",
                                                 "\"",
                                                 "'",
                                                 "\n",
                                                 "\t",
                                                 " ",
                                                 "",
                                                 "\x03",
                                                 std::string("a\0b", 3),
                                                 "注",
                                                 "意",
                                                 "é",
                                                 "한",
                                                 "🙂",
                                                 "שלום",
                                                 "م",
                                                 "\xff",
                                                 "\xc3",
                                                 "</script>",
                                                 "]]>",
                                                 "<b>bold</b>",
                                                 "\u202e",
                                                 "e\u0301\u0301\u0301",
                                                 std::string(5000, 'w')};

/// Whether tags nest, attributes are quoted and no character is one that XML forbids.
bool is_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = 0; at < xml.size(); ++at) {
    const auto byte = static_cast<unsigned char>(xml[at]);
    if (byte < 0x20 && byte != '\n' && byte != '\t') return false;
    if (xml[at] == '&') return false;  // cairo has no reason to write one
    if (xml[at] != '<') continue;
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos) return false;
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return false;
    at = end;
    if (tag.starts_with('?') || tag.ends_with('/')) continue;
    if (!tag.starts_with('/')) {
      open.push_back(tag.substr(0, tag.find(' ')));
    } else if (open.empty() || open.back() != tag.substr(1)) {
      return false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}

TEST(HeatMapPicture, FormatsBeginAsTheyMust) {
  const auto A = running_mean(4);
  const auto picture = picture_of({{.title = "A", .values = A}});
  EXPECT_TRUE(draw(picture, PictureFormat::png)->starts_with("\x89PNG\r\n\x1a\n"));
  EXPECT_TRUE(draw(picture, PictureFormat::svg)->starts_with("<?xml"));
  EXPECT_TRUE(draw(picture, PictureFormat::pdf)->starts_with("%PDF-"));
}

TEST(HeatMapPicture, RowZeroIsAtTheTopAndKeyZeroAtTheLeft) {
  const auto A = matrix({{1, 0}, {0.5F, 0.5F}});
  const auto pixels = read_png(*draw(picture_of({{.values = A}}), PictureFormat::png));
  ASSERT_TRUE(pixels);
  const auto one = find_filled(*pixels, weight_colours(1), 44, 44);
  ASSERT_TRUE(one);
  EXPECT_TRUE(is_filled(*pixels, weight_colours(0), {one->x + 44, one->y}, 44, 44));
  EXPECT_TRUE(is_filled(*pixels, weight_colours(0.5), {one->x, one->y + 44}, 88, 44));
}

TEST(HeatMapPicture, MapsOfAGroupGiveTheSameValueTheSameColour) {
  const auto a = matrix({{0.25F, 0.9F}}), b = matrix({{0.25F, 0.3F}});
  const auto pixels = read_png(
      *draw(picture_of({{.values = a}, {.values = b}}, {.label = "w", .low = {}, .high = {}}),
            PictureFormat::png));
  const ColourMap shared(
      {.label = "w", .low = static_cast<double>(0.25F), .high = static_cast<double>(0.9F)});
  const auto first = find_filled(*pixels, shared(0.25), 44, 44);
  ASSERT_TRUE(first);
  const auto other = find_filled(*pixels, shared(0.3), 44, 44);
  ASSERT_TRUE(other);
  EXPECT_TRUE(is_filled(*pixels, shared(0.25), {other->x - 44, other->y}, 44, 44));
}

TEST(HeatMapPicture, GroupsOfARowHaveScalesOfTheirOwn) {
  const auto a = matrix({{0, 1}}), b = matrix({{0, 100}});
  HeatMapPicture picture{.title = "two"};
  picture.rows = {
      {{{{.values = a}}, {.label = "a"}}, {{{.values = b}}, {.label = "b", .high = 100.0}}}};
  const auto pixels = read_png(*draw(picture, PictureFormat::png));
  EXPECT_EQ(count(*pixels, weight_colours(1)) / (44 * 60), 2);
}

TEST(HeatMapPicture, EveryLabelIsDrawn) {
  const auto A = running_mean(48);
  const std::vector<std::string> labels(48, "x");
  const auto svg = *draw(picture_of({{.values = A, .query_labels = labels, .key_labels = labels}}),
                         PictureFormat::svg);
  // Glyphs are used by reference; that of the labels is used by far the most.
  std::map<std::string, int> uses;
  for (std::size_t at = 0; (at = svg.find("<use xlink:href=\"#", at)) != std::string::npos; ++at) {
    ++uses[svg.substr(at, svg.find('"', at + 20) - at)];
  }
  const auto most = std::max_element(
      uses.begin(), uses.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  ASSERT_NE(most, uses.end());
  EXPECT_EQ(most->second, 96);
}

TEST(HeatMapPicture, HostileLabelsAreDrawnLiterallyInEveryFormat) {
  const auto n = static_cast<Index>(hostile_labels.size());
  const auto A = running_mean(n);
  auto picture = picture_of({{.title = "<b>$x$</b> & \x01",
                              .values = A,
                              .query_labels = hostile_labels,
                              .key_labels = hostile_labels,
                              .hide_above_diagonal = true}});
  for (const std::string& text : hostile_labels) picture.title += text;
  picture.caption = picture.rows[0][0].scale.label = picture.title;
  const auto svg = draw(picture, PictureFormat::svg);
  ASSERT_TRUE(svg);
  EXPECT_TRUE(is_well_formed(*svg));
  EXPECT_TRUE(draw(picture, PictureFormat::pdf));
  const auto pixels = read_png(*draw(picture, PictureFormat::png));
  ASSERT_TRUE(pixels);
  // Neither 5000 letters in a label nor those in the title make the picture wide.
  EXPECT_LT(pixels->width, 1600);
  EXPECT_EQ(count(*pixels, weight_colours(1)) >= 1, true);
}

TEST(HeatMapPicture, AnSvgFileNeedsNothingElse) {
  const auto A = running_mean(4);
  const auto svg = *draw(picture_of({{.title = "https://x.org", .values = A}}), PictureFormat::svg);
  for (std::size_t at = 0; (at = svg.find("http", at)) != std::string::npos; ++at) {
    EXPECT_EQ(svg.substr(at, 18), "http://www.w3.org/") << "only names of XML namespaces";
  }
  EXPECT_EQ(svg.find("<text"), std::string::npos) << "letters are outlines: no font is needed";
}

TEST(HeatMapPicture, TheSamePictureIsTheSameBytesInAnyThread) {
  const auto A = running_mean(12);
  const std::vector<std::string> labels(12, "é");
  const auto picture = picture_of({{.title = "A",
                                    .values = A,
                                    .query_labels = labels,
                                    .key_labels = labels,
                                    .hide_above_diagonal = true}});
  for (const auto format : {PictureFormat::png, PictureFormat::svg, PictureFormat::pdf}) {
    const std::string expected = *draw(picture, format);
    std::vector<std::string> drawn(4);
    std::vector<std::thread> threads;
    for (std::string& file : drawn) {
      threads.emplace_back([&file, &picture, format] { file = *draw(picture, format); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& file : drawn) EXPECT_EQ(file, expected);
  }
}

TEST(HeatMapPicture, OddShapesAreDrawn) {
  for (const auto& [rows, columns] : std::vector<std::pair<Index, Index>>{
           {0, 0}, {0, 3}, {3, 0}, {1, 1}, {1, 300}, {300, 1}, {2, 31}}) {
    const Tensor<float, 2> values({rows, columns});
    for (const bool hide : {false, true}) {
      const auto picture = picture_of({{.values = values, .hide_above_diagonal = hide}});
      EXPECT_TRUE(draw(picture, PictureFormat::png)) << rows << " x " << columns;
    }
  }
}

TEST(HeatMapPicture, AThinDiagonalOfTwoThousandRowsIsDrawnWhole) {
  constexpr Index n = 2000;
  Tensor<float, 2> values({n, n});
  values(0, 0) = 1;
  for (Index i = 1; i < n; ++i) values(i, i - 1) = 1;
  const auto file =
      draw(picture_of({{.values = values, .query_labels = std::vector<std::string>(n, "x")}}),
           PictureFormat::png);
  ASSERT_TRUE(file);
  const auto pixels = read_png(*file);
  EXPECT_GE(count(*pixels, weight_colours(1)), n);
  EXPECT_EQ(count(*pixels, weight_colours(0)) / n, n - 1);
  EXPECT_LT(file->size(), static_cast<std::size_t>(pixels->width * pixels->height / 10));
}

TEST(HeatMapPicture, LabelsThatFindNoRoomAreSaidToBeLeftOut) {
  constexpr Index n = 1000;
  const Tensor<float, 2> values({n, n});
  auto picture = picture_of({{.values = values}});
  picture.caption.clear();
  const auto numbered = read_png(*draw(picture, PictureFormat::png));
  picture.rows[0][0].maps[0].key_labels = std::vector<std::string>(n, "x");
  const auto labelled = read_png(*draw(picture, PictureFormat::png));
  EXPECT_EQ(numbered->width, labelled->width);
  EXPECT_GT(labelled->height, numbered->height) << "the remark stands below";
}

TEST(HeatMapPicture, NoisyWeightsTakeAtMostAboutAByteAPixel) {
  constexpr Index n = 512;
  Tensor<float, 2> values({n, n});
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8U) / 16777216.0F;
  }
  const auto file = draw(picture_of({{.values = values}}), PictureFormat::png);
  const auto pixels = read_png(*file);
  EXPECT_LT(static_cast<Index>(file->size()), pixels->width * pixels->height + 100'000);
}

TEST(HeatMapPicture, LabelsThatDoNotFitTheMatrixAreRefused) {
  const Tensor<float, 2> values({2, 3});
  const auto result = draw(picture_of({{.title = "A", .values = values, .query_labels = {"a"}}}),
                           PictureFormat::png);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message,
            "the heat map \"A\" is 2 × 3 and has 1 query labels; it takes 2 or none");
  EXPECT_FALSE(
      draw(picture_of({{.values = values, .key_labels = {"a", "b"}}}), PictureFormat::png));
}

TEST(HeatMapPicture, NothingToDrawIsRefused) {
  EXPECT_FALSE(draw(HeatMapPicture{}, PictureFormat::png));
  EXPECT_FALSE(draw(HeatMapPicture{.rows = {{}}}, PictureFormat::png));
  EXPECT_FALSE(draw(picture_of({}), PictureFormat::png));
}

TEST(HeatMapPicture, MoreThanCairoCanDrawIsRefused) {
  const Tensor<float, 2> values({1, 1});
  const auto result =
      draw(picture_of(std::vector<HeatMap>(600, {.values = values})), PictureFormat::png);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("fewer maps"), std::string::npos);
}

}  // namespace
}  // namespace headproof
