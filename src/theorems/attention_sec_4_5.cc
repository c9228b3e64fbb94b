// Section 4.5 for a black box: scores that depend on positions alone make attention a kernel
// smoother.

#include <algorithm>
#include <cmath>

#include "theorems/attention_lecture.h"

namespace headproof {
namespace {

/// q_t = sqrt(d) (t, 1, 0, ...) and k_t = (t / s^2, -t^2 / (2 s^2), 0, ...), rounded to the dtype:
/// with the default scale 1 / sqrt(d) the scores are -(i - j)^2 / (2 s^2) plus a constant of the
/// row, which the softmax ignores. Infinite s gives keys 0.
void set_kernel(AttentionProblem& problem, double s, Dtype dtype) {
  const double root = std::sqrt(static_cast<double>(problem.head_dim()));
  const auto fill = [&](Tensor<float, 4>& tensor, const auto& first, const auto& second) {
    std::fill(tensor.begin(), tensor.end(), 0.0F);
    for (Index b = 0; b < tensor.shape()[0]; ++b) {
      for (Index h = 0; h < tensor.shape()[1]; ++h) {
        for (Index t = 0; t < tensor.shape()[2]; ++t) {
          const auto position = static_cast<double>(t);
          tensor(b, h, t, 0) = rounded(static_cast<float>(first(position)), dtype);
          tensor(b, h, t, 1) = rounded(static_cast<float>(second(position)), dtype);
        }
      }
    }
  };
  fill(
      problem.q, [&](double t) { return root * t; }, [&](double) { return root; });
  fill(
      problem.k, [&](double t) { return t / (s * s); },
      [&](double t) { return -t * t / (2 * s * s); });
}

/// 1 / s^2 where q and k are those of a Gaussian kernel between positions, up to the rounding of
/// each number: q_t = c (t, 1, 0, ...), whatever c is. Positions may be missing.
std::optional<double> kernel_of(const AttentionProblem& problem, Dtype dtype) {
  if (problem.head_dim() < 2) return std::nullopt;
  const double close = 4 * roundoff_of(dtype).output;
  const double factor = problem.q(0, 0, 0, 1);
  std::optional<double> inverse;
  bool fits = factor > 0;
  const auto equal = [&](double a, double b) { return std::fabs(a - b) <= close * std::fabs(b); };
  const auto others_are_0 = [&](View<const float, 1> row) {
    return std::all_of(row.data + 2, row.data + row.size(), [](float x) { return x == 0; });
  };
  for_each_row(problem, [&](Index b, Index h, Index t) {
    const Index kv = h / (problem.num_heads() / problem.num_kv_heads());
    const View<const float, 1> q = std::as_const(problem.q)[b][h][t];
    const View<const float, 1> k = std::as_const(problem.k)[b][kv][t];
    const double position = q(0) / factor;
    fits = fits && equal(q(1), factor) && others_are_0(q) && others_are_0(k) && position >= 0;
    if (position > 0 && !inverse) inverse = k(0) / position;
    fits = fits && equal(k(0), inverse.value_or(0) * position) &&
           equal(k(1), -inverse.value_or(0) * position * position / 2);
  });
  if (!fits) return std::nullopt;
  return inverse.value_or(0) * factor / std::sqrt(static_cast<double>(problem.head_dim()));
}

Verdict judge_kernel_smoothing(Asker& asker, const AttentionProblem& problem) {
  if (auto none = no_sequence(problem)) return not_applicable(*none);
  const auto inverse = kernel_of(problem, asker.domain.dtype);
  if (!inverse) return not_applicable("q and k are not those of a kernel between positions");
  Findings findings;
  Checked& kernel = findings.bounded(
      *inverse == 0 ? "keys 0: every row is a mean over the keys it may see"
                    : "positional $q$ and $k$: row $i$ is the Gaussian, normalised");
  const Tensor<double, 4> A = asker.recover_A(problem);
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  for_each_row(problem, [&](Index b, Index h, Index i) {
    for (Index j = 0; j < problem.seq_len_k(); ++j) {
      const double weight = A(b, h, i, j), expected = oracle.stages.A(b, h, i, j);
      kernel.within(std::fabs(weight - expected), oracle.recovered_error(b, h, i, j), [&] {
        return "bandwidth " + number(1 / std::sqrt(*inverse)) + ", " + weight_place(b, h, i, j) +
               ": " + number(weight) + ", the kernel is " + number(expected);
      });
    }
  });
  return findings.verdict();
}

AttentionProblem draw_kernel(Draw& draw) {
  constexpr double bandwidths[] = {0.5, 1, 2, 8, INFINITY};
  Sizes sizes = moderate_sizes(draw);
  sizes.head_dim = draw.dim(std::max<Index>(2, sizes.head_dim));
  if (!draw.domain.features.has(Feature::value_dim)) sizes.value_dim = sizes.head_dim;
  AttentionProblem problem = draw.problem(sizes, draw.either_causal());
  if (problem.head_dim() >= 2) set_kernel(problem, bandwidths[draw.below(5)], draw.domain.dtype);
  return problem;
}

}  // namespace

AttentionTheorem attention_sec_4_5() {
  AttentionTheorem theorem = lecture_theorem("sec-4.5");
  theorem.statement =
      R"(If the scores depend on positions alone, $S_{ij} = -(i - j)^2 / (2 s^2)$, row $i$ of $A$ is )"
      R"(the Gaussian of bandwidth $s$ over the keys that $i$ may see, divided by its sum: attention )"
      R"(is Nadaraya-Watson smoothing along the sequence; with $s = \infty$ it is a running mean. )"
      R"(The queries $\sqrt{d_k} (i, 1)$ and keys $(j / s^2, -j^2 / (2 s^2))$, zeros behind them, )"
      R"(reach these scores up to a constant of the row.)";
  theorem.bound =
      R"(What a recovered weight may err (num-accuracy, and the rounding of the output), against )"
      R"(the kernel of the queries and keys as the dtype rounds them.)";
  theorem.claim = Claim::bounded;
  theorem.regimes = {"gaussian", "lanes"};
  theorem.draw = draw_kernel;
  theorem.judge = judge_kernel_smoothing;
  return theorem;
}

}  // namespace headproof
