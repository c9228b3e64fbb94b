#include "pictures/canvas.h"

#include <gtest/gtest.h>

namespace headproof {
namespace {

std::string shown(const Lettering& lettering) {
  return pango_layout_get_text(lettering.layout.get());
}

TEST(Typesetter, MarkupIsNotInterpreted) {
  Typesetter set;
  for (const std::string text : {"<b>bold</b>", "a &amp; b", "$x^2$", "\\alpha", "%d"}) {
    EXPECT_EQ(shown(set(text, {})), text);
  }
}

TEST(Typesetter, WhatCannotBeSeenIsSpeltOut) {
  Typesetter set;
  EXPECT_EQ(shown(set("\x03", {})), "U+0003");
  EXPECT_EQ(shown(set(std::string("a\0b", 3), {})), "aU+0000b");
  EXPECT_EQ(shown(set("\u202e", {})), "U+202E");
  EXPECT_EQ(shown(set("two words", {})), "two words");
  EXPECT_EQ(shown(set("e\u0301", {})), "e\u0301") << "a mark stays with its letter";
  EXPECT_EQ(set("two\nlines", {}).height, set("one line", {}).height);
}

TEST(Typesetter, BytesThatAreNotUtf8BecomeReplacementCharacters) {
  Typesetter set;
  EXPECT_EQ(shown(set("a\xff\xc3", {})), "a\uFFFD\uFFFD");
  EXPECT_EQ(shown(set("\xed\xa0\x80", {})).find('\xed'), std::string::npos);
}

TEST(Typesetter, NoCharacterBecomesAnEmptyBox) {
  Typesetter set;
  for (const std::string text : {"注意", "한", "🙂", "𒀀", "שלום", "\u0378", "\U0010FFFD"}) {
    const Lettering lettering = set("a" + text, {});
    EXPECT_EQ(pango_layout_get_unknown_glyphs_count(lettering.layout.get()), 0) << shown(lettering);
  }
}

TEST(Typesetter, LongTextsKeepToTheirWidthAndLines) {
  Typesetter set;
  const std::string words(4000, 'w');
  const double line = set("w", {}).height;
  EXPECT_LE(set(words, {.width = 100, .lines = 1}).width, 100);
  EXPECT_EQ(set(words, {.width = 100, .lines = 1}).height, line);
  EXPECT_NEAR(set(words, {.width = 100, .lines = 3}).height, 3 * line, 1);
  EXPECT_GT(set(words, {}).width, 10'000);
}

TEST(Canvas, MoreThanCairoCanDrawIsRefused) {
  EXPECT_TRUE(Canvas::make(PictureFormat::png, 32767, 1, ""));
  EXPECT_FALSE(Canvas::make(PictureFormat::png, 32768, 1, ""));
}

TEST(Canvas, FilesOfPaperCarryNoDate) {
  auto canvas = Canvas::make(PictureFormat::pdf, 10, 10, "title");
  const auto file = canvas->finish();
  EXPECT_NE(file->find("(title)"), std::string::npos) << "what is searched is not compressed";
  EXPECT_EQ(file->find("Date"), std::string::npos);
}

}  // namespace
}  // namespace headproof
