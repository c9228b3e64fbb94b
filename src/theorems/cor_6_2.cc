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

  // (tokens, position weight) -> problem: x_t = E[token_t] + weight * p_t.
  const auto embed = [&](const Tensor<Index, 1>& tokens, float weight) {
    HeadProblem problem{token(tokens), given.weights, false};
    const Tensor<float, 3> p = position(places);
    for (Index t = 0; t < seq_len; ++t) {
      for (Index m = 0; m < model_dim; ++m) problem.x(0, t, m) += weight * p(0, t, m);
    }
    return problem;
  };
  // The largest difference between the two sides, as a multiple of what rounding may do.
  const auto difference = [&](float weight, double& largest, double& bound) {
    const HeadProblem problem = embed(ids, weight);
    const Oracle oracle(problem);
    const Tensor<float, 3> one = ask(subject, embed(rotated_ids, weight)).out;
    const Tensor<float, 3> other = permute_rows(ask(subject, problem).out, rotation);
    double share = -1;
    for (Index t = 0; t < seq_len; ++t) {
      for (Index c = 0; c < one.shape()[2]; ++c) {
        const double error = std::fabs(one(0, t, c) - other(0, t, c));
        const double allowed = 2 * oracle.out_error(0, rotation(t), c);
        if (error / allowed <= share) continue;
        share = error / allowed;
        largest = error;
        bound = allowed;
      }
    }
  };

  Findings findings;
  double error = 0, bound = 0;
  difference(0, error, bound);
  findings.bounded("tokens permuted, no positions: equivariant").within(error, bound, [&] {
    return "the two sides differ by " + number(error);
  });
  Checked& broken = findings.exact("tokens permuted, with positions: not equivariant");
  difference(1, error, bound);
  const std::string sides =
      "the two sides differ by " + number(error) + ", rounding explains " + number(bound);
  broken.require(error > 100 * bound, [&] { return sides; });
  broken.note(sides);
  return findings.verdict();
}
// end: cor-6.2

}  // namespace

Theorem cor_6_2() {
  return {
      .id = "cor-6.2",
      .title = "Positions break the symmetry, one step earlier",
      .statement = R"(The map from tokens to outputs through $\iota(x)_t = E_{x_t} + p_t$ is )"
                   R"(equivariant without the positional vectors $p_t$, and is not with them: )"
                   R"(there are tokens and a permutation for which the two sides differ.)",
      .proof =
          R"(Without $p$, permuting tokens permutes the rows of $X$, and thm-6.1 applies. )"
          R"(With $p$, the permuted text has $E_{x_{\pi(t)}} + p_t$ in row $t$, where )"
          R"(permuted rows would have $E_{x_{\pi(t)}} + p_{\pi(t)}$: the position stays while )"
          R"(the token moves. One text for which the outputs differ proves the rest.)",
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
