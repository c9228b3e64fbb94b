// Corollary 3.2 for a black box: outputs lie in the convex hull of the values that the query may
// see.

#include <algorithm>
#include <cmath>

#include "theorems/attention_lecture.h"

namespace headproof {
namespace {

/// Directions in which the hull is looked at: each axis both ways, and some oblique ones.
Tensor<double, 2> directions(Index dim) {
  const Index oblique = std::min<Index>(2 * dim, 16);
  const Tensor<float, 2> drawn = Generator(32).randn(oblique, dim);
  Tensor<double, 2> all({2 * dim + oblique, dim});
  for (Index c = 0; c < dim; ++c) {
    all(2 * c, c) = 1;
    all(2 * c + 1, c) = -1;
  }
  std::copy(drawn.begin(), drawn.end(), all[2 * dim].data);
  return all;
}

/// Whether out lies in the hull of the allowed values of head h, whatever the weights are.
void look_at_hull(const AttentionProblem& problem, const Tensor<double, 4>& out, Index b, Index h,
                  Index kv_head, const Roundoff& u, Checked& hull) {
  const Index keys = problem.seq_len_k(), channels = problem.value_dim();
  const Tensor<double, 2> all = directions(channels);
  std::vector<double> largest(static_cast<std::size_t>(channels));
  std::vector<double> farthest(static_cast<std::size_t>(all.shape()[0]), -INFINITY);
  Index seen = 0;
  for (Index i = 0; i < problem.seq_len_q(); ++i) {
    if (visible_keys(problem, i) == 0) continue;
    // Rows see more and more keys, so that each key is met once.
    for (const Index visible = visible_keys(problem, i); seen < std::min(visible, keys); ++seen) {
      for (Index c = 0; c < channels; ++c) {
        double& most = largest[static_cast<std::size_t>(c)];
        most = std::max(most, static_cast<double>(std::fabs(problem.v(b, kv_head, seen, c))));
      }
      for (Index w = 0; w < all.shape()[0]; ++w) {
        double along = 0;
        for (Index c = 0; c < channels; ++c) along += all(w, c) * problem.v(b, kv_head, seen, c);
        double& most = farthest[static_cast<std::size_t>(w)];
        most = std::max(most, along);
      }
    }
    const double relative = row_sum_error(seen, u) + static_cast<double>(seen + 2) * u.accumulator;
    const double smallest = static_cast<double>(seen + 2) * u.smallest;
    for (Index w = 0; w < all.shape()[0]; ++w) {
      double along = 0, bound = 0;
      for (Index c = 0; c < channels; ++c) {
        if (all(w, c) == 0) continue;
        along += all(w, c) * out(b, h, i, c);
        bound +=
            std::fabs(all(w, c)) * (relative * largest[static_cast<std::size_t>(c)] + smallest);
      }
      const double most = farthest[static_cast<std::size_t>(w)];
      hull.within(along <= most ? 0 : along - most, bound, [&] {
        const bool axis = w < 2 * channels;
        return row_place(b, h, i) + (axis ? ", channel " + std::to_string(w / 2) : "") +
               ": out reaches " + number(axis && w % 2 == 1 ? -along : along) +
               ", and no allowed value is beyond " + number(axis && w % 2 == 1 ? -most : most) +
               (axis ? "" : " in an oblique direction");
      });
    }
  }
}

Verdict judge_hull(Asker& asker, const AttentionProblem& problem) {
  if (auto none = no_numbers(problem)) return not_applicable(*none);
  Findings findings;
  Checked& hull = findings.bounded("out lies in the hull of the allowed values, every direction");
  AttentionProblem asked = problem;
  asked.want_weights = asker.has(Feature::weights);
  const AttentionAnswer answer = asker.ask(asked);
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  const Roundoff u = roundoff_of(asker.domain.dtype);
  for (Index b = 0; b < problem.batch(); ++b) {
    for (Index h = 0; h < problem.num_heads(); ++h) {
      look_at_hull(problem, answer.out, b, h, oracle.kv_head(h), u, hull);
    }
  }
  std::optional<Weights> weights;
  try {
    weights = weights_of(asker, problem);
  } catch (const Refused& refused) {
    if (refused.refusal.kind != Refusal::Kind::unsupported) throw;
    return findings.verdict();  // a recording without A
  }
  const Tensor<double, 4>& A = weights->A;
  Checked& recomputed = findings.bounded(weights->shown ? "out is $A v$ with the $A$ that is shown"
                                                        : "out is $A v$ with the $A$ that is used");
  for_each_row(problem, [&](Index b, Index h, Index i) {
    if (visible_keys(problem, i) == 0) return;
    for (Index c = 0; c < problem.value_dim(); ++c) {
      double mixed = 0, bound = oracle.out_error(b, h, i, c);
      for (Index j = 0; j < visible_keys(problem, i); ++j) {
        const double value = problem.v(b, oracle.kv_head(h), j, c);
        mixed += A(b, h, i, j) * value;
        bound += oracle.recovered_error(b, h, i, j) * std::fabs(value);
      }
      recomputed.within(std::fabs(answer.out(b, h, i, c) - mixed), bound, [&] {
        return place(b, h, i, c) + ": " + number(answer.out(b, h, i, c)) + ", A v is " +
               number(mixed);
      });
    }
  });
  if (answer.weights && !weights->shown) {
    Checked& shown = findings.bounded("the $A$ that is shown is the $A$ that is used");
    for_each_row(problem, [&](Index b, Index h, Index i) {
      for (Index j = 0; j < problem.seq_len_k(); ++j) {
        const double one = (*answer.weights)(b, h, i, j), other = A(b, h, i, j);
        const double bound = oracle.weight_error(b, h, i, j) + oracle.recovered_error(b, h, i, j);
        shown.within(std::fabs(one - other), bound, [&] {
          return weight_place(b, h, i, j) + ": shown " + number(one) + ", used " + number(other);
        });
      }
    });
  }
  return findings.verdict();
}

}  // namespace

AttentionTheorem attention_cor_3_2() {
  AttentionTheorem theorem = lecture_theorem("cor-3.2");
  theorem.bound =
      R"(Along $w$: $\sum_c |w_c| \max_j |v_{jc}|$ times what a row's sum may be away from 1 )"
      R"((prop-3.1) and $(n + 2)\,u$ for the mean of $n$ values; weights don't enter. For out )"
      R"(against $A v$: what the output may err (num-accuracy) and $\sum_j a_{ij} |v_j|$, as $A$ )"
      R"(was recovered in another run. For the $A$ that is shown, twice what a weight may err.)";
  theorem.claim = Claim::bounded;
  theorem.draw = [](Draw& draw) {
    return draw.problem(moderate_sizes(draw), draw.either_causal());
  };
  theorem.judge = judge_hull;
  return theorem;
}

}  // namespace headproof
