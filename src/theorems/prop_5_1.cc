// Proposition 5.1: the causal mask makes A lower-triangular, and the head causal.

#include <cmath>
#include <cstring>

#include "theorems/findings.h"
#include "theorems/oracle.h"
#include "theorems/results.h"

namespace headproof {
namespace {

bool same_bits(View<const float, 1> a, View<const float, 1> b) {
  return std::memcmp(a.data, b.data, static_cast<std::size_t>(a.size()) * sizeof(float)) == 0;
}

void require_zero_above_diagonal(const Tensor<float, 3>& A, Checked& claim) {
  for (Index b = 0; b < A.shape()[0]; ++b) {
    for (Index i = 0; i < A.shape()[1]; ++i) {
      for (Index j = i + 1; j < A.shape()[2]; ++j) {
        claim.require(A(b, i, j) == 0, [&] { return where(b, i, j) + ": " + number(A(b, i, j)); });
      }
    }
  }
}

/// Keys that are the negated queries, times 2^40: the first row's only allowed score is near
/// -10^12, far below every finite number that stands in for minus infinity.
HeadProblem with_scores_far_below_zero(HeadProblem problem) {
  for (Index c = 0; c < problem.weights.head_dim(); ++c) {
    for (Index m = 0; m < problem.weights.model_dim(); ++m) {
      problem.weights.key(c, m) = -0x1p40F * problem.weights.query(c, m);
    }
  }
  return problem;
}

// begin: prop-5.1
Verdict check_causal(const Subject& subject, const HeadProblem& given) {
  HeadProblem problem = given;
  problem.causal = true;
  const auto [batch, seq_len, model_dim] = problem.x.shape();
  Findings findings;

  Checked& triangular = findings.exact("$A$ is 0 above the diagonal");
  require_zero_above_diagonal(recover_A(subject, problem), triangular);
  Checked& still = findings.exact("and still where every allowed score lies below $-10^9$");
  require_zero_above_diagonal(recover_A(subject, with_scores_far_below_zero(problem)), still);

  Checked& earlier = findings.bitwise("$x_j$ moves: every row before $j$ keeps its bits");
  Checked& later = findings.exact("$x_j$ moves: every row from $j$ on moves");
  const HeadAnswer before = ask(subject, problem);
  Generator generator(51);
  for (Index j = 0; j < seq_len; ++j) {
    HeadProblem moved = problem;
    const Tensor<float, 2> row = generator.randn(batch, model_dim);
    for (Index b = 0; b < batch; ++b) std::copy_n(row[b].data, model_dim, moved.x[b][j].data);
    const HeadAnswer after = ask(subject, moved);
    for (Index b = 0; b < batch; ++b) {
      for (Index i = 0; i < seq_len; ++i) {
        const bool same = same_bits(before.out[b][i], after.out[b][i]);
        Checked& claim = i < j ? earlier : later;
        claim.require(same == (i < j), [&] {
          return "x_" + std::to_string(j) + " moved, and row " + std::to_string(i) +
                 " of batch element " + std::to_string(b) + (same ? " did not" : " moved too");
        });
      }
    }
  }

  if (const auto J = subject.jacobian(problem)) {
    Checked& future = findings.exact("$\\partial o_i / \\partial x_j = 0$ for every $j > i$");
    Checked& past = findings.exact("$\\partial o_i / \\partial x_j \\ne 0$ for every $j \\le i$");
    for (Index b = 0; b < batch; ++b) {
      for (Index i = 0; i < seq_len; ++i) {
        for (Index j = 0; j < seq_len; ++j) {
          double largest = 0;
          for (Index c = 0; c < problem.weights.head_dim(); ++c) {
            for (Index m = 0; m < model_dim; ++m) {
              const double slope = std::fabs((*J)(b, i, c, j, m));
              if (!(slope <= largest)) largest = slope;
            }
          }
          Checked& claim = j > i ? future : past;
          claim.require(j > i ? largest == 0 : largest > 0, [&] {
            return where(b, i, j) + ": the largest slope is " + number(largest);
          });
        }
      }
    }
  }
  return findings.verdict();
}
// end: prop-5.1

}  // namespace

Theorem prop_5_1() {
  return {
      .id = "prop-5.1",
      .title = "The causal mask makes $A$ lower-triangular",
      .statement =
          R"(With the causal mask, $A_{ij} = 0$ for every $j > i$. So output $i$ is a )"
          R"(function of $x_0, \ldots, x_i$ alone: changing $x_j$ leaves every row before )"
          R"($j$ as it was, and $\partial o_i / \partial x_j = 0$ for $j > i$.)",
      .proof = R"(Minus infinity in place of $S_{ij}$ gives the numerator $e^{-\infty} = 0$, and )"
               R"(adds nothing to the denominator. What is left of row $i$ contains $q_i$ and )"
               R"($k_j, v_j$ with $j \le i$ only, each a function of its own $x_j$.)",
      .execution =
          R"(Three ways. The recovered $A$ has exact zeros above the diagonal, also where )"
          R"(every allowed score is near $-10^{12}$, where a finite stand-in for $-\infty$ )"
          R"(would win. Each position in turn gets a new vector: every earlier row keeps )"
          R"(its bits, every later one moves. And the gradient of every output channel of )"
          R"(every row is exactly 0 at every later position and not 0 at any other. All )"
          R"(of it in every batch element.)",
      .bound = R"(None: zeros are exact, and rows before the change are equal bit for bit. )"
               R"("Close" would let a leak through.)",
      .source = "Section 4.2, Proposition 5.1",
      .breaks = "leak-last",
      .code = prop_5_1_code,
      .check = check_causal,
  };
}

}  // namespace headproof
