#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "checker/conventions.h"
#include "checker/counterexample.h"
#include "checker/report.h"
#include "prose/lines.h"
#include "prose/math.h"

namespace headproof {
namespace {

// ---- What was found out ----

constexpr std::size_t width = 88;

/// A name with a text that may take several lines beside it.
std::string labelled(std::string_view label, std::string_view text, const Paint& paint) {
  constexpr std::size_t column = 14;
  const std::string lines = wrapped(text, std::string(column, ' '), width);
  return "  " + paint.faint(padded(label, column - 2)) + lines.substr(column);
}

std::string conventions_text(const Conventions& conventions, const Paint& paint) {
  std::vector<ConventionFound> found;
  std::string unknown;
  std::size_t keys = 0, values = 0;
  for (ConventionFound& convention : conventions_found(conventions)) {
    if (convention.value.empty()) {
      unknown += (unknown.empty() ? "" : ", ") + convention.key;
      continue;
    }
    keys = std::max(keys, shown_width(convention.key));
    values = std::max(values, shown_width(convention.value));
    found.push_back(std::move(convention));
  }
  std::string text;
  for (const ConventionFound& convention : found) {
    text += "  " + padded(convention.key, keys) + "  " +
            paint.bold(padded(convention.value, values)) + "  " + paint.faint(convention.gloss) +
            "\n";
  }
  if (!unknown.empty()) text += labelled("not found out", " " + unknown, paint);
  return text;
}

std::string subject_text(const Report& report, const Paint& paint) {
  return paint.bold(on_one_line(report.subject)) + "\n" +
         labelled("accepts", domain_text(report.domain), paint) +
         labelled("offers", features_text(report.domain.features, true), paint) +
         labelled("does not offer", features_text(report.domain.features, false), paint);
}

// ---- The list of theorems ----

std::string mark(const TheoremReport& theorem) {
  if (theorem.outcome == Outcome::holds) return "✓";
  if (fails(theorem)) return theorem.outcome == Outcome::violated ? "✗" : "!";
  return theorem.outcome == Outcome::violated ? "~" : "-";
}

std::string painted(const TheoremReport& theorem, const std::string& text, const Paint& paint) {
  if (fails(theorem)) return paint.bad(text);
  return theorem.outcome == Outcome::holds ? paint.good(text) : paint.faint(text);
}

std::string list_text(const Report& report, const Paint& paint) {
  std::size_t ids = 0, words = 0, margins = 0, cases = 0;
  for (const TheoremReport& theorem : report.theorems) {
    ids = std::max(ids, shown_width(theorem.id));
    words = std::max(words, shown_width(verdict_word(theorem)));
    margins = std::max(margins, shown_width(margin_text(theorem)));
    cases = std::max(cases, std::to_string(theorem.cases).size());
  }
  std::string text;
  for (const TheoremReport& theorem : report.theorems) {
    const std::string verdict =
        mark(theorem) + " " + padded(theorem.id, ids) + "  " + padded(verdict_word(theorem), words);
    text += "  " + painted(theorem, verdict, paint);
    const bool judged = theorem.outcome == Outcome::holds || theorem.outcome == Outcome::violated;
    if (judged) {
      text += "  " + right_aligned(margin_text(theorem), margins) + "  " +
              right_aligned(std::to_string(theorem.cases), cases) +
              (theorem.cases == 1 ? " case " : " cases");
      if (theorem.outcome == Outcome::violated) text += "  " + math_to_text(theorem.title);
      if (theorem.expected && !theorem.why.empty()) text += " (" + reason_text(theorem) + ")";
    } else {
      text += "  " + reason_text(theorem);
    }
    text += "\n";
  }
  return text;
}

// ---- Matrices ----

/// The shortest text that gives the number back, as the dtype of the inputs has it.
std::string shortest(double value) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(value)).ptr;
  return {text.data(), end};
}

std::string with_digits(double value, int digits) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  return text.data();
}

/// As many digits as tell the wrong entry from the right one.
int digits_for(const Comparison& comparison) {
  int digits = 4;
  if (!comparison.is.wrong) return digits;
  const auto [i, c] = *comparison.is.wrong;
  const double is = comparison.is.values(i, c), should_be = comparison.should_be.values(i, c);
  while (digits < 17 && with_digits(is, digits) == with_digits(should_be, digits)) ++digits;
  return digits;
}

constexpr Index gap = -1;

/// Which of n rows or columns are shown: all, or the first, those around `middle`, and the last,
/// with gaps between.
std::vector<Index> shown_of(Index n, Index middle) {
  constexpr Index all = 8;
  std::vector<Index> shown;
  for (Index i = 0; i < n; ++i) {
    const bool near = std::abs(i - middle) <= 1;
    if (n <= all || i < 2 || i == n - 1 || near) {
      shown.push_back(i);
    } else if (shown.back() != gap) {
      shown.push_back(gap);
    }
  }
  return shown;
}

/// Lines of equal width; the row's number first, the wrong entry in brackets.
struct Block {
  std::vector<std::string> lines;
  std::size_t columns = 0;  ///< the width
};

Block block_of(const NamedMatrix& matrix, int digits, std::array<Index, 2> middle,
               const Paint& paint) {
  const std::vector<Index> rows = shown_of(matrix.values.shape()[0], middle[0]),
                           columns = shown_of(matrix.values.shape()[1], middle[1]);
  const auto is_wrong = [&](Index i, Index c) {
    return matrix.wrong && (*matrix.wrong)[0] == i && (*matrix.wrong)[1] == c;
  };
  const auto cell = [&](Index i, Index c) -> std::string {
    if (i == gap || c == gap) return "…";
    const double value = matrix.values(i, c);
    const std::string text = matrix.given ? shortest(value) : with_digits(value, digits);
    return is_wrong(i, c) ? "[" + text + "]" : text + " ";
  };
  std::size_t number_width = 1;
  for (Index i : rows) number_width = std::max(number_width, std::to_string(i).size());
  std::vector<std::size_t> widths;
  Block block;
  block.columns = number_width;
  for (Index c : columns) {
    std::size_t widest = 1;
    for (Index i : rows) widest = std::max(widest, shown_width(cell(i, c)));
    widths.push_back(widest);
    block.columns += 1 + widest;
  }
  std::string title = matrix.name;
  if (rows.size() != static_cast<std::size_t>(matrix.values.shape()[0]) ||
      columns.size() != static_cast<std::size_t>(matrix.values.shape()[1])) {
    title += " [" + std::to_string(matrix.values.shape()[0]) + ", " +
             std::to_string(matrix.values.shape()[1]) + "]";
  }
  block.columns = std::max(block.columns, number_width + 1 + shown_width(title));
  block.lines.push_back(
      paint.bold(padded(std::string(number_width + 1, ' ') + title, block.columns)));
  for (Index i : rows) {
    std::string plain = right_aligned(i == gap ? "…" : std::to_string(i), number_width);
    std::string line = paint.faint(plain);
    std::size_t used = number_width;
    for (std::size_t at = 0; at < columns.size(); ++at) {
      const Index c = columns[at];
      std::string text = right_aligned(cell(i, c), widths[at]);
      line += " " + (i != gap && c != gap && is_wrong(i, c) ? paint.bad(text) : text);
      used += 1 + widths[at];
    }
    block.lines.push_back(line + std::string(block.columns - used, ' '));
  }
  return block;
}

/// The blocks beside each other as far as a line holds them.
std::string side_by_side(const std::vector<Block>& blocks) {
  std::string text;
  for (std::size_t first = 0; first < blocks.size();) {
    std::size_t end = first, used = 2, lines = 0;
    while (end < blocks.size() && (end == first || used + 3 + blocks[end].columns <= width + 8)) {
      used += 3 + blocks[end].columns;
      lines = std::max(lines, blocks[end].lines.size());
      ++end;
    }
    for (std::size_t at = 0; at < lines; ++at) {
      std::string line = "  ";
      for (std::size_t b = first; b < end; ++b) {
        line += (b == first ? "" : "   ");
        line +=
            at < blocks[b].lines.size() ? blocks[b].lines[at] : std::string(blocks[b].columns, ' ');
      }
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    first = end;
  }
  return text;
}

std::string numbers_text(const CounterexampleView& view, const Paint& paint) {
  // Around which query and key larger matrices are shown.
  Index query = 0, key = 0;
  if (view.A) {
    query = (*view.A->is.wrong)[0];
    key = (*view.A->is.wrong)[1];
  } else if (view.out && view.out->is.wrong) {
    query = key = (*view.out->is.wrong)[0];
  }
  std::vector<Block> given, found;
  for (const NamedMatrix& matrix : view.given) {
    const bool of_keys = matrix.name == "k" || matrix.name == "v";
    const bool of_pairs = matrix.name == "mask" || matrix.name == "bias";
    given.push_back(block_of(matrix, 0, {of_keys ? key : query, of_pairs ? key : Index{0}}, paint));
  }
  const auto compare = [&](const Comparison& comparison) {
    const auto middle = comparison.is.wrong.value_or(std::array<Index, 2>{query, 0});
    const int digits = digits_for(comparison);
    found.push_back(block_of(comparison.is, digits, middle, paint));
    found.push_back(block_of(comparison.should_be, digits, middle, paint));
  };
  if (view.A) compare(*view.A);
  if (view.out) compare(*view.out);
  for (const NamedMatrix& matrix : view.also_given) {
    found.push_back(block_of(matrix, 4, {query, 0}, paint));
  }
  return side_by_side(given) + (found.empty() ? "" : "\n" + side_by_side(found));
}

// ---- What is wrong ----

std::string fault_text(const TheoremReport& theorem, const Report& report, const Paint& paint) {
  std::string text = "\n" + painted(theorem, mark(theorem) + " " + theorem.id, paint) + "  " +
                     paint.bold(math_to_text(theorem.title)) + "\n";
  if (!theorem.statement.empty()) {
    text += wrapped(math_to_text(theorem.statement), "  ", width);
  }
  if (!theorem.counterexample) {
    return text + wrapped(reason_text(theorem), "  ", width);
  }
  const Counterexample& example = *theorem.counterexample;
  const CounterexampleView view = view_of(example, report.domain, report.conventions);
  std::string size = problem_text(example.problem) + " (regime " + example.regime + ")";
  if (example.problem.batch() > 1 || example.problem.num_heads() > 1) {
    size += "; shown: batch " + std::to_string(view.batch) + ", head " + std::to_string(view.head);
  }
  text += "\n" + wrapped("the smallest counterexample found: " + size, "  ", width);
  text += numbers_text(view, paint);
  text += "\n" + wrapped(reason_text(theorem), "  ", width);
  return text + "  " + paint.faint("replay:") + " " + on_one_line(example.replay) + "\n";
}

/// Bits that may differ take two lines.
std::string difference_text(const TheoremReport& theorem, const Paint& paint) {
  std::string text =
      "\n" + painted(theorem, mark(theorem) + " " + theorem.id, paint) + "  " +
      math_to_text(theorem.title) + "\n" +
      wrapped(theorem.expected ? "expected: " + reason_text(theorem) : reason_text(theorem), "  ",
              width);
  if (theorem.counterexample) {
    text +=
        "  " + paint.faint("replay:") + " " + on_one_line(theorem.counterexample->replay) + "\n";
  }
  return text;
}

}  // namespace

std::string report_text(const Report& report, bool colour, bool identify_only) {
  const Paint paint(colour);
  std::string text =
      subject_text(report, paint) + "\n" + conventions_text(report.conventions, paint);
  if (!report.theorems.empty()) text += "\n" + list_text(report, paint);
  for (const TheoremReport& theorem : report.theorems) {
    if (fails(theorem)) {
      text += fault_text(theorem, report, paint);
    } else if (theorem.outcome == Outcome::violated) {
      text += difference_text(theorem, paint);
    }
  }
  for (const std::string& id : report.no_longer_violated) {
    text += "\n" + id + " is listed as violated and holds; take it off the list\n";
  }
  if (identify_only) return text;
  return text + "\n" + summary_text(report) + "; seed " + std::to_string(report.seed) + ", " +
         with_digits(report.seconds, 2) + " s\n";
}

std::string Report::text() const { return report_text(*this, false); }

}  // namespace headproof
