#include "prose/lines.h"

#include <algorithm>

namespace headproof {
namespace {

std::string spaces_up_to(std::size_t width, std::string_view text) {
  const std::size_t shown = shown_width(text);
  return std::string(width > shown ? width - shown : 0, ' ');
}

}  // namespace

std::size_t shown_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string padded(std::string_view text, std::size_t width) {
  return std::string(text) + spaces_up_to(width, text);
}

std::string right_aligned(std::string_view text, std::size_t width) {
  return spaces_up_to(width, text) + std::string(text);
}

std::string wrapped(std::string_view text, std::string_view indent, std::size_t width) {
  std::string lines, line;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && shown_width(line) + 1 + shown_width(word) > width) {
      lines += line + "\n";
      line.clear();
    }
    line += (line.empty() ? indent : " ");
    line += word;
  }
  return lines + line + "\n";
}

std::string on_one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '?');
  return text;
}

std::string Paint::with(std::string_view code, std::string_view text) const {
  if (!colour_) return std::string(text);
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

}  // namespace headproof
