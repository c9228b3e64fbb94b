// The files under docs/ that the command writes are those that it would write today.

#include <algorithm>
#include <cstdlib>

#include "command.h"
#include "pictures/png.h"

namespace headproof {
namespace {

using Docs = CommandTest;

constexpr const char* advice = "run ./run docs";

/// A file of docs/; an empty one when it is missing, which no generated one is.
std::string kept(const std::string& name) {
  const auto bytes = read_file(std::filesystem::path(HEADPROOF_SOURCE_DIR) / "docs" / name);
  return bytes ? *bytes : "";
}

/// The page with "..." for every picture that lies in it: fonts draw a little differently on every
/// system.
std::string without_pictures(std::string_view page) {
  constexpr std::string_view start = "data:image/png;base64,";
  std::string text;
  for (;;) {
    const std::size_t data = std::min(page.find(start), page.size());
    text += page.substr(0, data);
    if (data == page.size()) return text;
    text += std::string(start) + "...";
    page.remove_prefix(page.find_first_of("\"'", data));
  }
}

TEST_F(Docs, TheListOfTheoremsIsUpToDate) {
  EXPECT_TRUE(run("theorems --markdown").out == kept("theorems.md")) << advice;
}

TEST_F(Docs, ThePageIsUpToDate) {
  EXPECT_EQ(run("lecture --out made").exit_code, 0);
  const std::string page = without_pictures(content("made/lecture.html"));
  EXPECT_LT(page.size(), content("made/lecture.html").size());
  EXPECT_TRUE(page == without_pictures(kept("lecture.html"))) << advice;
}

TEST_F(Docs, ThePictureIsUpToDate) {
  EXPECT_EQ(run("lecture --out made").exit_code, 0);
  const Pixels made = read_png(content("made/five_seeds.png")).value();
  const auto old = read_png(kept("five_seeds.png"));
  ASSERT_TRUE(old) << advice;
  ASSERT_EQ(old->width, made.width) << advice;
  ASSERT_EQ(old->height, made.height) << advice;
  double difference = 0;
  for (std::size_t i = 0; i < made.rgb.size(); ++i)
    difference += std::abs(made.rgb[i] - old->rgb[i]);
  EXPECT_LT(difference / static_cast<double>(made.rgb.size()), 2) << advice;
}

}  // namespace
}  // namespace headproof
