// Theorem 6.1 for a black box: without a mask, attention is equivariant under permutations.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "theorems/attention_lecture.h"

namespace headproof {
namespace {

/// Exchanges of neighbours, which generate every permutation (of longer sequences three of them);
/// the reversal; one at random.
std::vector<std::vector<Index>> permutations(Index n) {
  std::vector<Index> identity(static_cast<std::size_t>(n));
  std::iota(identity.begin(), identity.end(), 0);
  std::vector<std::vector<Index>> list;
  const Index step = n <= 8 ? 1 : n / 3;
  for (Index t = 0; t + 1 < n; t += step) {
    list.push_back(identity);
    std::swap(list.back()[static_cast<std::size_t>(t)],
              list.back()[static_cast<std::size_t>(t + 1)]);
  }
  list.emplace_back(identity.rbegin(), identity.rend());
  const Tensor<Index, 1> random = Generator(61).randperm(n);
  list.emplace_back(random.begin(), random.end());
  return list;
}

Verdict judge_equivariant(Asker& asker, const AttentionProblem& problem) {
  if (auto none = no_sequence(problem)) return not_applicable(*none);
  Findings findings;
  Checked& equivariant = findings.bounded("$f(P q, P k, P v) = P f(q, k, v)$");
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  const Tensor<double, 4> out = asker.ask(problem).out;
  for (const std::vector<Index>& permutation : permutations(problem.seq_len_q())) {
    AttentionProblem permuted = problem;
    for (auto member : {&AttentionProblem::q, &AttentionProblem::k, &AttentionProblem::v}) {
      permuted.*member = permuted_rows(problem.*member, permutation);
    }
    const Tensor<double, 4> one = asker.ask(permuted).out, other = permuted_rows(out, permutation);
    for_each_row(problem, [&](Index b, Index h, Index t) {
      const Index from = permutation[static_cast<std::size_t>(t)];
      for (Index c = 0; c < problem.value_dim(); ++c) {
        const double left = one(b, h, t, c), right = other(b, h, t, c);
        equivariant.within(std::fabs(left - right), 2 * oracle.out_error(b, h, from, c), [&] {
          std::string order;
          for (Index row : permutation) order += (order.empty() ? "" : ", ") + std::to_string(row);
          return "rows in the order " + order + ": " + place(b, h, t, c) + " is " + number(left) +
                 ", and in the old order that row was " + number(right);
        });
      }
    });
  }
  return findings.verdict();
}

}  // namespace

AttentionTheorem attention_thm_6_1() {
  AttentionTheorem theorem = lecture_theorem("thm-6.1");
  theorem.statement =
      R"(Without the mask, $f(P q, P k, P v) = P f(q, k, v)$ for every permutation $P$ of the )"
      R"(positions: attention knows of no order.)";
  theorem.bound =
      R"(Twice what an output may err (num-accuracy): the two sides are the same real number, )"
      R"(summed in two orders.)";
  theorem.claim = Claim::bounded;
  theorem.needs = {Feature::non_causal};
  theorem.draw = [](Draw& draw) { return draw.problem(moderate_sizes(draw), false); };
  theorem.judge = judge_equivariant;
  return theorem;
}

}  // namespace headproof
