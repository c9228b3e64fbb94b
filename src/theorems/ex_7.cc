// Exercise 7: the score matrix has rank at most d_k.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "theorems/findings.h"
#include "theorems/oracle.h"
#include "theorems/results.h"
#include "theorems/singular_values.h"

namespace headproof {
namespace {

// begin: ex-7
Verdict check_rank(const Subject& subject, const HeadProblem& /*problem*/) {
  struct Sizes {
    Index seq_len, head_dim, model_dim;
  };
  Findings findings;
  Checked& ranks =
      findings.exact("differences of the columns of $S$ have rank $\\min(d_k, d, T - 1)$ exactly");
  std::string found;
  for (const Sizes& size : {Sizes{32, 8, 64}, Sizes{32, 8, 5}, Sizes{6, 8, 16}}) {
    Generator generator(7);
    HeadProblem problem = draw_problem(1, size.seq_len, size.model_dim, size.head_dim, generator);
    problem.causal = false;
    const Oracle oracle(problem);
    const Tensor<float, 3> A = recover_A(subject, problem);

    // ln A = S - lse 1^T. Taking column 0 from the others removes lse, and leaves the rank of
    // Q (K - k_0)^T, which has T - 1 columns.
    Tensor<double, 2> differences({size.seq_len, size.seq_len - 1});
    double noise_squared = 0;
    for (Index i = 0; i < size.seq_len; ++i) {
      const auto error = [&](Index j) {
        return std::log1p(oracle.weight_error(0, i, j) / oracle.A(0, i, j));
      };
      for (Index j = 1; j < size.seq_len; ++j) {
        differences(i, j - 1) =
            std::log(static_cast<double>(A(0, i, j))) - std::log(static_cast<double>(A(0, i, 0)));
        noise_squared += (error(j) + error(0)) * (error(j) + error(0));
      }
    }
    // Weyl: rounding moves no singular value by more than the norm of what it adds.
    const double noise = std::sqrt(noise_squared);
    const std::vector<double> values = singular_values(differences);
    const auto rank = std::count_if(values.begin(), values.end(),
                                    [&](double value) { return !(value <= noise); });
    const Index expected = std::min({size.head_dim, size.model_dim, size.seq_len - 1});
    const std::string sizes = "T = " + std::to_string(size.seq_len) +
                              ", d_k = " + std::to_string(size.head_dim) +
                              ", model_dim = " + std::to_string(size.model_dim);
    ranks.require(rank == expected, [&] {
      return sizes + ": rank " + std::to_string(rank) + " instead of " + std::to_string(expected);
    });
    found += (found.empty() ? "" : "; ") + sizes + ": rank " + std::to_string(rank);
  }
  ranks.note(found);
  return findings.verdict();
}
// end: ex-7

}  // namespace

Theorem ex_7() {
  return {
      .id = "ex-7",
      .title = "The score matrix has rank at most $d_k$",
      .statement =
          R"($S = Q K^\top / \sqrt{d_k}$ has rank at most $\min(d_k, d, T)$, whatever the )"
          R"(length $T$, and exactly that for almost all inputs; the factor changes no rank. )"
          R"(This is about $S$: the softmax is not linear, and $A$ has full rank as a rule.)",
      .proof =
          R"($Q = X W_Q^\top$ and $K = X W_K^\top$ have $d_k$ columns each and factor through )"
          R"($\mathbb{R}^d$, so that the rank of $Q K^\top$ is at most each of $d_k$, $d$ and )"
          R"($T$. A minor of that size is a polynomial in the entries that is not zero )"
          R"(everywhere, so it vanishes only on a set of measure zero.)",
      .execution =
          R"(A head shows $A$, not $S$; but $\ln A = S - \operatorname{lse} 1^\top$, so that )"
          R"($\ln A$ minus its first column is a difference of columns of $S$, whose rank )"
          R"(is $\min(d_k, d, T - 1)$. Three heads, in which each of the three numbers is )"
          R"(the smallest once; the rank is counted from singular values.)",
      .bound =
          R"(A singular value counts as 0 when it is no larger than the Frobenius norm of the )"
          R"(rounding errors that $\ln A$ may carry (Weyl's inequality); no other tolerance.)",
      .source = "Exercise 7",
      .breaks = "zero-scores",
      .code = ex_7_code,
      .check = check_rank,
  };
}

}  // namespace headproof
