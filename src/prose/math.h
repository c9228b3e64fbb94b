// A small part of TeX, enough for the theorems: one source for terminal and page.
#pragma once

#include <string>
#include <string_view>

namespace headproof {

/// Prose with formulas between $ signs (or $$ for a displayed one), `code` and *emphasis*, as plain
/// text in Unicode: `$\sum_j A_{ij} = 1$` becomes "Σ_j A_ij = 1". A backslash takes away the
/// meaning of the $, *, ` or backslash behind it. A formula that is malformed, or uses what is not
/// known here, appears as it was typed, dollar signs included; so does a mark without its partner.
std::string math_to_text(std::string_view prose);

/// The same as HTML: prose escaped, each formula a MathML element that needs no script or font. A
/// formula and the closing punctuation behind it are a span of class "joined", for a style sheet to
/// keep on one line.
std::string math_to_html(std::string_view prose);

/// What must not begin a line.
inline constexpr std::string_view closing_punctuation = ".,;:!?)";

/// Text as prose that means just these characters: with a backslash before each mark.
std::string literal_prose(std::string_view text);

/// Text for an HTML element or a quoted attribute.
std::string escape_html(std::string_view text);

}  // namespace headproof
