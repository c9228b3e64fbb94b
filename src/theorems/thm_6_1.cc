// Theorem 6.1: without the mask, the head is equivariant under permutations of its rows.

#include <cmath>
#include <utility>
#include <vector>

#include "theorems/findings.h"
#include "theorems/oracle.h"
#include "theorems/results.h"

namespace headproof {
namespace {

/// Exchanges of neighbours, which generate every permutation; the reversal; one at random.
std::vector<Tensor<Index, 1>> permutations(Index n) {
  Generator generator(61);
  std::vector<Tensor<Index, 1>> list;
  Tensor<Index, 1> identity({n}), reversal({n});
  for (Index t = 0; t < n; ++t) {
    identity(t) = t;
    reversal(t) = n - 1 - t;
  }
  for (Index t = 0; t + 1 < n; ++t) {
    list.push_back(identity);
    std::swap(list.back()(t), list.back()(t + 1));
  }
  list.push_back(reversal);
  list.push_back(generator.randperm(n));
  return list;
}

// begin: thm-6.1
Verdict check_equivariant(const Subject& subject, const HeadProblem& given) {
  const Index batch = given.x.shape()[0], seq_len = given.x.shape()[1];
  const Index model_dim = given.x.shape()[2];
  HeadProblem plain = given;
  plain.causal = false;
  HeadProblem with_positions = plain;
  const Tensor<float, 2> positions = Generator(62).randn(seq_len, model_dim);
  for (Index b = 0; b < batch; ++b) {
    for (Index t = 0; t < seq_len; ++t) {
      for (Index m = 0; m < model_dim; ++m) with_positions.x(b, t, m) += positions(t, m);
    }
  }

  Findings findings;
  const auto look = [&](const HeadProblem& problem, Checked& claim) {
    const Oracle oracle(problem);
    const HeadAnswer answer = ask(subject, problem);
    for (const Tensor<Index, 1>& permutation : permutations(seq_len)) {
      HeadProblem permuted = problem;
      permuted.x = permute_rows(problem.x, permutation);
      const Tensor<float, 3> one = ask(subject, permuted).out;
      const Tensor<float, 3> other = permute_rows(answer.out, permutation);
      const auto [b_end, t_end, c_end] = one.shape();
      for (Index b = 0; b < b_end; ++b) {
        for (Index t = 0; t < t_end; ++t) {
          for (Index c = 0; c < c_end; ++c) {
            const double difference = std::fabs(one(b, t, c) - other(b, t, c));
            claim.within(difference, 2 * oracle.out_error(b, permutation(t), c), [&] {
              return where(b, t) + ", channel " + std::to_string(c) + ": f(P X) is " +
                     number(one(b, t, c)) + ", P f(X) " + number(other(b, t, c));
            });
          }
        }
      }
    }
  };
  look(plain, findings.bounded("$f(P X) = P f(X)$"));
  look(with_positions, findings.bounded("and still with positions in $X$ (the trap)"));
  return findings.verdict();
}
// end: thm-6.1

}  // namespace

Theorem thm_6_1() {
  return {
      .id = "thm-6.1",
      .title = "Without a mask, attention is equivariant",
      .statement =
          R"(Without the mask, $f(P X) = P f(X)$ for every permutation $P$ of the rows of )"
          R"($X$. This is a statement about $f$ as a function of $X$: it holds however )"
          R"($X$ was made, positional vectors included.)",
      .proof = R"(Queries, keys and values are made row by row, so they permute with $X$, and )"
               R"($S$ becomes $P S P^\top$. Softmax works on each row whatever the order of its )"
               R"(entries, so $A$ becomes $P A P^\top$; and $P A P^\top P V = P A V$.)",
      .execution = R"(Every exchange of neighbouring rows (these generate all permutations), the )"
                   R"(reversal and one random permutation, on $X$ and on $X$ with positional )"
                   R"(vectors added, in every batch element.)",
      .bound = R"(Twice what a float32 head may err in an output: the two sides are the same real )"
               R"(number, summed in two orders.)",
      .source = "Section 4.3, Theorem 6.1",
      .breaks = "reversed-when-unmasked",
      .code = thm_6_1_code,
      .check = check_equivariant,
  };
}

}  // namespace headproof
