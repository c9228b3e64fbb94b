// Exercise 4: masking before the softmax, and zeroing after it.

#include <cmath>

#include "theorems/findings.h"
#include "theorems/oracle.h"
#include "theorems/results.h"

namespace headproof {
namespace {

// begin: ex-4
Verdict check_mask_before_softmax(const Subject& subject, const HeadProblem& given) {
  HeadProblem masked = given, open = given;
  masked.causal = true;
  open.causal = false;
  const Tensor<float, 3> A = recover_A(subject, masked), all = recover_A(subject, open);
  const Oracle masked_oracle(masked), open_oracle(open);
  if (given.x.shape()[1] == 1) return not_applicable("one position leaves nothing to mask");
  const auto [batch, seq_len, keys] = A.shape();

  Findings findings;
  Checked& witness = findings.exact("zeroing after the softmax leaves a row that sums to less");
  Checked& renormalised = findings.bounded("$A$ is the zeroed softmax, each row over its own sum");
  double smallest = 1;
  for (Index b = 0; b < batch; ++b) {
    for (Index i = 0; i < seq_len; ++i) {
      double kept = 0, kept_error = 0, exact = 0;
      for (Index j = 0; j <= i; ++j) {
        kept += all(b, i, j);
        kept_error += open_oracle.weight_error(b, i, j);
        exact += open_oracle.A(b, i, j);
      }
      if (!(kept >= smallest)) smallest = kept;
      if (exact < 0x1p-100) continue;  // nothing is left that float32 could divide
      for (Index j = 0; j <= i; ++j) {
        const double expected = all(b, i, j) / kept;
        const double bound = masked_oracle.weight_error(b, i, j) +
                             (open_oracle.weight_error(b, i, j) + expected * kept_error) / kept;
        renormalised.within(std::fabs(A(b, i, j) - expected), bound, [&] {
          return where(b, i, j) + ": A is " + number(A(b, i, j)) +
                 ", the zeroed softmax over its " + "sum " + number(expected);
        });
      }
    }
  }
  const double rounding = static_cast<double>(seq_len + 2) * unit_roundoff;
  witness.require(smallest < 1 - rounding, [&] {
    return "no row of the zeroed softmax sums to less than " + number(smallest);
  });
  witness.note("the smallest such sum of this head is " + number(smallest));
  return findings.verdict();
}
// end: ex-4

}  // namespace

Theorem ex_4() {
  return {
      .id = "ex-4",
      .title = "Mask before the softmax, not after",
      .statement =
          R"(Zeroing the entries above the diagonal of $\operatorname{softmax}(S)$ leaves )"
          R"(rows that sum to less than 1 wherever a key is masked; masking with )"
          R"($-\infty$ before the softmax is )"
          R"(the same matrix with every row divided by that sum.)",
      .proof =
          R"(With $Z_i = \sum_l e^{S_{il}}$ over all keys and $Z'_i$ over $l \le i$ only, the )"
          R"(zeroed row is $e^{S_{ij}} / Z_i$ with sum $Z'_i / Z_i$, which is less than 1 )"
          R"(wherever a key is masked. Divided by that sum it is $e^{S_{ij}} / Z'_i$, the row )"
          R"(that is masked first.)",
      .execution = R"(The same head is asked twice, with and without its mask. The second matrix, )"
                   R"(zeroed above the diagonal, must hold a row that sums to less than 1 (a )"
                   R"(witness), and divided by its row sums it must be the first.)",
      .bound = R"(The two matrices come from two runs, so that the errors of both weights and of )"
               R"(the sum add up; each is what a float32 head may err in a weight (see )"
               R"(lemma-4.5).)",
      .source = "Section 4.2, Exercise 4",
      .breaks = "mask-after-softmax",
      .code = ex_4_code,
      .check = check_mask_before_softmax,
  };
}

}  // namespace headproof
