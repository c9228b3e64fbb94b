// The lecture "A causal self-attention head", run from top to bottom.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "headproof/array.h"
#include "headproof/result.h"
#include "headproof/text.h"
#include "headproof/theorems.h"
#include "theorems/saturation.h"

namespace headproof {

/// A table of printed figures; columns and cells are prose, as sentences are.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

/// One result of a section: the theorem it belongs to and what became of it.
struct ResultItem {
  std::string theorem;  ///< id
  Verdict verdict;
  std::string mutant = {};  ///< a head that breaks the theorem; see run_counterexamples
  Verdict broken = {};      ///< what the same check says of that head
};

/// What a section says, in order: a sentence (prose with $TeX$), a table, a verdict.
using Item = std::variant<std::string, Table, ResultItem>;

struct Section {
  std::string id;  ///< "4.1" .. "4.5", "ex-7"
  std::string title;
  std::vector<Item> items;
};

/// Everything the lecture makes: every tensor by name in the order it is made, every section.
struct Lecture {
  std::uint64_t seed = 0;
  std::string text_name;  ///< as the reader gave it, not prose
  std::u32string shown;   ///< the characters that label the axes, the first 48 of the text
  HeadProblem problem;    ///< the head of section 4.1 and its x
  std::vector<std::pair<std::string, Array>> tensors;
  std::vector<Section> sections;
  std::vector<Saturation> saturation;  ///< for the picture lemma_4_5, d_k = 4, 8, .. 1024
  std::vector<double> singular_values_S, singular_values_A;

  /// The tensor of that name; precondition: there is one.
  const Array& tensor(std::string_view name) const;
  /// `violated` when any result is.
  Outcome outcome() const;
};

/// How many characters of the text are shown.
inline constexpr Index shown_characters = 48;

/// Runs the lecture on `text`. The seed replaces the first one of the lecture only; the five heads
/// of section 4.4 keep seeds 0 to 4. An error when the text has fewer than 48 characters.
Result<Lecture> run_lecture(const Text& text, std::string_view text_name, std::uint64_t seed);

/// Lets each result's check look at the mutant that its theorem names, and keeps the verdict beside
/// the one on the right head. Nothing else of the lecture depends on it.
void run_counterexamples(Lecture& lecture);

}  // namespace headproof
