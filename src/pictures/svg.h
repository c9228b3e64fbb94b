// Repairs of the SVG files that cairo writes.
#pragma once

#include <string>
#include <string_view>

namespace headproof {

/// `svg` with its ids numbered in their order of appearance behind `prefix`, which makes the same
/// picture the same bytes and lets several pictures stand in one page, and with cells that stay
/// sharp when they are enlarged.
std::string with_stable_ids(std::string_view svg, std::string_view prefix);

}  // namespace headproof
