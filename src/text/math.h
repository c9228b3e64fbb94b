// A small part of TeX, enough for the theorems: one source for terminal and page.
#pragma once

#include <string>
#include <string_view>

namespace headproof {

/// Prose with formulas between $ signs, as plain text in Unicode: `$\sum_j A_{ij} = 1$` becomes
/// "Σ_j A_ij = 1".
std::string math_to_text(std::string_view prose);

/// The same as HTML: prose escaped, each formula a MathML element that needs no script or font.
std::string math_to_html(std::string_view prose);

}  // namespace headproof
