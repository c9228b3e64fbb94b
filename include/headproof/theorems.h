// The results of the lecture as data and as checks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headproof/random.h"
#include "headproof/subjects.h"

namespace headproof {

/// How a claim is meant: as an exact statement about the numbers, as equality of bits, or within a
/// bound on rounding.
enum class Claim { exact, bitwise, bounded };
std::string_view name_of(Claim claim);

enum class Outcome { holds, violated, not_applicable, unsupported, gave_up, crashed };
std::string_view name_of(Outcome outcome);

/// Where a claim about attention fails: a row of one of its results, or an entry of it.
struct Place {
  enum class Result { out, A, lse, d_q, d_k, d_v };
  Result result = Result::out;
  Index batch = 0, head = 0, row = 0;  ///< of d_k and d_v a head of keys, and a key
  std::optional<Index> column = {};    ///< nothing: the row as a whole
};
std::string_view name_of(Place::Result result);

/// One thing that was checked, and what came out.
struct Finding {
  std::string what;  ///< "every row of $A$ sums to 1", prose with TeX between $ signs
  Claim claim = Claim::exact;
  Outcome outcome = Outcome::holds;
  double error = 0, bound = 0;  ///< for bounded claims: the largest error, and the bound at it
  std::string note;             ///< where it failed, or what floating point bends; plain
  std::optional<Place> place;   ///< where it failed, if that is in a result of attention
};

/// What became of a theorem.
struct Verdict {
  std::vector<Finding> findings;
  /// The gravest of the findings' outcomes.
  Outcome outcome() const;
  /// The largest share of a bound that was used; 0 when nothing is bounded.
  double used() const;
};

/// A result of the lecture. Its texts are prose with TeX between $ signs.
struct Theorem {
  std::string_view id;         ///< "prop-3.1"
  std::string_view title;      ///< "Rows lie in the simplex"
  std::string_view statement;  ///< with its hypotheses
  std::string_view proof;      ///< in a few lines
  std::string_view execution;  ///< how it is executed
  std::string_view bound;      ///< the bound, and why it is that
  std::string_view source;     ///< where in the lecture
  std::string_view breaks;     ///< the mutant shown as an example of breaking it
  std::string_view code;       ///< the lines that check it, from the source file itself
  /// Asks `subject` the questions that `problem` gives rise to.
  std::function<Verdict(const Subject& subject, const HeadProblem& problem)> check;
};

/// A problem as the lecture draws it: first the weights, then x [batch, seq_len, model_dim].
HeadProblem draw_problem(Index batch, Index seq_len, Index model_dim, Index head_dim,
                         Generator& generator);

/// All results, in the lecture's order.
const std::vector<Theorem>& theorems();

/// The theorem of that id; null when there is none.
const Theorem* find_theorem(std::string_view id);

}  // namespace headproof
