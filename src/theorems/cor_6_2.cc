// Corollary 6.2: positions in the embedding break the symmetry of the map from tokens to outputs.

#include <cmath>

#include "theorems/findings.h"
#include "theorems/oracle.h"
#include "theorems/results.h"

namespace headproof {
namespace {

// begin: cor-6.2
Verdict check_positions_break_symmetry(const Subject& subject, const HeadProblem& given) {
  const Index seq_len = given.x.shape()[1], model_dim = given.x.shape()[2];
  Generator generator(63);
  const Embedding token(65, model_dim, generator), position(seq_len, model_dim, generator);
  Tensor<Index, 1> ids({seq_len}), rotated_ids({seq_len}), places({seq_len}), rotation({seq_len});
  for (Index t = 0; t < seq_len; ++t) {
    ids(t) = (7 * t + 3) % 65;
    places(t) = t;
    rotation(t) = (t + 1) % seq_len;
  }
  for (Index t = 0; t < seq_len; ++t) rotated_ids(t) = ids(rotation(t));

  if (seq_len == 1) return not_applicable("one position has one order");

  // (tokens, position weight) -> problem: x_t = E[token_t] + weight * p_t.
  const auto embed = [&](const Tensor<Index, 1>& tokens, float weight) {
    HeadProblem problem{token(tokens), given.weights, false};
    const Tensor<float, 3> p = position(places);
    for (Index t = 0; t < seq_len; ++t) {
      for (Index m = 0; m < model_dim; ++m) problem.x(0, t, m) += weight * p(0, t, m);
    }
    return problem;
  };
  // Both sides, and the largest difference as a share of what rounding may do; NaN if any is NaN.
  struct Difference {
    double share = 0, error = 0, bound = 0, exact_share = 0;
  };
  const auto difference = [&](float weight) {
    const HeadProblem problem = embed(ids, weight), permuted = embed(rotated_ids, weight);
    const Oracle oracle(problem), permuted_oracle(permuted);
    const Tensor<float, 3> one = ask(subject, permuted).out;
    const Tensor<float, 3> other = permute_rows(ask(subject, problem).out, rotation);
    Difference found;
    for (Index t = 0; t < seq_len; ++t) {
      for (Index c = 0; c < one.shape()[2]; ++c) {
        const double error = std::fabs(one(0, t, c) - other(0, t, c));
        const double bound =
            permuted_oracle.out_error(0, t, c) + oracle.out_error(0, rotation(t), c);
        const double exact =
            std::fabs(permuted_oracle.out(0, t, c) - oracle.out(0, rotation(t), c));
        found.exact_share = std::max(found.exact_share, exact / bound);
        if (std::isnan(found.share) || error / bound <= found.share) continue;
        found.share = error / bound;
        found.error = error;
        found.bound = bound;
      }
    }
    return found;
  };

  Findings findings;
  const Difference without = difference(0), with = difference(1);
  findings.bounded("tokens permuted, no positions: equivariant")
      .within(without.error, without.bound,
              [&] { return "the two sides differ by " + number(without.error); });
  std::string sides =
      "the two sides differ by " + number(with.error) + ", rounding explains " + number(with.bound);
  if (with.exact_share <= 100) {
    return not_applicable("these weights hardly tell positions apart; " + sides);
  }
  Checked& broken = findings.exact("tokens permuted, with positions: not equivariant");
  broken.require(with.share > 100, [&] { return sides; });
  broken.note(sides);
  return findings.verdict();
}
// end: cor-6.2

}  // namespace

Theorem cor_6_2() {
  return {
      .id = "cor-6.2",
      .title = "Positions break the symmetry, one step earlier",
      .statement =
          R"(Without the mask, the map from tokens to outputs through )"
          R"($\iota(x)_t = E_{x_t} + p_t$ is equivariant if the positional vectors $p_t$ are )"
          R"(left out, and in general is not with them: there are tokens and a permutation )"
          R"(for which the two sides differ.)",
      .proof =
          R"(Without $p$, permuting tokens permutes the rows of $X$, and thm-6.1 applies. )"
          R"(With $p$, the permuted text has $E_{x_{\pi(t)}} + p_t$ in row $t$, where )"
          R"(permuted rows would have $E_{x_{\pi(t)}} + p_{\pi(t)}$: the position stays while )"
          R"(the token moves. For given $p$ and weights, one text for which the outputs differ is proof.)",
      .execution =
          R"(Tokens, not rows, move up by one place. Without positions the two sides must agree; )"
          R"(with them a witness must be found: an output that differs by more than a )"
          R"(hundred times what rounding explains.)",
      .bound = R"(Twice what a float32 head may err in an output, as in thm-6.1.)",
      .source = "Section 4.3, Corollary 6.2",
      .breaks = "zero-scores",
      .code = cor_6_2_code,
      .check = check_positions_break_symmetry,
  };
}

}  // namespace headproof
