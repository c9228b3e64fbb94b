// The page's counterexamples are drawn as inline SVG: a cell's opacity is the size of its number,
// so that the page needs neither pictures nor scripts, and looks right on light and on dark paper.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "checker/conventions.h"
#include "checker/report.h"
#include "prose/math.h"

namespace headproof {

extern const std::string_view report_css;  // Embedded from src/checker/report.css.

namespace {

std::string element(std::string_view tag, std::string_view kind, std::string_view content) {
  std::string html = "<" + std::string(tag);
  if (!kind.empty()) html += " class=\"" + std::string(kind) + "\"";
  return html + ">" + std::string(content) + "</" + std::string(tag) + ">";
}

std::string text_of(double value, int digits) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  return text.data();
}

// ---- Drawings ----

/// A number that fits into a cell.
std::string cell_text(double value) {
  std::string text = text_of(value, 3);
  return text.size() <= 6 ? text : text_of(value, 1);
}

/// Which rows and columns are drawn: all of a small matrix, a window around what is wrong else.
struct Window {
  Index first, count;
};

Window window_of(Index size, Index middle) {
  constexpr Index most = 64;
  if (size <= most) return {0, size};
  return {std::clamp<Index>(middle - most / 2, 0, size - most), most};
}

enum class Colours { amount, sign };  // 0 to the largest; blue below 0, orange above

/// One matrix as cells.
class Drawing {
 public:
  /// `largest` is the number that gets full colour.
  Drawing(const NamedMatrix& matrix, double largest, Colours colours)
      : matrix_(matrix),
        largest_(largest),
        colours_(colours),
        middle_(matrix.wrong.value_or(std::array<Index, 2>{0, 0})),
        rows_(window_of(matrix.values.shape()[0], middle_[0])),
        columns_(window_of(matrix.values.shape()[1], middle_[1])),
        longest_(std::max(rows_.count, columns_.count)),
        numbers_(longest_ <= 8),
        side_(numbers_ ? 46 : std::max<Index>(4, 300 / longest_)) {}

  std::string figure() {
    for (Index i = rows_.first; i < rows_.first + rows_.count; ++i) {
      for (Index c = columns_.first; c < columns_.first + columns_.count; ++c) add_cell(i, c);
    }
    add_labels();
    if (matrix_.wrong) {
      texts_ += rect("wrong", x_of(middle_[1]) - 1, y_of(middle_[0]) - 1, side_ + 2) + "/>";
    }
    const std::string caption = escape_html(this->caption());
    const std::string wide = std::to_string(margin + columns_.count * side_ + 8),
                      high = std::to_string(margin + rows_.count * side_ + 3);
    return "<figure><figcaption>" + caption + "</figcaption><svg role=\"img\" width=\"" + wide +
           "\" height=\"" + high + "\" viewBox=\"0 0 " + wide + " " + high + "\" aria-label=\"" +
           caption + "\">" + cells_ + texts_ + "</svg></figure>\n";
  }

 private:
  static constexpr Index margin = 26;
  Index x_of(Index column) const { return margin + (column - columns_.first) * side_; }
  Index y_of(Index row) const { return margin + (row - rows_.first) * side_; }

  static std::string rect(std::string_view kind, Index x, Index y, Index side) {
    return "<rect class=\"" + std::string(kind) + "\" x=\"" + std::to_string(x) + "\" y=\"" +
           std::to_string(y) + "\" width=\"" + std::to_string(side) + "\" height=\"" +
           std::to_string(side) + "\"";
  }
  void write(std::string_view kind, Index x, Index y, const std::string& text) {
    texts_ += "<text class=\"" + std::string(kind) + "\" x=\"" + std::to_string(x) + "\" y=\"" +
              std::to_string(y) + "\">" + text + "</text>";
  }

  void add_cell(Index i, Index c) {
    const double value = matrix_.values(i, c);
    const bool finite = std::isfinite(value), by_sign = colours_ == Colours::sign;
    const std::string_view kind = !finite                ? "odd"
                                  : by_sign && value < 0 ? "below"
                                  : by_sign              ? "above"
                                                         : "amount";
    const double share = !finite        ? 1
                         : largest_ > 0 ? std::min(1.0, std::fabs(value) / largest_)
                                        : 0;
    cells_ += rect(kind, x_of(c), y_of(i), side_) + " fill-opacity=\"" + text_of(share, 3) +
              "\"><title>row " + std::to_string(i) + ", column " + std::to_string(c) + ": " +
              text_of(value, 9) + "</title></rect>";
    if (numbers_) {
      write(share > 0.55 ? "light" : "", x_of(c) + side_ / 2, y_of(i) + side_ / 2 + 4,
            cell_text(value));
    }
  }

  /// Every row and column is numbered when there is room, else the first, the last and the wrong.
  void add_labels() {
    const auto labelled = [&](Index at, const Window& window, Index wrong) {
      return numbers_ || at == window.first || at == window.first + window.count - 1 ||
             (matrix_.wrong && at == wrong);
    };
    for (Index i = rows_.first; i < rows_.first + rows_.count; ++i) {
      if (!labelled(i, rows_, middle_[0])) continue;
      write("label", margin / 2, y_of(i) + side_ / 2 + 4, std::to_string(i));
    }
    for (Index c = columns_.first; c < columns_.first + columns_.count; ++c) {
      if (!labelled(c, columns_, middle_[1])) continue;
      write("label", x_of(c) + side_ / 2, margin - 7, std::to_string(c));
    }
  }

  std::string caption() const {
    const auto [height, width] = matrix_.values.shape();
    if (rows_.count == height && columns_.count == width) return matrix_.name;
    return matrix_.name + ", rows " + std::to_string(rows_.first) + " to " +
           std::to_string(rows_.first + rows_.count - 1) + " of " + std::to_string(height);
  }

  const NamedMatrix& matrix_;
  const double largest_;
  const Colours colours_;
  const std::array<Index, 2> middle_;  ///< the wrong entry
  const Window rows_, columns_;
  const Index longest_;
  const bool numbers_;  ///< whether they fit into the cells
  const Index side_;
  std::string cells_, texts_;
};

std::string drawing(const NamedMatrix& matrix, double largest, Colours colours) {
  return Drawing(matrix, largest, colours).figure();
}

double largest_of(const Tensor<double, 2>& values) {
  double largest = 0;
  for (double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

/// As it should be, as it is, and the difference, the first two in one scale.
std::string comparison_html(const Comparison& comparison) {
  const Colours colours = comparison.result == Place::Result::A ? Colours::amount : Colours::sign;
  const double largest =
      std::max(largest_of(comparison.is.values), largest_of(comparison.should_be.values));
  NamedMatrix difference{std::string(name_of(comparison.result)) + ", the difference",
                         comparison.is.values, false, comparison.is.wrong};
  auto right = comparison.should_be.values.begin();
  for (double& value : difference.values) value -= *right++;
  // What is wrong gets full colour, so that rounding elsewhere stays pale.
  double full = largest;
  if (const auto& wrong = comparison.is.wrong) {
    const double fault = std::fabs(difference.values((*wrong)[0], (*wrong)[1]));
    if (std::isfinite(fault)) full = fault;
  }
  return element("div", "drawn",
                 drawing(comparison.should_be, largest, colours) +
                     drawing(comparison.is, largest, colours) +
                     drawing(difference, full, Colours::sign)) +
         "\n";
}

std::string counterexample_html(const Counterexample& example, const Report& report) {
  const CounterexampleView view = view_of(example, report.domain, report.conventions);
  std::string html = element("p", "size", escape_html(example_text(example, view) + ".")) + "\n";
  for (const Comparison& comparison : view.compared) html += comparison_html(comparison);
  const auto folded = [&](std::string_view summary, const std::vector<NamedMatrix>& matrices) {
    if (matrices.empty()) return;
    std::string drawn;
    for (const NamedMatrix& matrix : matrices) {
      drawn += drawing(matrix, largest_of(matrix.values), Colours::sign);
    }
    html += "<details>" + element("summary", "", summary) + element("div", "drawn", drawn) +
            "</details>\n";
  };
  folded("What went in", view.given);
  folded("Gradients that came out", view.also);
  return html;
}

// ---- The page ----

std::string_view kind_of(const TheoremReport& theorem) {
  if (fails(theorem)) return "bad";
  return theorem.outcome == Outcome::holds ? "good" : "neither";
}

std::string verdict_html(const TheoremReport& theorem) {
  return element("span", "verdict " + std::string(kind_of(theorem)),
                 std::string(mark(theorem)) + " " + escape_html(verdict_word(theorem)));
}

std::string subject_html(const Report& report) {
  std::string rows;
  const auto row = [&](std::string_view key, std::string_view value, std::string_view gloss) {
    rows += "<tr>" + element("th", "", escape_html(key)) + element("td", "", escape_html(value)) +
            element("td", "gloss", escape_html(gloss)) + "</tr>\n";
  };
  for (const ConventionFound& found : conventions_found(report.conventions)) {
    if (!found.value.empty()) row(found.key, found.value, found.gloss);
  }
  return element("p", "", escape_html("Accepts " + domain_text(report.domain) + ".")) +
         element("p", "",
                 escape_html("Offers " + features_text(report.domain.features, true) +
                             ". Does not offer " + features_text(report.domain.features, false) +
                             ".")) +
         "\n<div class=\"scroll\"><table>\n" + rows + "</table></div>\n";
}

std::string theorems_html(const Report& report) {
  std::string rows;
  for (const TheoremReport& theorem : report.theorems) {
    const bool told = theorem.outcome == Outcome::violated || fails(theorem);
    const std::string id = escape_html(theorem.id);
    rows +=
        "<tr>" + element("td", "id", told ? "<a href=\"#" + id + "\">" + id + "</a>" : id) +
        element("td", "", verdict_html(theorem)) +
        element("td", "number", escape_html(margin_text(theorem))) +
        element("td", "number", std::to_string(theorem.cases)) +
        element("td", "", told ? math_to_html(theorem.title) : escape_html(reason_text(theorem))) +
        "</tr>\n";
  }
  return "<div class=\"scroll\"><table "
         "class=\"theorems\">\n<tr><th>theorem</th><th>verdict</th><th "
         "class=\"number\">bound used</th><th class=\"number\">cases</th><th></th></tr>\n" +
         rows + "</table></div>\n";
}

std::string fault_html(const TheoremReport& theorem, const Report& report) {
  const std::string id = escape_html(theorem.id);
  std::string html = "<section id=\"" + id + "\"><h2>" + verdict_html(theorem) + " <code>" + id +
                     "</code> " + math_to_html(theorem.title) + "</h2>\n" +
                     element("p", "statement", math_to_html(theorem.statement)) + "\n";
  if (const std::string reason = reason_text(theorem); !reason.empty()) {
    html +=
        element("p", "note", escape_html((theorem.expected ? "Expected: " : "") + reason)) + "\n";
  }
  if (theorem.counterexample) {
    html += counterexample_html(*theorem.counterexample, report) +
            element("pre", "", escape_html(theorem.counterexample->replay)) + "\n";
  }
  return html + "</section>\n";
}

}  // namespace

std::string report_html(const Report& report) {
  const std::string title = escape_html("headproof check: " + report.subject);
  std::string html =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>" +
      title + "</title>\n<style>" + std::string(report_css) +
      "</style></head>\n<body><main>\n<h1>" + title + "</h1>\n" +
      element("p", "summary",
              escape_html(summary_text(report) + "; seed " + std::to_string(report.seed) + ", " +
                          text_of(report.seconds, 2) + " s")) +
      "\n" + theorems_html(report);
  for (const std::string& id : report.no_longer_violated) {
    html += element("p", "note", escape_html(no_longer_text(id))) + "\n";
  }
  for (const TheoremReport& theorem : report.theorems) {
    if (theorem.outcome == Outcome::violated || fails(theorem)) html += fault_html(theorem, report);
  }
  return html + "<section><h2>What was found out</h2>\n" + subject_html(report) +
         "</section>\n</main></body></html>\n";
}

}  // namespace headproof
