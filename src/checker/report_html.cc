// The page's counterexamples are drawn as inline SVG: a cell's opacity is the size of its number,
// so that the page needs neither pictures nor scripts, and looks right on light and on dark paper.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "checker/conventions.h"
#include "checker/counterexample.h"
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

/// One matrix as cells. `largest` is the number that gets full colour.
std::string drawing(const NamedMatrix& matrix, double largest, Colours colours) {
  const auto [height, width] = matrix.values.shape();
  const auto middle = matrix.wrong.value_or(std::array<Index, 2>{0, 0});
  const Window rows = window_of(height, middle[0]), columns = window_of(width, middle[1]);
  const Index longest = std::max<Index>({rows.count, columns.count, 1});
  const bool numbers = longest <= 8;
  const Index side = numbers ? 46 : std::max<Index>(4, 300 / longest);
  constexpr Index margin = 26;
  std::string cells, texts;
  const auto at = [&](Index place, const Window& window) {
    return margin + (place - window.first) * side;
  };
  for (Index i = rows.first; i < rows.first + rows.count; ++i) {
    for (Index c = columns.first; c < columns.first + columns.count; ++c) {
      const double value = matrix.values(i, c);
      const bool finite = std::isfinite(value);
      const std::string_view kind = !finite                                 ? "odd"
                                    : colours == Colours::sign && value < 0 ? "below"
                                    : colours == Colours::sign              ? "above"
                                                                            : "amount";
      const double share = !finite       ? 1
                           : largest > 0 ? std::min(1.0, std::fabs(value) / largest)
                                         : 0;
      const std::string place =
          "x=\"" + std::to_string(at(c, columns)) + "\" y=\"" + std::to_string(at(i, rows)) + "\"";
      cells += "<rect class=\"" + std::string(kind) + "\" " + place + " width=\"" +
               std::to_string(side) + "\" height=\"" + std::to_string(side) + "\" fill-opacity=\"" +
               text_of(share, 3) + "\"><title>row " + std::to_string(i) + ", column " +
               std::to_string(c) + ": " + text_of(value, 9) + "</title></rect>";
      if (numbers) {
        texts += "<text class=\"" + std::string(share > 0.55 ? "light" : "") + "\" x=\"" +
                 std::to_string(at(c, columns) + side / 2) + "\" y=\"" +
                 std::to_string(at(i, rows) + side / 2 + 4) + "\">" + cell_text(value) + "</text>";
      }
    }
  }
  const auto label = [&](Index x, Index y, Index number) {
    texts += "<text class=\"label\" x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) +
             "\">" + std::to_string(number) + "</text>";
  };
  // Every row and column is numbered when there is room, else the first, the last and the wrong.
  const auto labelled = [&](Index place, const Window& window, Index wrong) {
    return numbers || place == window.first || place == window.first + window.count - 1 ||
           (matrix.wrong && place == wrong);
  };
  for (Index i = rows.first; i < rows.first + rows.count; ++i) {
    if (labelled(i, rows, middle[0])) label(margin / 2, at(i, rows) + side / 2 + 4, i);
  }
  for (Index c = columns.first; c < columns.first + columns.count; ++c) {
    if (labelled(c, columns, middle[1])) label(at(c, columns) + side / 2, margin - 7, c);
  }
  if (matrix.wrong) {
    texts += "<rect class=\"wrong\" x=\"" + std::to_string(at(middle[1], columns) - 1) + "\" y=\"" +
             std::to_string(at(middle[0], rows) - 1) + "\" width=\"" + std::to_string(side + 2) +
             "\" height=\"" + std::to_string(side + 2) + "\"/>";
  }
  const std::string wide = std::to_string(margin + columns.count * side + 8),
                    high = std::to_string(margin + rows.count * side + 3);
  std::string caption = matrix.name;
  if (rows.count < height || columns.count < width) {
    caption += ", rows " + std::to_string(rows.first) + " to " +
               std::to_string(rows.first + rows.count - 1) + " of " + std::to_string(height);
  }
  return "<figure><figcaption>" + escape_html(caption) + "</figcaption><svg role=\"img\" width=\"" +
         wide + "\" height=\"" + high + "\" viewBox=\"0 0 " + wide + " " + high +
         "\" aria-label=\"" + escape_html(caption) + "\">" + cells + texts + "</svg></figure>\n";
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
  std::string size = "The smallest counterexample found: " + problem_text(example.problem) +
                     " (regime " + example.regime + ")";
  if (example.problem.batch() > 1 || example.problem.num_heads() > 1) {
    size += "; batch " + std::to_string(view.batch) + ", head " + std::to_string(view.head);
  }
  std::string html = element("p", "size", escape_html(size + ".")) + "\n";
  for (const Comparison& comparison : view.compared) html += comparison_html(comparison);
  std::string given;
  for (const NamedMatrix& matrix : view.given) {
    given += drawing(matrix, largest_of(matrix.values), Colours::sign);
  }
  html +=
      "<details><summary>What went in</summary>" + element("div", "drawn", given) + "</details>\n";
  if (!view.also.empty()) {
    std::string gradients;
    for (const NamedMatrix& matrix : view.also) {
      gradients += drawing(matrix, largest_of(matrix.values), Colours::sign);
    }
    html += "<details><summary>Gradients that came out</summary>" +
            element("div", "drawn", gradients) + "</details>\n";
  }
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
    html += element("p", "note",
                    escape_html(id + " is listed as violated and holds; take it off the list.")) +
            "\n";
  }
  for (const TheoremReport& theorem : report.theorems) {
    if (theorem.outcome == Outcome::violated || fails(theorem)) html += fault_html(theorem, report);
  }
  return html + "<section><h2>What was found out</h2>\n" + subject_html(report) +
         "</section>\n</main></body></html>\n";
}

}  // namespace headproof
