// Exercise 4 for a black box: masking before the softmax, and zeroing after it.

#include <cmath>

#include "theorems/attention_lecture.h"

namespace headproof {
namespace {

Verdict judge_mask_before_softmax(Asker& asker, const AttentionProblem& masked) {
  if (auto none = no_sequence(masked)) return not_applicable(*none);
  if (masked.causal == Causal::none) return not_applicable("there is no causal mask");
  if (masked.seq_len_q() == 1) return not_applicable("one position leaves nothing to mask");
  AttentionProblem open = masked;
  open.causal = Causal::none;
  Findings findings;
  Checked& witness = findings.exact("zeroing after the softmax leaves rows that sum to less");
  Checked& renormalised = findings.bounded("$A$ is the zeroed softmax, each row over its own sum");
  const Tensor<double, 4> A = asker.recover_A(masked), all = asker.recover_A(open);
  const AttentionOracle oracle(masked, asker.domain, asker.conventions);
  const AttentionOracle open_oracle(open, asker.domain, asker.conventions);
  for_each_row(masked, [&](Index b, Index h, Index i) {
    double kept = 0, kept_error = 0, exact = 0;
    for (Index j = 0; j <= i; ++j) {
      kept += all(b, h, i, j);
      kept_error += open_oracle.recovered_error(b, h, i, j);
      exact += open_oracle.stages.A(b, h, i, j);
    }
    if (exact + 2 * kept_error < 1) {
      witness.require(kept < 1, [&] {
        return told({Place::Result::A, b, h, i}) + ": the open row sums to " + number(kept) +
               " over the keys up to its own, the definition to " + number(exact);
      });
    }
    if (!(2 * kept_error < exact)) return;  // what is left is mostly rounding
    for (Index j = 0; j < masked.seq_len_k(); ++j) {
      const double expected = j <= i ? all(b, h, i, j) / kept : 0;
      const double bound = j > i ? 0
                                 : oracle.recovered_error(b, h, i, j) +
                                       2 *
                                           (open_oracle.recovered_error(b, h, i, j) +
                                            open_oracle.stages.A(b, h, i, j) / exact * kept_error) /
                                           exact;
      renormalised.within(std::fabs(A(b, h, i, j) - expected), bound, [&] {
        return weight_place(b, h, i, j) + ": A is " + number(A(b, h, i, j)) +
               ", the zeroed softmax over its sum " + number(expected);
      });
    }
  });
  return findings.verdict();
}

}  // namespace

AttentionTheorem attention_ex_4() {
  AttentionTheorem theorem = lecture_theorem("ex-4");
  theorem.bound =
      R"(The two matrices come from two runs: $a_{ij} + 2 (a'_{ij} + A'_{ij} \sum_l a'_{il} / s_i) )"
      R"(/ s_i$, with $a$ and $a'$ what a recovered weight may err with the mask and without it, )"
      R"($A'$ the open weights and $s_i$ their sum over the keys up to $i$; the 2 allows for a sum )"
      R"(that is half rounding. Rows with less are left out.)";
  theorem.claim = Claim::bounded;
  theorem.needs = {Feature::causal, Feature::non_causal};
  theorem.regimes = {"gaussian", "one-hot", "tied", "lanes", "long", "tiny"};
  theorem.draw = [](Draw& draw) { return draw.problem(moderate_sizes(draw), true); };
  theorem.judge = judge_mask_before_softmax;
  return theorem;
}

}  // namespace headproof
