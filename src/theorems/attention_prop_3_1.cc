// Proposition 3.1 for a black box: rows of A lie in the simplex.

#include <cmath>

#include "theorems/attention_lecture.h"

namespace headproof {
namespace {

Verdict judge_simplex(Asker& asker, const AttentionProblem& problem) {
  if (auto none = no_numbers(problem)) return not_applicable(*none);
  Findings findings;
  Checked& nonnegative = findings.exact("every weight is at least 0");
  Checked& row_sums = findings.bounded("every row sums to 1");
  const Roundoff u = roundoff_of(asker.domain.dtype);
  const Tensor<double, 4> A = weights_of(asker, problem).A;
  for_each_row(problem, [&](Index b, Index h, Index i) {
    const Index visible = visible_keys(problem, i);
    if (visible == 0) return;
    double sum = 0;
    for (Index j = 0; j < problem.seq_len_k(); ++j) {
      const double weight = A(b, h, i, j);
      sum += weight;
      nonnegative.require(weight >= 0,
                          [&] { return weight_place(b, h, i, j) + ": " + number(weight); });
    }
    row_sums.within(std::fabs(sum - 1), row_sum_error(visible, u), [&] {
      return told({Place::Result::A, b, h, i}) + ": the row of A sums to " + number(sum);
    });
  });
  return findings.verdict();
}

}  // namespace

AttentionTheorem attention_prop_3_1() {
  AttentionTheorem theorem = lecture_theorem("prop-3.1");
  theorem.bound =
      R"($(3 n + 6)\,u + u_w + u_o$ for a row of $n$ allowed keys, recovered by values that are )"
      R"(columns of the identity: a running maximum may rescale the sum, with two roundings, and )"
      R"(the weights, with one, at every key; $u_w$ and $u_o$ are the roundings of weights and )"
      R"(output.)";
  theorem.claim = Claim::bounded;
  theorem.regimes = {"gaussian", "single",      "one-hot", "tied",
                     "lanes",    "huge-scores", "long",    "tiny"};
  theorem.draw = [](Draw& draw) {
    return draw.problem(moderate_sizes(draw), draw.either_causal());
  };
  theorem.judge = judge_simplex;
  return theorem;
}

}  // namespace headproof
