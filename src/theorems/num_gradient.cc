// num-gradient: d_q, d_k and d_v are the gradients of what the forward pass computes.

#include "theorems/attention_gradient_oracle.h"
#include "theorems/num_common.h"

namespace headproof {
namespace {

AttentionProblem draw_gradient(Draw& draw) {
  const Features& has = draw.domain.features;
  Sizes sizes = draw.rectangular_sizes();
  if (has.has(Feature::grouped_heads) && draw.chance(3)) sizes.num_heads = 2 * sizes.num_kv_heads;
  const bool causal = draw.either_causal();
  AttentionProblem problem = draw.problem(modest(draw, sizes), causal);
  if (draw.chance(2)) hide_keys(draw, problem);
  if (has.has(Feature::scale) && draw.chance(4)) add_scale(draw, problem);
  if (has.has(Feature::softcap) && draw.chance(4)) add_softcap(draw, problem);
  add_d_out(draw, problem);
  return problem;
}

void compare_gradient(Checked& claim, Place::Result result, const Tensor<double, 4>& got,
                      const Tensor<double, 4>& expected, const Tensor<double, 4>& error) {
  for (Index at = 0; at < got.size(); ++at) {
    const double value = got.data()[at], right = expected.data()[at];
    claim.within(std::fabs(value - right), error.data()[at], [&] {
      return told(place_of(got, at, {.result = result})) + ": " + number(value) +
             ", the definition gives " + number(right);
    });
  }
}

/// Which rows of d_q, and which of d_k and d_v, hold anything.
struct Reached {
  Tensor<bool, 3> queries, keys;
  Reached(const AttentionProblem& problem, const Conventions& conventions,
          const AttentionOracle& oracle)
      : queries({problem.batch(), problem.num_heads(), problem.seq_len_q()}),
        keys({problem.batch(), problem.num_kv_heads(), problem.seq_len_k()}) {
    for (Index b = 0; b < problem.batch(); ++b) {
      for (Index h = 0; h < problem.num_heads(); ++h) {
        const Index kv = kv_head(problem, conventions, h);
        for (Index i = 0; i < problem.seq_len_q(); ++i) {
          bool any = false;
          for (Index c = 0; c < problem.value_dim(); ++c) any |= (*problem.d_out)(b, h, i, c) != 0;
          queries(b, h, i) = any;
          for (Index j = 0; j < problem.seq_len_k() && any; ++j) {
            if (oracle.allowed(b, h, i, j)) keys(b, kv, j) = true;
          }
        }
      }
    }
  }
};

void require_zeros(Checked& claim, Place::Result result, const Tensor<double, 4>& gradient,
                   const Tensor<bool, 3>& reached) {
  const Index dim = gradient.shape()[3];
  for (Index at = 0; at < gradient.size(); ++at) {
    const double value = gradient.data()[at];
    claim.require(reached.data()[at / dim] || value == 0, [&] {
      return told(place_of(gradient, at, {.result = result})) + ": " + number(value);
    });
  }
}

/// <d_out, out> = <d_v, v>, as out is linear in v.
void compare_products(Checked& claim, const AttentionProblem& problem,
                      const AttentionAnswer& answer, const AttentionOracle& forward,
                      const AttentionGradientOracle& backward) {
  double left = 0, right = 0, bound = 0;
  for (Index at = 0; at < answer.out.size(); ++at) {
    if (problem.d_out->data()[at] == 0) continue;
    left += problem.d_out->data()[at] * answer.out.data()[at];
    bound += std::fabs(problem.d_out->data()[at]) * forward.out_error.data()[at];
  }
  for (Index at = 0; at < problem.v.size(); ++at) {
    const double v = problem.v.data()[at];
    if (v == 0) continue;
    right += answer.gradients->d_v.data()[at] * v;
    bound += backward.errors.d_v.data()[at] * std::fabs(v);
  }
  claim.within(std::fabs(left - right), bound,
               [&] { return number(left) + " and " + number(right); });
}

Verdict judge_gradient(Asker& asker, const AttentionProblem& problem) {
  if (auto open = open_question(asker, problem)) return not_applicable(*open);
  if (!problem.d_out) return not_applicable("there is no loss");
  Findings findings;
  Checked& zeros = findings.exact("what no query with a gradient sees has gradient 0");
  Checked& close = findings.bounded("$d_q$, $d_k$ and $d_v$ are those of the definition");
  Checked& adjoint = findings.bounded("$\\langle d_o, o \\rangle = \\langle d_v, v \\rangle$");
  const AttentionOracle forward(problem, asker.domain, asker.conventions);
  AttentionProblem asked = problem;
  leave_out_empty_rows(*asked.d_out, forward);
  const AttentionGradientOracle backward(asked, asker.domain, asker.conventions, forward);
  const AttentionAnswer answer = asker.ask(asked);
  const AttentionGradients<double>& got = *answer.gradients;
  const AttentionGradients<double>&right = backward.gradients, &error = backward.errors;
  const Reached reached(asked, asker.conventions, forward);
  using Result = Place::Result;
  require_zeros(zeros, Result::d_q, got.d_q, reached.queries);
  require_zeros(zeros, Result::d_k, got.d_k, reached.keys);
  require_zeros(zeros, Result::d_v, got.d_v, reached.keys);
  compare_gradient(close, Result::d_q, got.d_q, right.d_q, error.d_q);
  compare_gradient(close, Result::d_k, got.d_k, right.d_k, error.d_k);
  compare_gradient(close, Result::d_v, got.d_v, right.d_v, error.d_v);
  compare_products(adjoint, asked, answer, forward, backward);
  return findings.verdict();
}

}  // namespace

AttentionTheorem num_gradient() {
  return {
      .id = "num-gradient",
      .title = "Gradients are those of the definition",
      .statement =
          R"($d_q$, $d_k$ and $d_v$ are the gradients of $\sum d_o\, o$ under the options of the )"
          R"(forward pass. A key that no query with a nonzero $d_o$ sees has $d_k = d_v = 0$, a )"
          R"(query whose $d_o$ is 0 has $d_q = 0$, one without keys among them; and as out is )"
          R"(linear in $v$, $\langle d_o, o \rangle = \langle d_v, v \rangle$.)",
      .bound =
          R"(Through the chain of the backward pass: the weights as in num-accuracy and once more )"
          R"(by the error of lse; $d_A = d_o v^\top$ with $d_v + 2$ roundings; )"
          R"($\delta = \sum_j A_j d_{A,j}$ or $d_o \cdot o$, whichever errs more; )"
          R"($d_s = A\,(d_A - \delta)$, times $1 - \tanh^2$ under a softcap; one rounding of )"
          R"($A$ and $d_s$ to the dtype of the weights; and $n + 4$ roundings of each sum over )"
          R"($n$ keys or queries. For the products $\sum |d_o| e_o + \sum |v| e_{d_v}$.)",
      .claim = Claim::bounded,
      .needs = {Feature::backward},
      .regimes = {"gaussian", "single", "one-hot", "tied", "lanes", "long", "tiny"},
      .draw = draw_gradient,
      .judge = judge_gradient,
  };
}

}  // namespace headproof
