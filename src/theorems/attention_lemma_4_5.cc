// Lemma 4.5 for a black box: scores are divided by sqrt(d_k).

#include <cmath>

#include "theorems/attention_lecture.h"

namespace headproof {
namespace {

/// What ln A may err where it was recovered; nothing where the weight may be mostly rounding.
std::optional<double> logarithm_error(const AttentionOracle& oracle, Index b, Index h, Index i,
                                      Index j) {
  const double share = oracle.recovered_error(b, h, i, j) / oracle.stages.A(b, h, i, j);
  if (!(share <= 0.5)) return std::nullopt;
  return -std::log1p(-share);
}

Verdict judge_scale(Asker& asker, const AttentionProblem& problem) {
  if (auto none = no_sequence(problem)) return not_applicable(*none);
  Findings findings;
  Checked& scores = findings.bounded("$\\ln A$ has the differences of $q k^\\top / \\sqrt{d_k}$");
  const Tensor<double, 4> A = asker.recover_A(problem);
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  const double root = std::sqrt(static_cast<double>(problem.head_dim()));
  double products = 0, squares = 0;
  Told worst = "";
  Index compared = 0;
  double largest_share = -1, error = 0, bound = 0;
  for_each_row(problem, [&](Index b, Index h, Index i) {
    Index m = 0;  // the key of the largest weight
    for (Index j = 1; j < visible_keys(problem, i); ++j) {
      if (oracle.stages.A(b, h, i, j) > oracle.stages.A(b, h, i, m)) m = j;
    }
    const auto error_m = logarithm_error(oracle, b, h, i, m);
    for (Index j = 0; error_m && j < visible_keys(problem, i); ++j) {
      const auto error_j = logarithm_error(oracle, b, h, i, j);
      if (j == m || !error_j) continue;
      ++compared;
      const double expected = oracle.stages.scores(b, h, i, j) - oracle.stages.scores(b, h, i, m);
      const double found = std::log(A(b, h, i, j)) - std::log(A(b, h, i, m));
      products += found * expected * root;
      squares += expected * expected * root * root;
      const double share = std::fabs(found - expected) / (*error_j + *error_m);
      if (share <= largest_share || std::isnan(largest_share)) continue;
      largest_share = share;
      error = std::fabs(found - expected);
      bound = *error_j + *error_m;
      worst = weight_place(b, h, i, j) + " against key " + std::to_string(m) +
              ": ln A differs by " + number(found) + ", the scores by " + number(expected);
    }
  });
  if (compared == 0) return not_applicable("no two weights of a row can be compared");
  const std::string scale = squares > 0 ? "the scale in use is " + number(products / squares) +
                                              ", 1 / sqrt(d_k) is " + number(1 / root)
                                        : "all scores of a row are equal";
  scores.within(error, bound, [&] { return worst + "; " + scale; });
  scores.note(scale);
  return findings.verdict();
}

}  // namespace

AttentionTheorem attention_lemma_4_5() {
  AttentionTheorem theorem = lecture_theorem("lemma-4.5");
  theorem.statement =
      R"($\ln A_{ij} - \ln A_{im} = (q_i \cdot k_j - q_i \cdot k_m) / \sqrt{d_k}$ for any two keys )"
      R"(that query $i$ may see: the scores are the products of queries and keys, divided by )"
      R"($\sqrt{d_k}$, which takes out the variance $d_k$ that they have if the entries of $q$ and )"
      R"($k$ are independent with mean 0 and variance 1.)";
  theorem.bound =
      R"($-\ln(1 - a_{ij} / A_{ij}) - \ln(1 - a_{im} / A_{im})$, with $a$ what a recovered weight )"
      R"(may err (num-accuracy, and the rounding of the output) and $m$ the key of the row's )"
      R"(largest weight; weights with $a_{ij} > A_{ij} / 2$ are left out.)";
  theorem.claim = Claim::bounded;
  theorem.regimes = {"gaussian", "one-hot", "lanes", "long"};
  theorem.draw = [](Draw& draw) {
    return draw.problem(moderate_sizes(draw), draw.either_causal());
  };
  theorem.judge = judge_scale;
  return theorem;
}

}  // namespace headproof
