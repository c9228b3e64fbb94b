// Lemma 4.5: scores have variance d_k, which the factor 1 / sqrt(d_k) takes out again.

#include <cmath>
#include <vector>

#include "theorems/findings.h"
#include "theorems/oracle.h"
#include "theorems/results.h"
#include "theorems/saturation.h"

namespace headproof {
namespace {

// begin: lemma-4.5
Verdict check_scale(const Subject& subject, const HeadProblem& problem) {
  // 4,096 rows for each d_k; the same numbers for every subject, so they are drawn once.
  static const std::vector<Saturation> samples = sample_saturation({16, 64, 256}, 512);
  Findings findings;
  Checked& variance = findings.bounded("the variance of $q \\cdot k$ is $d_k$");
  Checked& flattens = findings.exact("without the scale the softmax has the smaller Jacobian");
  for (const Saturation& s : samples) {
    const auto d_k = static_cast<double>(s.d_k);
    variance.within(std::fabs(s.variance - d_k), 5 * s.standard_error, [&] {
      return "d_k = " + number(d_k) + ": the variance is " + number(s.variance);
    });
    flattens.require(s.jacobian_raw < s.jacobian_scaled, [&] {
      return "d_k = " + number(d_k) + ": raw " + number(s.jacobian_raw) + ", scaled " +
             number(s.jacobian_scaled);
    });
  }

  Checked& scores = findings.bounded("$\\ln A$ has the differences of $q k^\\top / \\sqrt{d_k}$");
  const Oracle oracle(problem);
  const auto found = recover_scores(recover_A(subject, problem), problem, oracle);
  const double root = std::sqrt(static_cast<double>(problem.weights.head_dim()));
  const std::string scale =
      "the scale in use is " + number(found.scale) + ", 1 / sqrt(d_k) is " + number(1 / root);
  scores.within(found.error, found.bound, [&] {
    return where(found.batch, found.query, found.key) + ": off by " + number(found.error) + "; " +
           scale;
  });
  scores.note(scale);
  return findings.verdict();
}
// end: lemma-4.5

}  // namespace

Theorem lemma_4_5() {
  return {
      .id = "lemma-4.5",
      .title = R"(Why the scores are divided by $\sqrt{d_k}$)",
      .statement = R"(If the entries of $q, k \in \mathbb{R}^{d_k}$ are independent with mean 0 )"
                   R"(and variance 1, then $q \cdot k$ has mean 0 and variance $d_k$, and )"
                   R"($(q \cdot k) / \sqrt{d_k}$ has variance 1. Without the division the softmax )"
                   R"(saturates as $d_k$ grows: its Jacobian $\operatorname{diag}(p) - p p^\top$ )"
                   R"(vanishes, and no gradient reaches the scores.)",
      .proof = R"(The products $q_c k_c$ are independent with mean 0 and variance )"
               R"($\operatorname{E} q_c^2 \operatorname{E} k_c^2 = 1$; variances of independent )"
               R"(terms add up to $d_k$. Scores with deviation $\sqrt{d_k}$ differ by about )"
               R"($\sqrt{d_k}$, so that the largest weight tends to 1 and $p$ to a corner of the )"
               R"(simplex, where $\operatorname{diag}(p) - p p^\top = 0$.)",
      .execution =
          R"(For $d_k = 16, 64, 256$ a sample of 4,096 rows of 8 scores, with entries )"
          R"(uniform over 256 levels (the lemma asks only for mean and variance): the )"
          R"(variance, and the mean norm of the Jacobian with and without the scale. And )"
          R"(of the head: $\ln A_{ij} - \ln A_{i0}$ must be the score difference )"
          R"($(q_i \cdot k_j - q_i \cdot k_0) / \sqrt{d_k}$ for every pair, which shows a )"
          R"(wrong scale, and queries or keys made with the wrong weights.)",
      .bound = R"(Five standard errors for the variance, from 512 independent blocks. For the )"
               R"(score differences, what a float32 head may err: each sum over $d$ channels by )"
               R"($(d + 1)\,u \sum |\cdot|\,|\cdot|$, passed on to the scores; each weight by six )"
               R"(roundings in its exponential and division, and by the rounding of its exponent.)",
      .source = "Section 4.2, Lemma 4.5",
      .breaks = "no-scale",
      .code = lemma_4_5_code,
      .check = check_scale,
  };
}

}  // namespace headproof
