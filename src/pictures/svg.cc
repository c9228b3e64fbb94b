#include "pictures/svg.h"

#include <algorithm>
#include <map>

namespace headproof {

std::string with_stable_ids(std::string_view svg, std::string_view prefix) {
  std::map<std::string_view, std::string> names;
  std::string result;
  result.reserve(svg.size() + svg.size() / 8);
  while (!svg.empty()) {
    // The next place where an id may begin: id="x", href="#x" or url(#x).
    const std::size_t quote = svg.find_first_of("\"#");
    const std::size_t begin = std::min(quote, svg.size() - 1) + 1;
    const std::string_view before = svg.substr(0, begin);
    result += before;
    svg.remove_prefix(begin);
    if (!before.ends_with(" id=\"") && !before.ends_with('#')) continue;
    const std::string_view name = svg.substr(0, svg.find_first_of("\")"));
    const auto at = names.try_emplace(name, std::string(prefix) + std::to_string(names.size()));
    result += at.first->second;
    svg.remove_prefix(name.size());
  }
  constexpr std::string_view image = "<image ";
  for (std::size_t at = 0; (at = result.find(image, at)) != std::string::npos; at += image.size()) {
    result.insert(at + image.size(), "style=\"image-rendering:pixelated\" ");
  }
  return result;
}

}  // namespace headproof
