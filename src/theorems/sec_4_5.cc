// Section 4.5: scores that depend on positions alone make attention a kernel smoother.

#include <cmath>
#include <limits>

#include "theorems/findings.h"
#include "theorems/oracle.h"
#include "theorems/results.h"

namespace headproof {
namespace {

constexpr Index seq_len = 48;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// A head of width 4 with q_i = 2 (i, 1, 0, 0) and k_j = (j / s^2, -j^2 / (2 s^2), 0, 0): its
/// scores, divided by sqrt(4), are -(i - j)^2 / (2 s^2) plus a constant of the row, which the
/// softmax ignores. Infinite s gives keys 0. Every product is exact for the bandwidths used here.
HeadProblem kernel_problem(double s) {
  const auto inverse = static_cast<float>(1 / (s * s));
  HeadProblem problem{Tensor<float, 3>({1, seq_len, 4}), {}, true};
  problem.weights.query = Tensor<float, 2>({4, 4});
  problem.weights.key = problem.weights.query;
  problem.weights.value = problem.weights.query;
  problem.weights.query(0, 0) = problem.weights.query(1, 1) = 1;
  problem.weights.key(0, 2) = problem.weights.key(1, 3) = 1;
  for (Index t = 0; t < seq_len; ++t) {
    const auto position = static_cast<float>(t);
    problem.x(0, t, 0) = 2 * position;
    problem.x(0, t, 1) = 2;
    problem.x(0, t, 2) = position * inverse;
    problem.x(0, t, 3) = -0.5F * position * position * inverse;
  }
  return problem;
}

// begin: sec-4.5
Verdict check_kernel_smoothing(const Subject& subject, const HeadProblem& /*problem*/) {
  Findings findings;
  Checked& mean = findings.bounded("$W_Q = W_K = 0$: row $i$ is $1 / (i + 1)$ (a running mean)");
  Checked& gaussian =
      findings.bounded("positional $q$ and $k$: row $i$ is the Gaussian, normalised");
  for (double s : {0.5, 2.0, 8.0, infinity}) {
    const Tensor<float, 3> A = recover_A(subject, kernel_problem(s));
    for (Index i = 0; i < seq_len; ++i) {
      const auto exponent = [&](Index j) {
        const auto distance = static_cast<double>(i - j);
        return -distance * distance / (2 * s * s);
      };
      double sum = 0;
      for (Index j = 0; j <= i; ++j) sum += std::exp(exponent(j));
      for (Index j = 0; j < seq_len; ++j) {
        const double expected = j <= i ? std::exp(exponent(j)) / sum : 0;
        const double roundings = static_cast<double>(i + 1) + 10;
        const double bound = expected * roundings * unit_roundoff + (j <= i ? 0x1p-149 : 0);
        Checked& claim = s == infinity ? mean : gaussian;
        claim.within(std::fabs(A(0, i, j) - expected), bound, [&] {
          return "bandwidth " + number(s) + ", " + where(0, i, j) + ": " + number(A(0, i, j)) +
                 ", the kernel is " + number(expected);
        });
      }
    }
  }
  return findings.verdict();
}
// end: sec-4.5

}  // namespace

Theorem sec_4_5() {
  return {
      .id = "sec-4.5",
      .title = "Attention as kernel smoothing",
      .statement =
          R"(If the scores depend on positions alone, $S_{ij} = -(i - j)^2 / (2 s^2)$, row )"
          R"($i$ of $A$ is the Gaussian of bandwidth $s$ over $j \le i$, divided by its )"
          R"(sum: attention is Nadaraya-Watson smoothing along the sequence. With )"
          R"($W_Q = W_K = 0$, that is $s = \infty$, it is the running mean, $A_{ij} = 1 / (i + 1)$ )"
          R"(for $j \le i$. Plain queries and keys reach these scores.)",
      .proof =
          R"(Softmax divides $e^{S_{ij}}$ by its sum over $j \le i$. And )"
          R"($-(i - j)^2 / (2 s^2) = i \cdot j / s^2 - j^2 / (2 s^2) - i^2 / (2 s^2)$, where the last )"
          R"(term is the same along the row and cancels: $q_i = (i, 1)$ and )"
          R"($k_j = (j / s^2, -j^2 / (2 s^2))$ give the rest.)",
      .execution = R"(The head gets these queries and keys for $s = 0.5, 2, 8, \infty$ and 48 )"
                   R"(positions (doubled and padded to $d_k = 4$, so that its own factor $1/2$ is )"
                   R"(undone exactly); every entry of the recovered $A$ is compared with the )"
                   R"(kernel in double precision.)",
      .bound = R"($(n + 10)\,u$ of the entry for a row of $n$ keys: the scores are exact here, so )"
               R"(that the exponential (four), the row sum ($n - 1$) and the division (two) are )"
               R"(what is left, with room for a sum that is taken in blocks. Entries below )"
               R"($2^{-149}$ become 0.)",
      .source = "Section 4.5",
      .breaks = "query-key-swapped",
      .code = sec_4_5_code,
      .check = check_kernel_smoothing,
  };
}

}  // namespace headproof
