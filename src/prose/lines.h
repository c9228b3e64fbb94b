// Plain text for a terminal: widths, breaks, colours.
#pragma once

#include <string>
#include <string_view>

namespace headproof {

/// How many characters a UTF-8 text shows: its bytes but the continuation bytes.
std::size_t shown_width(std::string_view text);

/// The text with spaces behind it, or before it, up to `width` characters.
std::string padded(std::string_view text, std::size_t width);
std::string right_aligned(std::string_view text, std::size_t width);

/// Breaks plain text at spaces into lines of at most `width` characters, each led by `indent`.
std::string wrapped(std::string_view text, std::string_view indent, std::size_t width = 88);

/// A text from elsewhere, such as a file name, without the control characters that would act on a
/// terminal.
std::string on_one_line(std::string text);

/// Colours for a terminal, or none.
class Paint {
 public:
  explicit Paint(bool colour) : colour_(colour) {}
  std::string bold(std::string_view text) const { return with("1", text); }
  std::string faint(std::string_view text) const { return with("2", text); }
  std::string good(std::string_view text) const { return with("32", text); }
  std::string bad(std::string_view text) const { return with("31;1", text); }

 private:
  std::string with(std::string_view code, std::string_view text) const;
  bool colour_;
};

}  // namespace headproof
