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

/// What the definition gives, and how far a right subject may be from it: out, A, and what else the
/// problem asks for.
struct Definition {
  AttentionAnswer values, errors;
};
Definition definition_of(const AttentionProblem& problem, const Domain& domain,
                         const Conventions& conventions);

/// One of the results, as it came out beside as it should have.
struct Comparison {
  Place::Result result;
  NamedMatrix is, should_be;
};

/// One head of one batch element: the one that the sentence is about, else that of the worst entry.
struct CounterexampleView {
  Index batch = 0, head = 0;
  Index query = 0, key = 0;        ///< what larger matrices are shown around
  std::vector<NamedMatrix> given;  ///< q, k, v and what else the problem has
  /// A, where the weights in use are wrong; and what the sentence is about, out if that tells
  /// something or nothing else does.
  std::vector<Comparison> compared;
  std::vector<NamedMatrix> also;  ///< further answers: gradients
};

CounterexampleView view_of(const Counterexample& example, const Domain& domain,
                           const Conventions& conventions);

}  // namespace headproof
