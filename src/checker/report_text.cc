#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "checker/conventions.h"
#include "checker/report.h"
#include "prose/lines.h"
#include "prose/math.h"

namespace headproof {
namespace {

// ---- What was found out ----

constexpr std::size_t width = 88;

constexpr std::size_t label_column = 18;

/// A name with a text that may take several lines beside it.
std::string labelled(std::string_view label, std::string_view text, const Paint& paint) {
  const std::string lines = wrapped(text, std::string(label_column, ' '), width);
  return "  " + paint.faint(padded(label, label_column - 2)) + lines.substr(label_column);
}

std::string conventions_text(const Conventions& conventions, bool with_bitwise,
                             const Paint& paint) {
  std::vector<ConventionFound> found;
  std::string unknown;
  std::size_t keys = label_column - 4, values = 0;
  for (ConventionFound& convention : conventions_found(conventions)) {
    if (convention.bitwise && !with_bitwise) continue;
    if (convention.value.empty()) {
      if (!convention.bitwise) unknown += (unknown.empty() ? "" : ", ") + convention.key;
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
  if (!unknown.empty()) text += labelled("not found out", unknown, paint);
  return text;
}

std::string declined_text(const std::vector<Declined>& all, const Paint& paint) {
  std::string text;
  for (const auto& [what, refusal] : all) {
    const std::string_view label = text.empty() ? "fails at" : "";
    text += labelled(label, what + ": " + on_one_line(refusal.why), paint);
  }
  return text;
}

// ---- The list of theorems ----

std::string painted(const TheoremReport& theorem, const std::string& text, const Paint& paint) {
  if (fails(theorem)) return paint.bad(text);
  return theorem.outcome == Outcome::holds ? paint.good(text) : paint.faint(text);
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
  if (std::isnan(value)) return "nan";  // of either sign
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  return text.data();
}

std::string seconds_text(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), seconds < 10 ? "%.2f" : "%.0f", seconds);
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
    if (n <= all || i == 0 || i == n - 1 || near) {
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

class BlockMaker {
 public:
  BlockMaker(const NamedMatrix& matrix, int digits, std::array<Index, 2> middle, const Paint& paint)
      : matrix_(matrix),
        digits_(digits),
        paint_(paint),
        rows_(shown_of(matrix.values.shape()[0], middle[0])),
        columns_(shown_of(matrix.values.shape()[1], middle[1])) {}

  Block block() {
    const auto [rows, columns] = matrix_.values.shape();
    const bool all_columns = columns_.size() == static_cast<std::size_t>(columns);
    const bool whole = all_columns && rows_.size() == static_cast<std::size_t>(rows);
    std::string title = matrix_.name;
    if (!whole || rows * columns == 0) {
      title += " [" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
    }
    if (rows * columns > 4 && all_equal()) {
      add(paint_.bold(title), shown_width(title));
      const std::string value = "all " + text_of(matrix_.values(0, 0));
      add(value, shown_width(value));
      return finished();
    }
    for (Index i : rows_) label_ = std::max(label_, shown_width(label(i)));
    for (Index c : columns_) {
      std::size_t widest = all_columns ? 1 : shown_width(label(c));
      for (Index i : rows_) widest = std::max(widest, shown_width(cell(i, c)));
      widths_.push_back(widest);
    }
    const std::string margin(label_ + 2, ' ');
    add(margin + " " + paint_.bold(title), margin.size() + 1 + shown_width(title));
    if (!all_columns) add_line("", [&](Index c) { return paint_.faint(aligned(label(c), c)); });
    for (Index i : rows_) {
      add_line(label(i), [&](Index c) {
        return is_wrong(i, c) ? paint_.bad(aligned(cell(i, c), c)) : aligned(cell(i, c), c);
      });
    }
    return finished();
  }

 private:
  bool all_equal() const {
    const double first = *matrix_.values.begin();
    return !matrix_.wrong && std::all_of(matrix_.values.begin(), matrix_.values.end(),
                                         [first](double value) { return value == first; });
  }
  static std::string label(Index at) { return at == gap ? "…" : std::to_string(at); }
  bool is_wrong(Index i, Index c) const {
    return matrix_.wrong && (*matrix_.wrong)[0] == i && (*matrix_.wrong)[1] == c;
  }
  std::string text_of(double value) const {
    return matrix_.given ? shortest(value) : with_digits(value, digits_);
  }
  std::string cell(Index i, Index c) const {
    if (i == gap || c == gap) return "…";
    const std::string text = text_of(matrix_.values(i, c));
    if (is_wrong(i, c)) return "[" + text + "]";
    // The brackets of another row stand outside of the column of digits.
    return matrix_.wrong && (*matrix_.wrong)[1] == c ? text + " " : text;
  }
  std::string aligned(const std::string& text, Index c) const {
    const auto at = std::find(columns_.begin(), columns_.end(), c) - columns_.begin();
    return right_aligned(text, widths_[static_cast<std::size_t>(at)]);
  }
  template <class Cell>
  void add_line(const std::string& of_row, Cell&& cell_of) {
    std::string line = paint_.faint(right_aligned(of_row, label_) + (of_row.empty() ? "  " : " │"));
    std::size_t used = label_ + 2;
    for (std::size_t at = 0; at < columns_.size(); ++at) {
      line += (at == 0 ? " " : "  ") + cell_of(columns_[at]);
      used += (at == 0 ? 1 : 2) + widths_[at];
    }
    add(line, used);
  }
  void add(std::string line, std::size_t used) {
    block_.lines.push_back(std::move(line));
    used_.push_back(used);
    block_.columns = std::max(block_.columns, used);
  }
  Block finished() {
    for (std::size_t at = 0; at < used_.size(); ++at) {
      block_.lines[at] += std::string(block_.columns - used_[at], ' ');
    }
    return std::move(block_);
  }

  const NamedMatrix& matrix_;
  const int digits_;
  const Paint& paint_;
  const std::vector<Index> rows_, columns_;
  std::vector<std::size_t> widths_, used_;
  std::size_t label_ = 1;
  Block block_;
};

Block block_of(const NamedMatrix& matrix, int digits, std::array<Index, 2> middle,
               const Paint& paint) {
  return BlockMaker(matrix, digits, middle, paint).block();
}

/// The blocks beside each other as far as a line holds them.
std::string side_by_side(const std::vector<Block>& blocks) {
  std::string text;
  for (std::size_t first = 0; first < blocks.size();) {
    std::size_t end = first, used = 2, lines = 0;
    while (end < blocks.size() && (end == first || used + 4 + blocks[end].columns <= width + 12)) {
      used += 4 + blocks[end].columns;
      lines = std::max(lines, blocks[end].lines.size());
      ++end;
    }
    for (std::size_t at = 0; at < lines; ++at) {
      std::string line = "  ";
      for (std::size_t b = first; b < end; ++b) {
        line += (b == first ? "" : "    ");
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
  const auto [query, key] = std::array{view.query, view.key};
  std::vector<Block> given, found;
  for (const NamedMatrix& matrix : view.given) {
    const bool of_keys = matrix.name == "k" || matrix.name == "v";
    const bool of_pairs = matrix.name == "mask" || matrix.name == "bias";
    given.push_back(block_of(matrix, 0, {of_keys ? key : query, of_pairs ? key : Index{0}}, paint));
  }
  for (const Comparison& comparison : view.compared) {
    const auto middle = comparison.is.wrong.value_or(std::array<Index, 2>{query, 0});
    const int digits = digits_for(comparison);
    found.push_back(block_of(comparison.is, digits, middle, paint));
    found.push_back(block_of(comparison.should_be, digits, middle, paint));
  }
  for (const NamedMatrix& matrix : view.also) {
    found.push_back(block_of(matrix, 4, {query, 0}, paint));
  }
  return side_by_side(given) + (found.empty() ? "" : "\n" + side_by_side(found));
}

// ---- What is wrong ----

std::string fault_text(const TheoremReport& theorem, const Report& report, const Paint& paint) {
  std::string text = "\n" + painted(theorem, std::string(mark(theorem)) + " " + theorem.id, paint) +
                     "  " + paint.bold(math_to_text(theorem.title)) + "\n";
  if (!theorem.statement.empty() && theorem.outcome == Outcome::violated) {
    text += wrapped(math_to_text(theorem.statement), "  ", width);
  }
  if (!theorem.counterexample) {
    return text + wrapped(reason_text(theorem), "  ", width);
  }
  const Counterexample& example = *theorem.counterexample;
  const CounterexampleView view = view_of(example, report.domain, report.conventions);
  text += "\n" + wrapped(example_text(example, view), "  ", width);
  text += numbers_text(view, paint);
  text += "\n" + wrapped(reason_text(theorem), "  ", width);
  return text + "  " + paint.faint("replay:") + " " + on_one_line(example.replay) + "\n";
}

/// Bits that may differ take two lines.
std::string difference_text(const TheoremReport& theorem, const Paint& paint) {
  std::string text =
      "\n" + painted(theorem, std::string(mark(theorem)) + " " + theorem.id, paint) + "  " +
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

std::string subject_text(const Report& report, bool colour, bool with_bitwise) {
  const Paint paint(colour);
  return paint.bold(on_one_line(report.subject)) + "\n" +
         labelled("accepts", domain_text(report.domain), paint) +
         labelled("offers", features_text(report.domain.features, true), paint) +
         labelled("does not offer", features_text(report.domain.features, false), paint) +
         declined_text(report.declined, paint) + "\n" +
         conventions_text(report.conventions, with_bitwise, paint);
}

std::string theorem_line(const TheoremReport& theorem, std::size_t id_width, bool colour) {
  // Those of "violated" or "not applicable", of "> 1000 times", and of 100 cases.
  const std::size_t word_width = judged(theorem) ? 8 : 14, margin_width = 12, cases_width = 3;
  std::string text =
      "  " + painted(theorem,
                     std::string(mark(theorem)) + " " + padded(theorem.id, id_width) + "  " +
                         padded(verdict_word(theorem), word_width),
                     Paint(colour));
  if (!judged(theorem)) return text + "  " + reason_text(theorem) + "\n";
  text += "  " + right_aligned(margin_text(theorem), margin_width) + "  " +
          right_aligned(std::to_string(theorem.cases), cases_width) +
          (theorem.cases == 1 ? " case" : " cases");
  if (theorem.outcome == Outcome::violated) {
    text += (theorem.cases == 1 ? "   " : "  ") + math_to_text(theorem.title);
  }
  if (theorem.expected && !theorem.why.empty()) text += " (" + reason_text(theorem) + ")";
  return text + "\n";
}

std::string faults_text(const Report& report, bool colour) {
  const Paint paint(colour);
  std::string text = declined_text(report.failed_together, paint);
  if (!text.empty()) text = "\n" + text;
  for (const TheoremReport& theorem : report.theorems) {
    if (fails(theorem)) {
      text += fault_text(theorem, report, paint);
    } else if (theorem.outcome == Outcome::violated) {
      text += difference_text(theorem, paint);
    }
  }
  for (const std::string& id : report.no_longer_violated) {
    text += "\n" + no_longer_text(id) + "\n";
  }
  return text;
}

std::string end_text(const Report& report) {
  return "\n" + summary_text(report) + "; seed " + std::to_string(report.seed) + ", " +
         seconds_text(report.seconds) + " s\n";
}

std::string report_text(const Report& report, bool colour, bool identify_only) {
  std::string text = subject_text(report, colour, identify_only);
  std::size_t ids = 0;
  for (const TheoremReport& theorem : report.theorems) {
    ids = std::max(ids, shown_width(theorem.id));
  }
  if (!report.theorems.empty()) text += "\n";
  for (const TheoremReport& theorem : report.theorems) text += theorem_line(theorem, ids, colour);
  return text + faults_text(report, colour) + (identify_only ? "" : end_text(report));
}

std::string Report::text() const { return report_text(*this, false); }

}  // namespace headproof
