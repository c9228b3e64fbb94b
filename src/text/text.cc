#include "headproof/text.h"

#include <glib.h>
#include <utf8.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <utility>

namespace headproof {

extern const std::string_view default_text_bytes;  // Embedded from src/text/default_text.txt.

namespace {

constexpr char32_t byte_order_mark = 0xFEFF, replacement = 0xFFFD, dotted_circle = 0x25CC;

/// "U+0041", as Unicode writes a character's number.
std::string code_point(char32_t character) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "U+%04X", static_cast<unsigned>(character));
  return text.data();
}

/// Whether a character that has letters' or marks' category is drawn as nothing: fillers, the blank
/// of Braille, and marks that only choose how another character looks.
bool is_blank(char32_t character) {
  using Range = std::pair<char32_t, char32_t>;
  constexpr std::array<Range, 9> blanks{{{0x034F, 0x034F},
                                         {0x115F, 0x1160},
                                         {0x17B4, 0x17B5},
                                         {0x180B, 0x180F},
                                         {0x2800, 0x2800},
                                         {0x3164, 0x3164},
                                         {0xFE00, 0xFE0F},
                                         {0xFFA0, 0xFFA0},
                                         {0xE0100, 0xE01EF}}};
  return std::any_of(blanks.begin(), blanks.end(), [character](const Range& range) {
    return range.first <= character && character <= range.second;
  });
}

}  // namespace

Result<Text> decode_utf8(std::string_view bytes, std::string_view name) {
  const auto invalid = utf8::find_invalid(bytes.begin(), bytes.end());
  if (invalid != bytes.end()) {
    std::array<char, 8> hex{};
    std::snprintf(hex.data(), hex.size(), "0x%02X", static_cast<unsigned char>(*invalid));
    return Error{"cannot read " + std::string(name) +
                 " as UTF-8: no character begins with the byte " + hex.data() + " at offset " +
                 std::to_string(invalid - bytes.begin()) + "; save the text as UTF-8"};
  }
  Text text;
  std::u32string& characters = text.characters;
  utf8::unchecked::utf8to32(bytes.begin(), bytes.end(), std::back_inserter(characters));
  if (!characters.empty() && characters[0] == byte_order_mark) {
    characters.erase(0, 1);
    text.had_byte_order_mark = true;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < characters.size(); ++i) {
    char32_t character = characters[i];
    if (character == U'\r') {
      character = U'\n';
      ++text.line_ends_changed;
      if (i + 1 < characters.size() && characters[i + 1] == U'\n') ++i;
    }
    characters[kept++] = character;
  }
  characters.resize(kept);
  return text;
}

std::string to_utf8(std::u32string_view characters) {
  std::string bytes;
  for (char32_t character : characters) {
    const bool valid = character < 0xD800 || (character > 0xDFFF && character <= 0x10FFFF);
    utf8::unchecked::append(valid ? character : replacement, std::back_inserter(bytes));
  }
  return bytes;
}

std::string_view default_text() { return default_text_bytes; }

Vocabulary::Vocabulary(std::u32string_view text) : characters_(text) {
  std::sort(characters_.begin(), characters_.end());
  characters_.erase(std::unique(characters_.begin(), characters_.end()), characters_.end());
}

Result<Tensor<Index, 1>> Vocabulary::encode(std::u32string_view text) const {
  Tensor<Index, 1> ids({static_cast<Index>(text.size())});
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto found = std::lower_bound(characters_.begin(), characters_.end(), text[i]);
    if (found == characters_.end() || *found != text[i]) {
      return Error{"the vocabulary of " + std::to_string(size()) + " characters lacks '" +
                   visible_label(text[i]) + "' (" + code_point(text[i]) +
                   "), which stands at position " + std::to_string(i) +
                   " of the text, counted from 0"};
    }
    ids(i) = found - characters_.begin();
  }
  return ids;
}

Result<std::u32string> Vocabulary::decode(View<const Index, 1> ids) const {
  std::u32string text;
  for (Index i = 0; i < ids.size(); ++i) {
    if (ids(i) < 0 || ids(i) >= size()) {
      return Error{"id " + std::to_string(ids(i)) + " at position " + std::to_string(i) +
                   " is outside the vocabulary, which has ids from 0 to below " +
                   std::to_string(size())};
    }
    text += characters_[static_cast<std::size_t>(ids(i))];
  }
  return text;
}

std::string visible_label(char32_t character) {
  if (character == U'\n') return "⏎";
  if (character == U'\t') return "⇥";
  if (character == U' ') return "␣";
  if (is_blank(character)) return code_point(character);
  switch (g_unichar_type(character)) {
    case G_UNICODE_CONTROL:
    case G_UNICODE_FORMAT:
    case G_UNICODE_UNASSIGNED:
    case G_UNICODE_PRIVATE_USE:
    case G_UNICODE_SURROGATE:
    case G_UNICODE_LINE_SEPARATOR:
    case G_UNICODE_PARAGRAPH_SEPARATOR:
    case G_UNICODE_SPACE_SEPARATOR:
      return code_point(character);
    case G_UNICODE_SPACING_MARK:
    case G_UNICODE_ENCLOSING_MARK:
    case G_UNICODE_NON_SPACING_MARK:
      return to_utf8(std::u32string{dotted_circle, character});
    default:
      return to_utf8(std::u32string{character});
  }
}

std::vector<std::string> visible_labels(std::u32string_view characters) {
  std::vector<std::string> labels;
  labels.reserve(characters.size());
  std::transform(characters.begin(), characters.end(), std::back_inserter(labels), visible_label);
  return labels;
}

}  // namespace headproof
