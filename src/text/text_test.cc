#include "headproof/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace headproof {
namespace {

using namespace std::string_literals;

Text decoded(const std::string& bytes) {
  const Result<Text> text = decode_utf8(bytes, "a.txt");
  EXPECT_TRUE(text) << text.error().message;
  return text ? *text : Text();
}

/// The offset and byte that the error names; "none" when there is no error.
std::string invalid(const std::string& bytes) {
  // A copy of exactly that size lets the address sanitizer see a read behind its end.
  const std::vector<char> exact(bytes.begin(), bytes.end());
  const Result<Text> text = decode_utf8({exact.data(), exact.size()}, "a.txt");
  if (text) return "none";
  std::string message = text.error().message;
  const std::string start = "cannot read a.txt as UTF-8: no character begins with the byte ";
  const std::string end = "; save the text as UTF-8";
  EXPECT_TRUE(message.starts_with(start) && message.ends_with(end)) << message;
  return message.substr(start.size(), message.size() - start.size() - end.size());
}

// BC142: read in a system's code page, the three characters became five.
TEST(Text, IsReadByCodePoint) {
  EXPECT_EQ(decoded("a\xE2\x80\x99"s + "b").characters, U"a\u2019b");
  EXPECT_EQ(decoded("\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF"
                    "\xF0\x90\x80\x80\xF4\x8F\xBF\xBF")
                .characters,
            U"\x7F\x80\u07FF\u0800\uD7FF\uE000\uFFFF\U00010000\U0010FFFF");
  EXPECT_EQ(decoded("a\0b"s).characters, U"a\0b"s);
  EXPECT_EQ(decoded("").characters, U"");
}

// BC145: a character cut by the border of a buffer became replacement characters.
TEST(Text, ACharacterMayLieAcrossAnyBorder) {
  for (std::size_t before = 0; before < 5000; before += 7) {
    const Text text = decoded(std::string(before, 'a') + "caf\xC3\xA9");
    EXPECT_EQ(text.characters.size(), before + 4);
    EXPECT_EQ(text.characters.substr(before), U"caf\u00E9");
  }
}

TEST(Text, TheFirstByteThatIsNotUtf8IsNamed) {
  EXPECT_EQ(invalid("abc\xFF"), "0xFF at offset 3");
  EXPECT_EQ(invalid("\xE9t\xE9"), "0xE9 at offset 0");         // Latin-1.
  EXPECT_EQ(invalid("a\x80"), "0x80 at offset 1");             // No start before it.
  EXPECT_EQ(invalid("\xC3\xA9\xC0\xAF"), "0xC0 at offset 2");  // '/' in two bytes.
  EXPECT_EQ(invalid("\xC1\xBF"), "0xC1 at offset 0");          // U+007F in two bytes.
  EXPECT_EQ(invalid("\xE0\x9F\xBF"), "0xE0 at offset 0");      // U+07FF in three bytes.
  EXPECT_EQ(invalid("\xF0\x8F\xBF\xBF"), "0xF0 at offset 0");  // U+FFFF in four bytes.
  EXPECT_EQ(invalid("ab\xED\xA0\x80"), "0xED at offset 2");    // A surrogate.
  EXPECT_EQ(invalid("ab\xED\xBF\xBF"), "0xED at offset 2");    // The last surrogate.
  EXPECT_EQ(invalid("\xF4\x90\x80\x80"), "0xF4 at offset 0");  // U+110000.
  EXPECT_EQ(invalid("\xF5\x80\x80\x80"), "0xF5 at offset 0");
  EXPECT_EQ(invalid("\xF8\x88\x80\x80\x80"), "0xF8 at offset 0");  // Five bytes.
  EXPECT_EQ(invalid("\xEF\xBB\xBF\xFF"), "0xFF at offset 3");      // The mark counts, too.
  EXPECT_EQ(invalid("\xC3("), "0xC3 at offset 0");
  EXPECT_EQ(invalid("\xE2\x80("), "0xE2 at offset 0");
  EXPECT_EQ(invalid("\xFF\xFEh\0"s), "0xFF at offset 0");  // UTF-16.
}

TEST(Text, ATextCutWithinACharacterIsRefused) {
  for (const std::string character : {"\xC3\xA9", "\xE2\x80\x99", "\xF0\x9F\x98\x80"}) {
    for (std::size_t size = 1; size < character.size(); ++size) {
      EXPECT_TRUE(invalid("ab" + character.substr(0, size)).ends_with(" at offset 2")) << size;
    }
  }
}

// BC143: Windows line ends added a character a line, and the carriage return entered the alphabet.
TEST(Text, LineEndsBecomeNewlinesAndAreCounted) {
  const Text windows = decoded("a\r\nb");
  EXPECT_EQ(windows.characters, U"a\nb");
  EXPECT_EQ(windows.line_ends_changed, 1);
  const Text mixed = decoded("\r\r\n\n\r\n\ra\r");
  EXPECT_EQ(mixed.characters, U"\n\n\n\n\na\n");
  EXPECT_EQ(mixed.line_ends_changed, 5);
  const Text unix_text = decoded("a\n\nb\n");
  EXPECT_EQ(unix_text.characters, U"a\n\nb\n");
  EXPECT_EQ(unix_text.line_ends_changed, 0);
}

TEST(Text, OnlyALeadingByteOrderMarkIsDropped) {
  const Text text = decoded("\xEF\xBB\xBF\xEF\xBB\xBFx");
  EXPECT_TRUE(text.had_byte_order_mark);
  EXPECT_EQ(text.characters, U"\uFEFFx");
  EXPECT_FALSE(decoded("x\xEF\xBB\xBF").had_byte_order_mark);
  EXPECT_EQ(decoded("x\xEF\xBB\xBF").characters, U"x\uFEFF");
  EXPECT_EQ(decoded("\xEF\xBB\xBF").characters, U"");
}

TEST(Text, EveryCodePointSurvivesUtf8AndBack) {
  std::u32string all;
  for (char32_t character = 0; character <= 0x10FFFF; ++character) {
    const bool surrogate = character >= 0xD800 && character <= 0xDFFF;
    if (!surrogate && character != U'\r') all += character;
  }
  EXPECT_EQ(decoded(to_utf8(all)).characters, all);
}

TEST(Text, WhatIsNoCodePointIsWrittenAsTheReplacementCharacter) {
  const std::u32string wrong{0xD800, 0xDFFF, 0x110000, 0xFFFFFFFF};
  EXPECT_EQ(to_utf8(wrong), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(DefaultText, IsProseAndDialogueInPlainAscii) {
  const std::string_view text = default_text();
  EXPECT_GE(text.size(), 4500U);
  EXPECT_LE(text.size(), 7000U);
  EXPECT_TRUE(std::all_of(text.begin(), text.end(),
                          [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
  // The axis labels of the lecture's pictures: a speaker, and a whole sentence.
  EXPECT_EQ(text.substr(0, 48), "MARTHA\nThe lamp is lit, so let the fog come in.\n");
  EXPECT_TRUE(text.ends_with(".\n"));
}

TEST(Vocabulary, HoldsTheSortedCharactersOnce) {
  const Vocabulary vocabulary(U"hello\n\u2019\U0001F600");
  EXPECT_EQ(vocabulary.size(), 7);
  const Tensor<Index, 1> ids = vocabulary.encode(U"\nehlo\u2019\U0001F600").value();
  for (Index i = 0; i < 7; ++i) EXPECT_EQ(ids(i), i);
  EXPECT_EQ(Vocabulary(U"").size(), 0);
}

TEST(Vocabulary, DecodeUndoesEncode) {
  const std::u32string text = decoded(std::string(default_text())).characters;
  const Vocabulary vocabulary(text);
  const Tensor<Index, 1> ids = vocabulary.encode(text).value();
  EXPECT_EQ(ids.size(), static_cast<Index>(text.size()));
  EXPECT_EQ(vocabulary.decode(ids).value(), text);
  EXPECT_EQ(vocabulary.encode(U"").value().size(), 0);
}

// BC140: a character outside the alphabet ended in a bare key error.
TEST(Vocabulary, ACharacterThatItLacksIsNamedWithItsPosition) {
  const auto lacks = [](std::u32string_view alphabet, std::u32string_view text) {
    const auto ids = Vocabulary(alphabet).encode(text);
    return ids ? "no error" : ids.error().message;
  };
  EXPECT_EQ(lacks(U"helo\n", U"hold?"),
            "the vocabulary of 5 characters lacks 'd' (U+0064), which stands at position 3 of the "
            "text, counted from 0");
  EXPECT_EQ(lacks(U"b", U"b\n"),
            "the vocabulary of 1 characters lacks '⏎' (U+000A), which stands at position 1 of the "
            "text, counted from 0");
  EXPECT_NE(lacks(U"", std::u32string(1, U'\0')), "no error");
  EXPECT_EQ(
      lacks(U"", U"\U0001F600"),
      "the vocabulary of 0 characters lacks '\U0001F600' (U+1F600), which stands at position 0 "
      "of the text, counted from 0");
}

TEST(Vocabulary, AnIdOutOfRangeIsNamed) {
  const Vocabulary vocabulary(U"abc");
  for (const Index id : {Index{-1}, Index{3}, std::numeric_limits<Index>::min()}) {
    Tensor<Index, 1> ids({3});
    ids(2) = id;
    const auto text = vocabulary.decode(ids);
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().message,
              "id " + std::to_string(id) +
                  " at position 2 is outside the vocabulary, which has ids from 0 to below 3");
  }
}

TEST(VisibleLabel, WhiteSpaceBecomesMarks) {
  EXPECT_EQ(visible_labels(U"a b\n\t"), (std::vector<std::string>{"a", "␣", "b", "⏎", "⇥"}));
}

// BC130: a dollar sign started mathematics; BC131: no script is left out.
TEST(VisibleLabel, WhatShowsIsShownAsItIs) {
  for (const std::u32string_view character :
       {U"$", U"\\", U"_", U"^", U"{", U"&", U"<", U"~", U"\u00E9", U"\u6CE8", U"\uD55C", U"\u2019",
        U"\U0001F600", U"\uFFFD"}) {
    EXPECT_EQ(visible_label(character[0]), to_utf8(character));
  }
}

TEST(VisibleLabel, WhatDoesNotShowIsNumbered) {
  const std::vector<std::pair<char32_t, std::string>> labels{
      {0x00, "U+0000"},      {0x0D, "U+000D"},     {0x1F, "U+001F"},     {0x7F, "U+007F"},
      {0x85, "U+0085"},      {0xA0, "U+00A0"},     {0xAD, "U+00AD"},     {0x34F, "U+034F"},
      {0x200B, "U+200B"},    {0x202E, "U+202E"},   {0x2028, "U+2028"},   {0x2029, "U+2029"},
      {0x2800, "U+2800"},    {0x3000, "U+3000"},   {0x3164, "U+3164"},   {0xFE0F, "U+FE0F"},
      {0xFEFF, "U+FEFF"},    {0xE000, "U+E000"},   {0x378, "U+0378"},    {0xFFFE, "U+FFFE"},
      {0xD800, "U+D800"},    {0xE0041, "U+E0041"}, {0xE0100, "U+E0100"}, {0x10FFFF, "U+10FFFF"},
      {0x110000, "U+110000"}};
  for (const auto& [character, label] : labels) EXPECT_EQ(visible_label(character), label);
}

TEST(VisibleLabel, AMarkAloneStandsOnADottedCircle) {
  EXPECT_EQ(visible_label(0x0301), "\u25CC\u0301");  // Non-spacing.
  EXPECT_EQ(visible_label(0x0903), "\u25CC\u0903");  // Spacing.
  EXPECT_EQ(visible_label(0x20DD), "\u25CC\u20DD");  // Enclosing.
}

TEST(VisibleLabel, NoneIsEmptyOrHoldsAControlCharacter) {
  for (char32_t character = 0; character < 0x3000; ++character) {
    const std::string label = visible_label(character);
    ASSERT_FALSE(label.empty());
    ASSERT_TRUE(std::all_of(label.begin(), label.end(), [](char c) {
      return static_cast<unsigned char>(c) > ' ' && c != '\x7F';
    })) << static_cast<std::uint32_t>(character);
  }
}

}  // namespace
}  // namespace headproof
