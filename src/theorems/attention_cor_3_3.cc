// Corollary 3.3 for a black box: every allowed weight is positive.

#include <algorithm>
#include <cmath>

#include "theorems/attention_lecture.h"

namespace headproof {
namespace {

Verdict judge_positive(Asker& asker, const AttentionProblem& problem) {
  if (auto none = no_sequence(problem)) return not_applicable(*none);
  // The last whole exponent above that of the smallest number: -103 for float32.
  const double smallest_exponent = std::ceil(std::log(roundoff_of(asker.domain.dtype).smallest));
  Findings findings;
  Checked& positive = findings.exact("every allowed weight above $e^{" + number(smallest_exponent) +
                                     "}$ is positive");
  const Tensor<double, 4> A = asker.recover_A(problem);
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  Index allowed = 0, underflowed = 0;
  for_each_row(problem, [&](Index b, Index h, Index i) {
    for (Index j = 0; j < visible_keys(problem, i); ++j) {
      const double weight = A(b, h, i, j), exact = oracle.stages.A(b, h, i, j);
      ++allowed;
      if (weight > 0) continue;
      // Where scores are so large that their rounding hides the weight, it may be anything.
      const bool may_underflow =
          !(std::log(exact) >= smallest_exponent) || exact <= oracle.weight_error(b, h, i, j);
      if (weight == 0 && may_underflow) ++underflowed;
      positive.require(weight == 0 && may_underflow, [&] {
        return weight_place(b, h, i, j) + ": " + number(weight) + ", the definition gives " +
               number(exact);
      });
    }
  });
  if (underflowed > 0) {
    positive.note(std::to_string(underflowed) + " of " + std::to_string(allowed) +
                  " allowed weights are too small to be told from 0");
  }
  return findings.verdict();
}

/// Queries times a number, so that weights reach down to where they may underflow, and not beyond.
void spread_scores(AttentionProblem& problem, Draw& draw) {
  const Domain& domain = draw.domain;
  const AttentionOracle oracle(problem, domain, {});
  double spread = 0;
  for_each_row(problem, [&](Index b, Index h, Index i) {
    for (Index j = 0; j < problem.seq_len_k(); ++j) {
      const auto& scores = oracle.stages.scores;
      spread = std::max(spread, std::fabs(scores(b, h, i, j) - scores(b, h, i, 0)));
    }
  });
  const double most = std::min(100.0, -std::log(roundoff_of(domain.dtype).smallest) - 3);
  const double wanted = most * static_cast<double>(4 + draw.below(5)) / 8;
  if (!(spread > 1e-3)) return;
  for (float& value : problem.q) {
    value = rounded(static_cast<float>(value * wanted / spread), domain.dtype);
  }
}

}  // namespace

AttentionTheorem attention_cor_3_3() {
  AttentionTheorem theorem = lecture_theorem("cor-3.3");
  theorem.bound =
      R"(None is needed: the claim is exact. But the smallest positive number of a dtype ends it: )"
      R"($2^{-149}$ in float32, so that weights below $e^{-103}$ may be 0; $e^{-744}$ in float64, )"
      R"($e^{-16}$ in float16, $e^{-92}$ in bfloat16. The verdict counts them.)";
  theorem.claim = Claim::exact;
  theorem.regimes = {"gaussian", "single", "one-hot", "tied", "lanes", "long", "tiny"};
  theorem.draw = [](Draw& draw) {
    AttentionProblem problem = draw.problem(moderate_sizes(draw), draw.either_causal());
    if (draw.regime != "tiny" && (draw.case_number < 12 || draw.chance(2))) {
      spread_scores(problem, draw);
    }
    return problem;
  };
  theorem.judge = judge_positive;
  return theorem;
}

}  // namespace headproof
