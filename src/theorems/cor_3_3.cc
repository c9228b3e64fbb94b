// Corollary 3.3: every allowed weight is positive.

#include <cmath>

#include "theorems/findings.h"
#include "theorems/oracle.h"
#include "theorems/results.h"

namespace headproof {
namespace {

// begin: cor-3.3
Verdict check_positive(const Subject& subject, const HeadProblem& given) {
  constexpr double smallest_exponent = -103;  // exp(-103) is the last that float32 can tell from 0
  Findings findings;
  Checked& positive = findings.exact("every allowed weight above $e^{-103}$ is positive");
  Index allowed = 0, underflowed = 0;
  for (const HeadProblem& problem : masked_and_open(given)) {
    const Tensor<float, 3> A = recover_A(subject, problem);
    const Oracle oracle(problem);
    for (Index b = 0; b < A.shape()[0]; ++b) {
      for (Index i = 0; i < A.shape()[1]; ++i) {
        for (Index j = 0; j < visible_keys(problem, i); ++j) {
          ++allowed;
          if (A(b, i, j) > 0) continue;
          const bool may_underflow = std::log(oracle.A(b, i, j)) < smallest_exponent;
          if (A(b, i, j) == 0 && may_underflow) ++underflowed;
          positive.require(may_underflow && A(b, i, j) == 0, [&] {
            return where(b, i, j) + ": " + number(A(b, i, j)) + ", and the definition gives " +
                   number(oracle.A(b, i, j));
          });
        }
      }
    }
  }
  if (underflowed > 0) {
    positive.note(std::to_string(underflowed) + " of " + std::to_string(allowed) +
                  " allowed weights lie below exp(-103) and underflow to 0");
  }
  return findings.verdict();
}
// end: cor-3.3

}  // namespace

Theorem cor_3_3() {
  return {
      .id = "cor-3.3",
      .title = "Every allowed weight is positive",
      .statement = R"(If the scores are finite, $A_{ij} > 0$ for every key $j$ that query $i$ may )"
                   R"(see: softmax never switches an allowed key off.)",
      .proof = R"(The exponential of a finite number is positive, and so is its quotient by a )"
               R"(finite positive sum.)",
      .execution = R"(Every allowed entry of the recovered $A$, in every batch element, with the )"
                   R"(mask and without it.)",
      .bound = R"(None is needed: the claim is exact. But the smallest positive float32 is )"
               R"($2^{-149}$, and a weight below half of that becomes 0 in any implementation. )"
               R"(Weights below $e^{-103}$, just above it, may be 0: the verdict counts them )"
               R"(instead of hiding them.)",
      .source = "Section 4.2, Corollary 3.3",
      .breaks = "out-is-value",
      .code = cor_3_3_code,
      .check = check_positive,
  };
}

}  // namespace headproof
