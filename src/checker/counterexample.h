// A counterexample's numbers as matrices, with the entry that is wrong.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "headproof/check.h"

namespace headproof {

/// Numbers with a name; rows are queries or keys.
struct NamedMatrix {
  std::string name;
  Tensor<double, 2> values;
  bool given = false;  ///< went in, so that every digit counts
  std::optional<std::array<Index, 2>> wrong = {};
};

/// What came out beside what should have.
struct Comparison {
  NamedMatrix is, should_be;
};

/// One head of one batch element, the one with the worst entry.
struct CounterexampleView {
  Index batch = 0, head = 0;
  std::vector<NamedMatrix> given;       ///< q, k, v and what else the problem has
  std::optional<Comparison> A;          ///< where the weights in use are wrong
  std::optional<Comparison> out;        ///< where there is an answer that tells something
  std::vector<NamedMatrix> also_given;  ///< further answers: gradients
};

CounterexampleView view_of(const Counterexample& example, const Domain& domain,
                           const Conventions& conventions);

}  // namespace headproof
