#include "prose/math.h"

#include <algorithm>
#include <initializer_list>

#include "prose/formula.h"

namespace headproof {
namespace {

// ---- As text ----

bool is_long_word(const Node& node) {
  return node.form == Form::word && node.text.size() > character_bytes(node.text);
}

bool is_wordlike(const Node& node) {
  return node.form == Form::letter || node.form == Form::number || node.form == Form::word ||
         node.form == Form::root || node.form == Form::accent;
}

/// Whether text needs a space between two neighbours, to keep them apart or as TeX would set one.
bool needs_gap(const Node& left, const Node& right) {
  const auto has_role = [](const Node& node, std::initializer_list<Role> roles) {
    return std::find(roles.begin(), roles.end(), node.role) != roles.end();
  };
  const bool opens = right.role == Role::open || right.form == Form::fenced;
  if (has_role(left, {Role::space, Role::open, Role::sign})) return false;
  if (has_role(right, {Role::space, Role::close, Role::punctuation})) return false;
  if (left.form == Form::text || right.form == Form::text) return false;
  if (has_role(left, {Role::binary, Role::relation, Role::punctuation})) return true;
  if (has_role(right, {Role::binary, Role::relation})) return true;
  if (has_role(left, {Role::function, Role::large})) return !opens;
  if (has_role(right, {Role::function, Role::large})) return true;
  if (left.form == Form::fraction || right.form == Form::fraction) return true;
  if (left.has_scripts() && is_wordlike(right)) return true;
  return (is_long_word(left) && is_wordlike(right)) || (is_long_word(right) && is_wordlike(left));
}

std::string text_of(const Row& row, bool spaced);

/// Whether the row can stand beside a fraction's line or under a root without parentheses.
bool is_single(const Row& row) {
  return row.size() == 1 && row[0].form != Form::fraction &&
         (row[0].form != Form::group || is_single(row[0].children));
}

/// Whether an operator or a relation stands in the row outside all parentheses.
bool is_sum(const Row& row) {
  int depth = 0;
  for (const Node& node : row) {
    if (node.role == Role::open) ++depth;
    if (node.role == Role::close) --depth;
    if (depth == 0 && (node.role == Role::binary || node.role == Role::relation)) return true;
  }
  return false;
}

std::string parenthesised_unless(bool simple, const std::string& text) {
  return simple ? text : "(" + text + ")";
}

/// `text` in the small characters of `pairs`; empty where one is missing.
std::string in_small(std::string_view text, std::string_view pairs) {
  std::string result;
  while (!text.empty()) {
    const std::string_view character = text.substr(0, character_bytes(text));
    std::string_view small;
    for (std::string_view rest = pairs; small.empty() && !rest.empty();) {
      const std::string_view plain = take_word(rest), candidate = take_word(rest);
      if (plain == character) small = candidate;
    }
    if (small.empty()) return "";
    result += small;
    text.remove_prefix(character.size());
  }
  return result;
}

/// A script behind its mark, _ or ^, in parentheses unless it reads as one word.
std::string marked_script(char mark, const Row& script) {
  const bool one_word = std::all_of(script.begin(), script.end(), [](const Node& node) {
    return !node.has_scripts() && (node.form == Form::letter || node.form == Form::number);
  });
  const bool one_node = script.size() == 1 && !script[0].has_scripts() && is_single(script);
  const bool enclosed = script.front().role == Role::open && script.back().role == Role::close;
  return mark + parenthesised_unless(one_word || one_node || enclosed, text_of(script, false));
}

std::string scripts_of(const Node& node) {
  const std::string sub = text_of(node.sub, false), sup = text_of(node.sup, false);
  const std::string small_sub = in_small(sub, "0 ₀ 1 ₁ 2 ₂ 3 ₃ 4 ₄ 5 ₅ 6 ₆ 7 ₇ 8 ₈ 9 ₉");
  const std::string small_mark = in_small(sup, "⊤ ᵀ ′ ′");
  const std::string small_power = in_small(sup, "0 ⁰ 1 ¹ 2 ² 3 ³ 4 ⁴ 5 ⁵ 6 ⁶ 7 ⁷ 8 ⁸ 9 ⁹ − ⁻ + ⁺");
  const bool sub_is_marked = !sub.empty() && small_sub.empty();
  std::string text;
  if (!sub.empty()) text += sub_is_marked ? marked_script('_', node.sub) : small_sub;
  if (sup.empty()) return text;
  if (!small_mark.empty()) return text + small_mark;
  // Behind a marked subscript a small power would seem to belong to the subscript.
  if (!small_power.empty() && !sub_is_marked) return text + small_power;
  return text + marked_script('^', node.sup);
}

std::string text_of(const Node& node, bool spaced) {
  switch (node.form) {
    case Form::space:
      return spaced ? " " : "";
    case Form::group:
    case Form::fenced:
      return text_of(node.children, spaced);
    case Form::fraction: {
      const Row &over = node.children[0].children, &under = node.children[1].children;
      return parenthesised_unless(!is_sum(over), text_of(over, spaced)) + "/" +
             parenthesised_unless(is_single(under), text_of(under, spaced));
    }
    case Form::root:
      return "√" + parenthesised_unless(is_single(node.children), text_of(node.children, spaced));
    case Form::accent:
      return text_of(node.children, spaced) + node.text;
    default:
      // Terminal fonts draw the Greek capitals at a readable size.
      return node.text == "∑" ? "Σ" : node.text == "∏" ? "Π" : node.text;
  }
}

std::string text_of(const Row& row, bool spaced) {
  std::string text;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (spaced && i > 0 && needs_gap(row[i - 1], row[i])) text += ' ';
    const bool in_parentheses = row[i].form == Form::fraction && row[i].has_scripts();
    text += parenthesised_unless(!in_parentheses, text_of(row[i], spaced)) + scripts_of(row[i]);
  }
  return text;
}

// ---- As MathML ----

std::string mathml_of(const Row& row);

std::string element(std::string_view name, const std::string& content,
                    std::string_view attributes = "") {
  std::string html = "<";
  html += name;
  html += attributes;
  return html.append(">").append(content).append("</").append(name).append(">");
}

/// The row as one element, as an argument has to be.
std::string grouped(const Row& row) {
  return row.size() == 1 ? mathml_of(row) : element("mrow", mathml_of(row));
}

std::string mark_of(const Node& node, std::string_view attributes) {
  return element("mo", escape_html(node.text), attributes);
}

std::string unscripted(const Node& node) {
  switch (node.form) {
    case Form::letter:
      return element("mi", escape_html(node.text));
    case Form::number:
      return element("mn", node.text);
    case Form::word:
      if (node.role == Role::large) {
        return mark_of(node, " movablelimits=\"true\" lspace=\"0\" rspace=\"0\"");
      }
      return element("mi", escape_html(node.text), " mathvariant=\"normal\"");
    case Form::text: {
      // Blanks at the ends of an <mtext> would be dropped.
      std::string kept;
      for (const char c : node.text) kept += c == ' ' ? "\u00A0" : std::string(1, c);
      return element("mtext", escape_html(kept));
    }
    case Form::space:
      return "<mspace width=\"" + node.text + "\"></mspace>";
    case Form::group:
      return element("mrow", mathml_of(node.children));
    case Form::fenced: {
      const Row inside(node.children.begin() + 1, node.children.end() - 1);
      const auto fence = [](const Node& mark) {
        return mark.text == "." ? "" : mark_of(mark, " fence=\"true\"");
      };
      return element("mrow", fence(node.children.front()) + element("mrow", mathml_of(inside)) +
                                 fence(node.children.back()));
    }
    case Form::fraction:
      return element("mfrac", unscripted(node.children[0]) + unscripted(node.children[1]));
    case Form::root:
      return element("msqrt", mathml_of(node.children));
    case Form::accent: {
      const char* above = node.text == "\u0302" ? "^" : node.text == "\u0304" ? "¯" : "~";
      return element("mover", grouped(node.children) + element("mo", above), " accent=\"true\"");
    }
    case Form::mark:
      break;
  }
  switch (node.role) {
    case Role::large:
      return mark_of(node, " movablelimits=\"true\"");
    case Role::sign:
      return mark_of(node, " form=\"prefix\"");
    case Role::open:
      return mark_of(node, " form=\"prefix\" stretchy=\"false\"");
    case Role::close:
      return mark_of(node, " form=\"postfix\" stretchy=\"false\"");
    case Role::ordinary:
      return mark_of(node, " stretchy=\"false\" lspace=\"0\" rspace=\"0\"");
    default:
      return mark_of(node, "");
  }
}

std::string mathml_of(const Node& node) {
  const bool limits = node.role == Role::large;
  const std::string base = unscripted(node);
  if (node.sub.empty() && node.sup.empty()) return base;
  if (node.sup.empty()) return element(limits ? "munder" : "msub", base + grouped(node.sub));
  if (node.sub.empty()) return element(limits ? "mover" : "msup", base + grouped(node.sup));
  return element(limits ? "munderover" : "msubsup", base + grouped(node.sub) + grouped(node.sup));
}

std::string mathml_of(const Row& row) {
  // An <mi> has no space of its own; a function's name needs some on both sides.
  const auto is_named = [](const Node& node) {
    return node.form == Form::word && (node.role == Role::function || node.role == Role::large);
  };
  const auto is_operator = [](const Node& node) {
    return node.form == Form::mark && (node.role == Role::binary || node.role == Role::relation ||
                                       node.role == Role::punctuation);
  };
  std::string html;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i > 0 && (is_named(row[i - 1]) || is_named(row[i])) && !is_operator(row[i - 1]) &&
        !is_operator(row[i]) && needs_gap(row[i - 1], row[i])) {
      html += "<mspace width=\"0.17em\"></mspace>";
    }
    html += mathml_of(row[i]);
  }
  return html;
}

// ---- Prose ----

std::string formula(std::string_view tex, bool displayed, bool html) {
  const Row row = parse_formula(tex);
  if (row.empty()) {
    const std::string_view mark = displayed ? "$$" : "$";
    const std::string typed = std::string(mark).append(tex).append(mark);
    return html ? escape_html(typed) : typed;
  }
  if (!html) return text_of(row, true);
  return element("math", mathml_of(row), displayed ? " display=\"block\"" : "");
}

/// Where the mark that opens at `open` closes; npos where it does not.
std::size_t partner(std::string_view prose, std::size_t open, std::string_view mark) {
  const std::size_t start = open + mark.size();
  const std::size_t end = prose.find(mark, start);
  return end == start ? std::string_view::npos : end;
}

/// Where the emphasis that opens at `open` closes, formulas and code inside it skipped.
std::size_t end_of_emphasis(std::string_view prose, std::size_t open) {
  const char before = open > 0 ? prose[open - 1] : ' ';
  const bool inside_word = (before >= 'a' && before <= 'z') || (before >= 'A' && before <= 'Z');
  if (inside_word || open + 1 >= prose.size() || prose[open + 1] == ' ') {
    return std::string_view::npos;
  }
  for (std::size_t at = open + 1; at < prose.size(); ++at) {
    if (prose[at] == '*' && at > open + 1 && prose[at - 1] != ' ') return at;
    if (prose[at] == '$' || prose[at] == '`') {
      const std::size_t end = prose.find(prose[at], at + 1);
      if (end != std::string_view::npos) at = end;
    }
  }
  return std::string_view::npos;
}

// What means something in prose.
constexpr std::string_view marks = "$*`\\";

std::string convert(std::string_view prose, bool html) {
  std::string result;
  const auto literal = [&](std::string_view text) {
    html ? result += escape_html(text) : result += text;
  };
  for (std::size_t at = 0; at < prose.size();) {
    const std::string_view rest = prose.substr(at);
    if (rest.front() == '\\' && rest.size() > 1 && marks.find(rest[1]) != std::string_view::npos) {
      literal(rest.substr(1, 1));
      at += 2;
      continue;
    }
    const std::string_view mark = rest.starts_with("$$") ? rest.substr(0, 2) : rest.substr(0, 1);
    std::size_t end = std::string_view::npos;
    if (mark.front() == '$' || mark == "`") end = partner(prose, at, mark);
    if (mark == "*") end = end_of_emphasis(prose, at);
    if (end == std::string_view::npos) {
      const std::size_t plain = std::max<std::size_t>(rest.find_first_of(marks), mark.size());
      literal(rest.substr(0, std::min(plain, rest.size())));
      at += std::min(plain, rest.size());
      continue;
    }
    const std::string_view inside = prose.substr(at + mark.size(), end - at - mark.size());
    at = end + mark.size();
    if (mark.front() == '$') {
      const std::string shown = formula(inside, mark.size() == 2, html);
      const std::size_t behind = prose.find_first_not_of(closing_punctuation, at);
      const std::string_view closing = prose.substr(at, behind - at);
      at += closing.size();
      if (html && mark == "$" && !closing.empty()) {
        result += element("span", shown + std::string(closing), " class=\"joined\"");
      } else {
        result.append(shown).append(closing);
      }
    } else if (mark == "*") {
      const std::string emphasised = convert(inside, html);
      result += html ? element("em", emphasised) : emphasised;
    } else {
      result += html ? element("code", escape_html(inside)) : std::string(inside);
    }
  }
  return result;
}

}  // namespace

std::string math_to_text(std::string_view prose) { return convert(prose, false); }

std::string math_to_html(std::string_view prose) { return convert(prose, true); }

std::string literal_prose(std::string_view text) {
  std::string prose;
  for (const char c : text) {
    if (marks.find(c) != std::string_view::npos) prose += '\\';
    prose += c;
  }
  return prose;
}

std::string escape_html(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace headproof
