// What the explorable pages share: the looks and the script of maps of attention, and how data get
// into a page.
#pragma once

#include <string>
#include <string_view>

namespace headproof {

/// src/pictures/explorer.css and explorer.js.
extern const std::string_view explorer_css, explorer_js;

std::string base64(std::string_view bytes);

/// A JSON string that can stand in a <script>: no "<" that could end the element or open a comment.
std::string json_string(std::string_view text);

}  // namespace headproof
