// Corollary 6.2 for a black box: positions in the embedding break the symmetry of the map from
// tokens to outputs.

#include <algorithm>
#include <cmath>

#include "theorems/attention_lecture.h"

namespace headproof {
namespace {

/// The first channels of a row, zeros behind them where there are more.
void copy_row(View<const float, 1> from, View<float, 1> to) {
  const Index common = std::min(from.size(), to.size());
  std::copy_n(from.data, common, to.data);
  std::fill(to.data + common, to.data + to.size(), 0.0F);
}

/// q = k = v = x with x_t = E of the token at t, plus p_t: the problem's q are the embeddings of
/// its tokens, its k the positional vectors.
AttentionProblem embedded(const AttentionProblem& tables, const std::vector<Index>& tokens,
                          bool positions, Dtype dtype) {
  AttentionProblem problem = tables;
  const Index group = tables.num_heads() / tables.num_kv_heads(), dim = tables.head_dim();
  Tensor<float, 1> x({dim});
  for_each_row(tables, [&](Index b, Index h, Index t) {
    const Index kv = h / group, token = tokens[static_cast<std::size_t>(t)];
    for (Index c = 0; c < dim; ++c) {
      const float position = positions ? tables.k(b, kv, t, c) : 0;
      x(c) = rounded(tables.q(b, kv * group, token, c) + position, dtype);
    }
    copy_row(x, problem.q[b][h][t]);
    copy_row(x, problem.k[b][kv][t]);
    copy_row(x, problem.v[b][kv][t]);
  });
  return problem;
}

Verdict judge_positions_break_symmetry(Asker& asker, const AttentionProblem& tables) {
  if (auto none = no_sequence(tables)) return not_applicable(*none);
  const Index length = tables.seq_len_q();
  if (length == 1) return not_applicable("one position has one order");
  std::vector<Index> identity, rotation;
  for (Index t = 0; t < length; ++t) {
    identity.push_back(t);
    rotation.push_back((t + 1) % length);
  }
  // Both sides, tokens moved and rows moved, and whether they may and do differ.
  struct Sides {
    double error = 0, bound = 0, exact_share = 0, share = 0;
  };
  Findings findings;
  Checked& without = findings.bounded("tokens permuted, no positions: equivariant");
  const auto look = [&](bool positions) {
    const Dtype dtype = asker.domain.dtype;
    const AttentionProblem problem = embedded(tables, identity, positions, dtype);
    const AttentionProblem moved = embedded(tables, rotation, positions, dtype);
    const AttentionOracle oracle(problem, asker.domain, asker.conventions);
    const AttentionOracle moved_oracle(moved, asker.domain, asker.conventions);
    const Tensor<double, 4> out = asker.ask(problem).out, moved_out = asker.ask(moved).out;
    Sides worst;
    for_each_row(problem, [&](Index b, Index h, Index t) {
      const Index from = rotation[static_cast<std::size_t>(t)];
      for (Index c = 0; c < problem.value_dim(); ++c) {
        const double error = std::fabs(moved_out(b, h, t, c) - out(b, h, from, c));
        const double bound = moved_oracle.out_error(b, h, t, c) + oracle.out_error(b, h, from, c);
        const double exact =
            std::fabs(moved_oracle.stages.out(b, h, t, c) - oracle.stages.out(b, h, from, c));
        worst.exact_share = std::max(worst.exact_share, exact / bound);
        if (!(error / bound <= worst.share)) {
          worst.share = error / bound;
          worst.error = error;
          worst.bound = bound;
        }
        if (positions) continue;
        without.within(error, bound, [&] {
          return "q = k = v = the embeddings q, moved up by one: " + place(b, h, t, c) + " is " +
                 number(moved_out(b, h, t, c)) + ", and that row was " + number(out(b, h, from, c));
        });
      }
    });
    return worst;
  };
  look(false);
  const Sides with = look(true);
  if (with.exact_share > 10) {  // rounding cannot close the gap
    Checked& broken = findings.exact("tokens permuted, with positions: not equivariant");
    std::string sides =
        "q = k = v = the embeddings q plus the positions k, tokens moved up "
        "by one: the two sides differ by " +
        number(with.error) + ", rounding explains " + number(with.bound);
    broken.require(with.share > 1, [&] { return sides; });
    broken.note(sides);
  }
  return findings.verdict();
}

}  // namespace

AttentionTheorem attention_cor_6_2() {
  AttentionTheorem theorem = lecture_theorem("cor-6.2");
  theorem.bound =
      R"(What the two outputs may err (num-accuracy). A problem is a witness where the two sides of )"
      R"(the definition differ by more than ten times that: then those of the subject must differ )"
      R"(by more than that.)";
  theorem.claim = Claim::bounded;
  theorem.needs = {Feature::non_causal};
  theorem.regimes = {"gaussian", "one-hot", "lanes"};
  theorem.draw = [](Draw& draw) { return draw.problem(moderate_sizes(draw), false); };
  theorem.judge = judge_positions_break_symmetry;
  return theorem;
}

}  // namespace headproof
