// Texts, and a vocabulary of their characters.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "headproof/result.h"
#include "headproof/tensor.h"

namespace headproof {

/// A text by code point, and what was done to its bytes on the way in.
struct Text {
  std::u32string characters;
  bool had_byte_order_mark = false;  ///< a leading U+FEFF was dropped
  Index line_ends_changed = 0;       ///< CRLF and lone CR that became LF
};

/// Decodes UTF-8. The error names the offset of the first byte that is not UTF-8.
Result<Text> decode_utf8(std::string_view bytes, std::string_view name);

/// UTF-8 of one character or of many.
std::string to_utf8(std::u32string_view characters);

/// The passage that the library brings along: prose and dialogue.
std::string_view default_text();

/// The sorted characters of a text, numbered from 0.
class Vocabulary {
 public:
  explicit Vocabulary(std::u32string_view text);

  Index size() const { return static_cast<Index>(characters_.size()); }
  /// The ids of a text's characters; the error names the first one that has none.
  Result<Tensor<Index, 1>> encode(std::u32string_view text) const;
  /// The characters of ids; the error names the first id that is out of range.
  Result<std::u32string> decode(View<const Index, 1> ids) const;

 private:
  std::u32string characters_;
};

/// A character as an axis label that shows: newline, tab and space become visible marks, control,
/// formatting and unassigned characters become U+XXXX.
std::string visible_label(char32_t character);

/// One visible label for each character.
std::vector<std::string> visible_labels(std::u32string_view characters);

}  // namespace headproof
