// Proposition 5.1 for a black box: the causal mask makes A lower-triangular, and attention causal.

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "theorems/attention_lecture.h"

namespace headproof {
namespace {

/// Longer sequences are asked about fewer positions, and without an oracle.
constexpr Index short_length = 20;

void require_triangular(const AttentionProblem& problem, const Tensor<double, 4>& A,
                        Checked& triangular) {
  const auto [batch, heads, rows, keys] = A.shape();
  for (Index b = 0; b < batch; ++b) {
    for (Index h = 0; h < heads; ++h) {
      for (Index i = 0; i < rows; ++i) {
        const Index visible = visible_keys(problem, i);
        if (visible == 0) continue;  // a convention says what is there
        for (Index j = visible; j < keys; ++j) {
          const double weight = A(b, h, i, j);
          triangular.require(weight == 0, [b = b, h = h, i, j, weight] {
            return weight_place(b, h, i, j) + ": " + number(weight);
          });
        }
      }
    }
  }
}

/// The positions that are moved: all of a few, else the ends and some between.
std::vector<Index> positions(Index length) {
  std::vector<Index> all;
  if (length <= 8) {
    for (Index j = 0; j < length; ++j) all.push_back(j);
  } else {
    all = {0, 1, length / 3, length / 2, length - 2, length - 1};
  }
  return all;
}

/// q_j, k_j and v_j become others, in every batch element and head.
AttentionProblem with_moved(const AttentionProblem& problem, Index j, Dtype dtype) {
  AttentionProblem moved = problem;
  Generator generator(51 + static_cast<std::uint64_t>(j));
  for (Tensor<float, 4>* tensor : {&moved.q, &moved.k, &moved.v}) {
    const auto [batch, heads, length, dim] = tensor->shape();
    const Tensor<float, 3> row = generator.randn(batch, heads, dim);
    for (Index b = 0; b < batch; ++b) {
      for (Index h = 0; h < heads; ++h) {
        for (Index c = 0; c < dim; ++c) (*tensor)(b, h, j, c) = rounded(row(b, h, c), dtype);
      }
    }
  }
  return moved;
}

bool same_row(const Tensor<double, 4>& one, const Tensor<double, 4>& other, Index b, Index h,
              Index i) {
  bool same = true;
  for (Index c = 0; c < one.shape()[3]; ++c) {
    same &= same_bits(one(b, h, i, c), other(b, h, i, c));
  }
  return same;
}

/// More answers to a problem, asked for when they are needed; enough of them for bits that change
/// every other time.
class MoreAnswers {
 public:
  MoreAnswers(Asker& asker, const AttentionProblem& problem) : asker_(asker), problem_(problem) {}

  /// Whether a row of `out` has its bits in all of them.
  bool keep_row(const Tensor<double, 4>& out, Index b, Index h, Index i) {
    while (outs_.size() < 8) outs_.push_back(asker_.ask(problem_).out);
    return std::all_of(outs_.begin(), outs_.end(), [&](const Tensor<double, 4>& other) {
      return same_row(out, other, b, h, i);
    });
  }

 private:
  Asker& asker_;
  const AttentionProblem& problem_;
  std::vector<Tensor<double, 4>> outs_;
};

/// Whether the exact outputs of a row differ by more than two answers may.
bool differ(const AttentionOracle& one, const AttentionOracle& other, Index b, Index h, Index i) {
  for (Index c = 0; c < one.stages.out.shape()[3]; ++c) {
    const double difference = std::fabs(one.stages.out(b, h, i, c) - other.stages.out(b, h, i, c));
    if (difference > one.out_error(b, h, i, c) + other.out_error(b, h, i, c)) return true;
  }
  return false;
}

void move_positions(Asker& asker, const AttentionProblem& problem, Findings& findings) {
  Checked& earlier = findings.bitwise("$q_j, k_j, v_j$ move: every row before $j$ keeps its bits");
  Checked& later =
      findings.exact("$q_j, k_j, v_j$ move: every row from $j$ on moves, beyond rounding");
  const Tensor<double, 4> before = asker.ask(problem).out;
  MoreAnswers again(asker, problem);
  std::optional<AttentionOracle> oracle;
  if (problem.seq_len_q() <= short_length) {
    oracle.emplace(problem, asker.domain, asker.conventions);
  }
  for (Index j : positions(problem.seq_len_q())) {
    const AttentionProblem moved = with_moved(problem, j, asker.domain.dtype);
    const Tensor<double, 4> after = asker.ask(moved).out;
    MoreAnswers moved_again(asker, moved);
    std::optional<AttentionOracle> moved_oracle;
    if (oracle) moved_oracle.emplace(moved, asker.domain, asker.conventions);
    for_each_row(problem, [&](Index b, Index h, Index i) {
      const bool same = same_row(before, after, b, h, i);
      const Told where = "position " + std::to_string(j) + " moved, and " + row_place(b, h, i);
      if (i < j) {
        // Bits that change by themselves are another theorem's matter.
        const auto steady = [&] {
          return again.keep_row(before, b, h, i) && moved_again.keep_row(after, b, h, i);
        };
        earlier.require(same || !steady(), [&] { return where + " moved too"; });
      } else if (oracle && differ(*oracle, *moved_oracle, b, h, i)) {
        later.require(!same, [&] { return where + " did not"; });
      }
    });
  }
}

/// A loss that reads row i alone has no gradient in later keys and values.
void look_at_gradients(Asker& asker, const AttentionProblem& problem, Findings& findings) {
  Checked& future = findings.exact(
      "$\\partial o_i / \\partial k_j = 0$ and $\\partial o_i / \\partial v_j = 0$ for $j > i$");
  AttentionProblem asked = problem;
  for (Index i : positions(problem.seq_len_q())) {
    asked.d_out = Tensor<float, 4>(
        {problem.batch(), problem.num_heads(), problem.seq_len_q(), problem.value_dim()});
    for (Index b = 0; b < problem.batch(); ++b) {
      for (Index h = 0; h < problem.num_heads(); ++h) {
        for (Index c = 0; c < problem.value_dim(); ++c) (*asked.d_out)(b, h, i, c) = 1;
      }
    }
    const AttentionGradients<double> gradients = *asker.ask(asked).gradients;
    for (const Tensor<double, 4>* gradient : {&gradients.d_k, &gradients.d_v}) {
      const auto result = gradient == &gradients.d_k ? Place::Result::d_k : Place::Result::d_v;
      const auto [batch, heads, keys, dim] = gradient->shape();
      for (Index b = 0; b < batch; ++b) {
        for (Index h = 0; h < heads; ++h) {
          for (Index j = i + 1; j < keys; ++j) {
            for (Index c = 0; c < dim; ++c) {
              const double slope = (*gradient)(b, h, j, c);
              future.require(slope == 0, [&, b = b, h = h, j, c] {
                return "a loss of query " + std::to_string(i) +
                       " alone: " + told({result, b, h, j, c}) + " is " + number(slope);
              });
            }
          }
        }
      }
    }
  }
}

Verdict judge_causal(Asker& asker, const AttentionProblem& problem) {
  if (problem.causal == Causal::none) return not_applicable("there is no causal mask");
  if (auto none = no_numbers(problem)) return not_applicable(*none);
  Findings findings;
  const Weights weights = weights_of(asker, problem);
  require_triangular(problem, weights.A, findings.exact("$A$ is 0 above the diagonal"));
  if (weights.shown || problem.seq_len_q() != problem.seq_len_k()) return findings.verdict();
  move_positions(asker, problem, findings);
  if (asker.has(Feature::backward) && problem.seq_len_q() <= short_length) {
    look_at_gradients(asker, problem, findings);
  }
  return findings.verdict();
}

/// In the regime of huge scores every query's own key is against it: the only score of row 0 lies
/// far below whatever finite number stands in for minus infinity.
AttentionProblem draw_causal(Draw& draw) {
  AttentionProblem problem = draw.problem(moderate_sizes(draw, 350), true);
  if (draw.regime == "huge-scores") {
    const Index group = problem.num_heads() / problem.num_kv_heads();
    for (Index b = 0; b < problem.batch(); ++b) {
      for (Index h = 0; h < problem.num_kv_heads(); ++h) {
        const View<const float, 2> q = std::as_const(problem.q)[b][h * group];
        float largest = 1;
        for (Index at = 0; at < q.size(); ++at) largest = std::max(largest, std::fabs(q.data[at]));
        // Near -10^30, or as far as float16 reaches.
        const float times =
            draw.domain.dtype == Dtype::float16 ? 1 : std::max(1.0F, 1e30F / (largest * largest));
        std::transform(q.data, q.data + q.size(), problem.k[b][h].data,
                       [&](float value) { return rounded(-times * value, draw.domain.dtype); });
      }
    }
  }
  return problem;
}

}  // namespace

AttentionTheorem attention_prop_5_1() {
  AttentionTheorem theorem = lecture_theorem("prop-5.1");
  theorem.bound =
      R"(None: zeros are exact, and rows before the change are equal bit for bit. Only to tell )"
      R"(whether a row must move, the exact outputs are compared with what two answers may err.)";
  theorem.claim = Claim::exact;
  theorem.needs = {Feature::causal};
  theorem.draw = draw_causal;
  theorem.judge = judge_causal;
  return theorem;
}

}  // namespace headproof
