// Exercise 7 for a black box: the score matrix has rank at most d_k.

#include <algorithm>
#include <cmath>

#include "theorems/attention_lecture.h"
#include "theorems/singular_values.h"

namespace headproof {
namespace {

/// Rows and columns of A that hold no masked weight: all, or the lower left quarter.
struct Block {
  Index first_row, rows, columns;
};
Block unmasked_block(const AttentionProblem& problem) {
  const Index length = problem.seq_len_q();
  if (problem.causal == Causal::none) return {0, length, length};
  const Index half = length / 2;  // row `half` sees half + 1 keys
  return {half, length - half, half + 1};
}

Index above(const std::vector<double>& values, double noise) {
  return std::count_if(values.begin(), values.end(),
                       [&](double value) { return !(value <= noise); });
}

Verdict judge_rank(Asker& asker, const AttentionProblem& problem) {
  if (auto none = no_sequence(problem)) return not_applicable(*none);
  const Block block = unmasked_block(problem);
  if (block.columns < 2) return not_applicable("one key has no differences");
  Findings findings;
  Checked& ranks = findings.exact(
      "differences of the columns of $\\ln A$ have the rank of those of $S$, at "
      "most $d_k$");
  const Tensor<double, 4> A = asker.recover_A(problem);
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  const Index most = std::min({problem.head_dim(), block.columns - 1, block.rows});
  std::string note;
  for (Index b = 0; b < problem.batch(); ++b) {
    for (Index h = 0; h < problem.num_heads(); ++h) {
      // ln A = S - lse 1^T: taking column 0 from the others removes lse.
      Tensor<double, 2> found({block.rows, block.columns - 1}), exact(found.shape());
      double noise_squared = 0;
      for (Index r = 0; r < block.rows; ++r) {
        const Index i = block.first_row + r;
        const auto error = [&](Index j) {
          return -std::log1p(
              -std::min(1.0, oracle.recovered_error(b, h, i, j) / oracle.stages.A(b, h, i, j)));
        };
        for (Index j = 1; j < block.columns; ++j) {
          found(r, j - 1) = std::log(A(b, h, i, j)) - std::log(A(b, h, i, 0));
          exact(r, j - 1) = oracle.stages.scores(b, h, i, j) - oracle.stages.scores(b, h, i, 0);
          noise_squared += (error(j) + error(0)) * (error(j) + error(0));
        }
      }
      // Weyl: rounding moves no singular value by more than the norm of what it adds.
      const double noise = std::sqrt(noise_squared);
      if (!std::isfinite(noise)) return not_applicable("a weight is too small for a logarithm");
      const Index rank = above(singular_values(found), noise);
      const Index least = std::min(most, above(singular_values(exact), 100 * noise));
      ranks.require(least <= rank && rank <= most, [&] {
        return told({Place::Result::A, b, h, block.first_row}) + " and those below: rank " +
               std::to_string(rank) + ", the definition gives " + std::to_string(least) +
               (least < most ? " to " + std::to_string(most) : "") +
               " with d_k = " + std::to_string(problem.head_dim()) +
               " and T = " + std::to_string(problem.seq_len_q());
      });
    }
  }
  return findings.verdict();
}

}  // namespace

AttentionTheorem attention_ex_7() {
  AttentionTheorem theorem = lecture_theorem("ex-7");
  theorem.statement =
      R"($S = q k^\top / \sqrt{d_k}$ has rank at most $\min(d_k, T)$, whatever the length $T$, and )"
      R"(exactly that for almost all inputs. Differences of columns of $\ln A$ are those of $S$, of )"
      R"(rank $\min(d_k, T - 1)$; with a causal mask this is seen where no key is masked, in rows )"
      R"(from $T / 2$ on and keys up to there.)";
  theorem.bound =
      R"(A singular value counts as 0 when it is no larger than the Frobenius norm of the rounding )"
      R"(errors that $\ln A$ may carry (Weyl's inequality); one that the definition has above a )"
      R"(hundred times that must be seen.)";
  theorem.claim = Claim::exact;
  theorem.regimes = {"gaussian", "lanes"};
  theorem.draw = [](Draw& draw) {
    return draw.problem(moderate_sizes(draw), draw.either_causal());
  };
  theorem.judge = judge_rank;
  return theorem;
}

}  // namespace headproof
