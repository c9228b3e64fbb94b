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

namespace headproof {

/// A table of printed figures.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

/// One result of a section: the theorem it belongs to and what became of it.
struct ResultItem {
  std::string theorem;  ///< id
  Verdict verdict;
};

/// What a section says, in order: a sentence (prose with $TeX$), a table, a verdict.
using Item = std::variant<std::string, Table, ResultItem>;

struct Section {
  std::string id;     ///< "4.1" .. "4.5", "ex-7"
  std::string title;
  std::vector<Item> items;
};

/// Everything the lecture makes: every tensor by name in the order it is made, every section.
struct Lecture {
  std::uint64_t seed = 0;
  std::string text_name;
  std::u32string shown;  ///< the characters that label the axes, the first 48 of the text
  std::vector<std::pair<std::string, Array>> tensors;
  std::vector<Section> sections;
  /// For the picture lemma_4_5: per d_k the mean largest weight and the mean Jacobian norm.
  struct Saturation {
    double d_k, max_raw, max_scaled, jacobian_raw, jacobian_scaled;
  };
  std::vector<Saturation> saturation;
  std::vector<double> singular_values_S, singular_values_A;

  /// The tensor of that name; precondition: there is one.
  const Array& tensor(std::string_view name) const;
  Outcome outcome() const;
};

}  // namespace headproof
