// Just enough of XML to see that a document is well-formed.
#pragma once

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace headproof {

/// Why `text` is no well-formed document (declaration, elements, attributes, text, entities), or
/// nothing when it is.
inline std::string xml_fault(std::string_view text) {
  std::vector<std::string> open;
  std::size_t at = 0, roots = 0;
  const auto entity_ends = [&](std::size_t from) {
    for (std::string_view name : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}) {
      if (text.substr(from).starts_with(name)) return true;
    }
    return false;
  };
  if (text.starts_with("<?xml")) at = text.find("?>") + 2;
  while (at < text.size()) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c < 0x20 && c != '\n' && c != '\t') return "a control character";
    if (c == '&' && !entity_ends(at)) return "an & that begins no entity";
    if (c == '>') return "a > outside of a tag";
    if (c != '<') {
      if (open.empty() && std::isspace(c) == 0) return "text outside of the root";
      ++at;
      continue;
    }
    const std::size_t end = text.find('>', at);
    if (end == text.npos) return "a tag that does not end";
    std::string_view tag = text.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return "</" + std::string(tag.substr(1));
      open.pop_back();
      continue;
    }
    const bool closed = tag.ends_with('/');
    if (closed) tag.remove_suffix(1);
    const std::string name(tag.substr(0, tag.find(' ')));
    std::string_view rest = tag.substr(name.size());
    while (!rest.empty()) {  // name="value"
      const std::size_t open_quote = rest.find("=\"");
      const std::size_t close_quote =
          open_quote == rest.npos ? rest.npos : rest.find('"', open_quote + 2);
      if (!rest.starts_with(' ') || close_quote == rest.npos) return "attributes of " + name;
      const std::string_view value = rest.substr(open_quote + 2, close_quote - open_quote - 2);
      if (value.find('<') != value.npos) return "a < in an attribute";
      rest.remove_prefix(close_quote + 1);
    }
    if (open.empty()) ++roots;
    if (!closed) open.push_back(name);
  }
  if (!open.empty()) return "<" + open.back() + "> is not closed";
  return roots == 1 ? "" : std::to_string(roots) + " roots";
}

}  // namespace headproof
