// Proposition 3.1: rows of A lie in the simplex.

#include <cmath>

#include "theorems/findings.h"
#include "theorems/oracle.h"
#include "theorems/results.h"

namespace headproof {
namespace {

// begin: prop-3.1
Verdict check_simplex(const Subject& subject, const HeadProblem& given) {
  Findings findings;
  Checked& nonnegative = findings.exact("every weight is at least 0");
  Checked& row_sums = findings.bounded("every row sums to 1");
  for (const HeadProblem& problem : masked_and_open(given)) {
    const Tensor<float, 3> A = recover_A(subject, problem);
    const Index batch = A.shape()[0], queries = A.shape()[1], keys = A.shape()[2];
    for (Index b = 0; b < batch; ++b) {
      for (Index i = 0; i < queries; ++i) {
        double sum = 0;
        for (Index j = 0; j < keys; ++j) {
          const double weight = A(b, i, j);
          sum += weight;
          nonnegative.require(weight >= 0, [&] { return where(b, i, j) + ": " + number(weight); });
        }
        const auto n = static_cast<double>(visible_keys(problem, i));
        row_sums.within(std::fabs(sum - 1), (n + 2) * unit_roundoff,
                        [&] { return where(b, i) + ": the row sums to " + number(sum); });
      }
    }
  }
  return findings.verdict();
}
// end: prop-3.1

}  // namespace

Theorem prop_3_1() {
  return {
      .id = "prop-3.1",
      .title = "Rows of $A$ lie in the simplex",
      .statement = R"(For every query $i$ that may see at least one key, row $i$ of $A$ is a )"
                   R"(probability distribution over the keys: $A_{ij} \ge 0$ for every $j$, and )"
                   R"($\sum_j A_{ij} = 1$.)",
      .proof = R"($A_{ij} = e^{S_{ij}} / \sum_l e^{S_{il}}$, both sums over the keys that $i$ may )"
               R"(see. Each numerator is positive, and the denominator is the sum of the )"
               R"(numerators. Masked keys have weight 0 and change neither statement.)",
      .execution = R"(The check looks at the matrix that the head *uses*: it gives every position )"
                   R"(a value of its own, a column of the identity, so that $A I = A$ comes out )"
                   R"(of the output. Every row of every batch element, with the mask and )"
                   R"(without it, is summed in double precision.)",
      .bound = R"($(n + 2)\,u$ for a row of $n$ allowed keys, $u = 2^{-24}$: the head sums $n$ )"
               R"(exponentials with $n - 1$ roundings, and a reciprocal and a product add two; )"
               R"(one is left for terms in $u^2$. What exp itself errs cancels, because the same )"
               R"(exponentials stand above and below the bar.)",
      .source = "Section 4.2, Proposition 3.1",
      .breaks = "mask-after-softmax",
      .code = prop_3_1_code,
      .check = check_simplex,
  };
}

}  // namespace headproof
