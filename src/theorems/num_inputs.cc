// How inputs are given: num-zero-sizes, num-strides, num-inputs-untouched, num-history.

#include <algorithm>
#include <limits>

#include "theorems/num_common.h"

namespace headproof {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

AttentionProblem draw_zero_sizes(Draw& draw) {
  const Features& has = draw.domain.features;
  Sizes sizes = modest(draw, draw.rectangular_sizes());
  std::vector<std::function<void()>> ways = {[&] { sizes.batch = 0; }};
  if (has.has(Feature::heads)) ways.emplace_back([&] { sizes.num_heads = sizes.num_kv_heads = 0; });
  if (has.has(Feature::rectangular)) {
    ways.emplace_back([&] { sizes.seq_len_q = 0; });
    ways.emplace_back([&] { sizes.seq_len_k = 0; });
  }
  ways.emplace_back([&] { sizes.seq_len_q = sizes.seq_len_k = 0; });
  if (draw.domain.head_dims.empty()) {
    if (has.has(Feature::value_dim)) ways.emplace_back([&] { sizes.value_dim = 0; });
    ways.emplace_back([&] {
      sizes.head_dim = 0;
      if (!has.has(Feature::value_dim)) sizes.value_dim = 0;
    });
  }
  ways[static_cast<std::size_t>(draw.below(static_cast<Index>(ways.size())))]();
  const bool causal = draw.either_causal();
  AttentionProblem problem = draw.problem(sizes, causal);
  if (sizes.head_dim == 0 && has.has(Feature::scale)) problem.scale = 1;
  problem.want_lse = has.has(Feature::lse) && draw.chance(2);
  return problem;
}

Verdict judge_zero_sizes(Asker& asker, const AttentionProblem& problem) {
  const bool nothing_to_see = problem.seq_len_k() == 0, no_channels = problem.head_dim() == 0;
  if (problem.q.size() > 0 && problem.k.size() > 0 && problem.v.size() > 0) {
    return not_applicable("no size is 0");
  }
  Findings findings;
  findings.exact("there is an answer of the right shape");
  Checked& empty = findings.exact("queries without keys get 0 or NaN");
  Checked& mean = findings.bounded("queries without channels get the definition's mean");
  const AttentionAnswer answer = asker.ask(problem);
  if (nothing_to_see) {
    for (double value : answer.out) {
      empty.require(value == 0 || std::isnan(value), [&] { return "out is " + number(value); });
    }
  } else if (no_channels && problem.scale) {
    const AttentionOracle oracle(problem, asker.domain, asker.conventions);
    compare_out(mean, answer, oracle, asker.conventions);
  }
  return findings.verdict();
}

/// Keys and values of all heads are those of the first.
void one_head_for_all(AttentionProblem& problem) {
  for (auto* tensor : {&problem.k, &problem.v}) {
    const auto [batch, heads, length, dim] = tensor->shape();
    for (Index b = 0; b < batch; ++b) {
      for (Index h = 1; h < heads; ++h) {
        std::copy_n((*tensor)[b][0].data, length * dim, (*tensor)[b][h].data);
      }
    }
  }
}

Verdict judge_strides(Asker& asker, const AttentionProblem& problem) {
  if (auto open = open_question(asker, problem)) return not_applicable(*open);
  if (!problem.strided) return not_applicable("the inputs are dense");
  Findings findings;
  Checked& same = findings.bounded("out is that of dense inputs");
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  AttentionProblem dense = problem;
  dense.strided = false;
  compare_close(same, asker.ask(problem).out, asker.ask(dense).out, oracle.out_error, 2,
                "with dense inputs",
                [&](Index b, Index h, Index i) { return sees_any(oracle, b, h, i); });
  return findings.verdict();
}

AttentionProblem draw_untouched(Draw& draw) {
  AttentionProblem problem = draw_plain(draw);
  add_options(draw, problem);
  if (draw.regime == "nan") problem.v.data()[draw.below(problem.v.size())] = nan;
  return problem;
}

Verdict judge_untouched(Asker& asker, const AttentionProblem& problem) {
  if (asker.is_recording()) return not_applicable("nothing ran that could write to its inputs");
  Findings findings;
  Checked& untouched = findings.exact("q, k, v and the mask hold what they held");
  untouched.require(!asker.ask(problem).inputs_changed,
                    [] { return std::string("an input was written to"); });
  return findings.verdict();
}

/// Another problem of the same shape, NaN throughout.
AttentionProblem all_nan(const AttentionProblem& problem) {
  AttentionProblem other = problem;
  for (auto* tensor : {&other.q, &other.k, &other.v}) {
    std::fill(tensor->begin(), tensor->end(), nan);
  }
  return other;
}

/// Another problem of twice the length, or of the same where that is too long.
AttentionProblem longer(const AttentionProblem& problem, const Domain& domain) {
  AttentionProblem other;
  other.causal = problem.causal;
  const bool fits = 2 * std::max(problem.seq_len_q(), problem.seq_len_k()) <= domain.max_length;
  const auto repeated = [&](const Tensor<float, 4>& tensor) {
    auto shape = tensor.shape();
    if (fits) shape[2] *= 2;
    Tensor<float, 4> more(shape);
    for (Index at = 0; at < more.size(); ++at) {
      more.data()[at] = rounded(1 - tensor.data()[at % tensor.size()], domain.dtype);
    }
    return more;
  };
  other.q = repeated(problem.q);
  other.k = repeated(problem.k);
  other.v = repeated(problem.v);
  return other;
}

Verdict judge_history(Asker& asker, const AttentionProblem& problem) {
  if (auto open = open_question(asker, problem)) return not_applicable(*open);
  if (problem.q.size() == 0 || problem.v.size() == 0) return not_applicable("a size is 0");
  Findings findings;
  Checked& same = findings.bounded("the same question gets the same answer later");
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  const Rows rows = [&](Index b, Index h, Index i) { return sees_any(oracle, b, h, i); };
  const AttentionAnswer first = asker.ask(problem);
  asker.distract(longer(problem, asker.domain));
  compare_close(same, asker.ask(problem).out, first.out, oracle.out_error, 2,
                "before a longer problem", rows);
  asker.distract(all_nan(problem));
  compare_close(same, asker.ask(problem).out, first.out, oracle.out_error, 2,
                "before a problem of NaN", rows);
  return findings.verdict();
}

constexpr std::string_view twice = "Twice that of num-accuracy, as both answers may be off by it.";

}  // namespace

AttentionTheorem num_zero_sizes() {
  return {
      .id = "num-zero-sizes",
      .title = "Sizes of 0 are sizes",
      .statement = R"(With no batch, heads, queries, keys or channels there is an answer of the )"
                   R"(right shape; queries without keys get 0 or NaN, queries without channels )"
                   R"(the mean of what they see.)",
      .bound = "That of num-accuracy for the mean; none for the rest.",
      .claim = Claim::exact,
      .needs = {Feature::zero_sizes},
      .regimes = {"gaussian", "single"},
      .draw = draw_zero_sizes,
      .judge = judge_zero_sizes,
  };
}

AttentionTheorem num_strides() {
  return {
      .id = "num-strides",
      .title = "How the inputs lie in memory does not matter",
      .statement = R"(Inputs with their axes in another order and gaps between rows give the out )"
                   R"(of dense ones, and so do inputs with their channels back to front and gaps )"
                   R"(between them, and keys and values whose heads are one with a stride of 0. )"
                   R"(The gaps hold NaN.)",
      .bound = twice,
      .claim = Claim::bounded,
      .needs = {Feature::strides},
      .regimes = {"gaussian", "single", "one-hot", "tied", "lanes", "long"},
      .draw =
          [](Draw& draw) {
            AttentionProblem problem = draw_plain(draw);
            problem.strided = true;
            problem.strided_channels = draw.chance(3);
            if (problem.num_kv_heads() > 1 && draw.chance(3)) one_head_for_all(problem);
            if (draw.case_number >= 12 && draw.chance(3)) hide_keys(draw, problem);
            return problem;
          },
      .judge = judge_strides,
  };
}

AttentionTheorem num_inputs_untouched() {
  return {
      .id = "num-inputs-untouched",
      .title = "Inputs are read, not written",
      .statement =
          "After the call q, k, v and the mask hold the bits that they held, NaN included.",
      .bound = "None: bits are compared.",
      .claim = Claim::exact,
      .regimes = {"gaussian", "single", "lanes", "huge-scores", "denormal", "nan"},
      .draw = draw_untouched,
      .judge = judge_untouched,
  };
}

AttentionTheorem num_history() {
  return {
      .id = "num-history",
      .title = "What was asked before changes nothing",
      .statement = R"(A problem asked again, after a longer one and after one that is NaN )"
                   R"(throughout, gets its first answer: no mask, cache or workspace of another )"
                   R"(call shows in it.)",
      .bound = twice,
      .claim = Claim::bounded,
      .regimes = {"gaussian", "single", "lanes", "long"},
      .draw =
          [](Draw& draw) {
            AttentionProblem problem = draw_plain(draw);
            if (draw.case_number >= 12 && draw.chance(2)) hide_keys(draw, problem);
            return problem;
          },
      .judge = judge_history,
  };
}

}  // namespace headproof
