// Options mean what attention.h says: num-options, num-grouped-heads, num-window, num-softcap,
// num-mask, num-lse.

#include <algorithm>
#include <limits>

#include "theorems/num_common.h"

namespace headproof {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

void compare_with_definition(Checked& close, Asker& asker, const AttentionProblem& problem) {
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  compare_out(close, asker.ask(problem), oracle, asker.conventions);
}

Verdict judge_against_definition(Asker& asker, const AttentionProblem& problem) {
  if (auto open = open_question(asker, problem)) return not_applicable(*open);
  Findings findings;
  Checked& close = findings.bounded("out is that of the definition with the same options");
  compare_with_definition(close, asker, problem);
  return findings.verdict();
}

AttentionProblem draw_options(Draw& draw) {
  Sizes sizes = draw.rectangular_sizes();
  // One query at the end of the keys, as in decoding with a cache.
  const bool step = draw.domain.features.has(Feature::rectangular) && draw.chance(4);
  if (step) sizes.seq_len_q = draw.length(1);
  const bool causal = draw.either_causal();
  AttentionProblem problem = draw.problem(modest(draw, sizes), causal);
  add_options(draw, problem);
  return problem;
}

AttentionProblem draw_grouped(Draw& draw) {
  Sizes sizes = draw.rectangular_sizes();
  constexpr Index groups[] = {2, 3, 4, 8, 7};
  sizes.num_kv_heads = 1 + draw.below(2);
  sizes.num_heads = sizes.num_kv_heads *
                    (draw.case_number < 12 ? 2 + draw.below(2) : groups[draw.case_number % 5]);
  const bool causal = draw.either_causal();
  AttentionProblem problem = draw.problem(modest(draw, sizes), causal);
  if (draw.case_number >= 12 && draw.chance(2)) hide_keys(draw, problem);
  return problem;
}

Verdict judge_grouped(Asker& asker, const AttentionProblem& problem) {
  if (auto open = open_question(asker, problem)) return not_applicable(*open);
  if (problem.num_heads() == problem.num_kv_heads()) {
    return not_applicable("no two query heads share keys");
  }
  Findings findings;
  Checked& same = findings.bounded("out is that of keys and values repeated for each query head");
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  AttentionProblem repeated = problem;
  for (auto member : {&AttentionProblem::k, &AttentionProblem::v}) {
    const Tensor<float, 4>& shared = problem.*member;
    const auto [batch, heads, length, dim] = shared.shape();
    Tensor<float, 4> all({batch, problem.num_heads(), length, dim});
    for (Index b = 0; b < batch; ++b) {
      for (Index h = 0; h < problem.num_heads(); ++h) {
        const Index from = kv_head(problem, asker.conventions, h);
        std::copy_n(shared[b][from].data, length * dim, all[b][h].data);
      }
    }
    repeated.*member = std::move(all);
  }
  compare_close(same, asker.ask(problem).out, asker.ask(repeated).out, oracle.out_error, 2,
                "with repeated keys and values",
                [&](Index b, Index h, Index i) { return sees_any(oracle, b, h, i); });
  return findings.verdict();
}

AttentionProblem draw_window(Draw& draw) {
  AttentionProblem problem = draw_plain(draw);
  const Features& has = draw.domain.features;
  add_window(draw, problem);
  if (has.has(Feature::query_offset) && draw.chance(4)) add_query_offset(draw, problem);
  // Without the causal mask a window says what a query sees before it, and nothing of what follows.
  if (has.has(Feature::non_causal) && draw.chance(4)) problem.causal = Causal::none;
  if (draw.case_number >= 12) {
    if (has.has(Feature::mask) && draw.chance(4)) add_mask(draw, problem);
    if (has.has(Feature::key_length) && draw.chance(4)) add_key_length(draw, problem);
  }
  return problem;
}

Verdict judge_window(Asker& asker, const AttentionProblem& problem) {
  if (auto open = open_question(asker, problem)) return not_applicable(*open);
  if (!problem.window) return not_applicable("there is no window");
  Findings findings;
  Checked& close = findings.bounded("out is that of the last keys up to the window");
  Checked& wide = findings.bounded("a window of all keys is none");
  compare_with_definition(close, asker, problem);
  AttentionProblem open = problem, all = problem;
  open.window.reset();
  all.window = problem.seq_len_q() + problem.seq_len_k() + problem.query_offset.value_or(0);
  const AttentionOracle oracle(open, asker.domain, asker.conventions);
  compare_close(wide, asker.ask(all).out, asker.ask(open).out, oracle.out_error, 2,
                "without a window",
                [&](Index b, Index h, Index i) { return sees_any(oracle, b, h, i); });
  return findings.verdict();
}

AttentionProblem draw_softcap(Draw& draw) {
  AttentionProblem problem = draw_plain(draw);
  add_softcap(draw, problem);
  // Scores around the cap and beyond it; the largest caps are felt, and weights not all 0 and 1.
  const float factor =
      draw.regime == "huge-scores" ? 1 : std::max(4.0F, static_cast<float>(problem.softcap) / 4);
  for (float& value : problem.q) value = rounded(factor * value, draw.domain.dtype);
  if (draw.chance(2)) hide_keys(draw, problem);
  if (draw.domain.features.has(Feature::scale) && draw.chance(4)) add_scale(draw, problem);
  return problem;
}

Verdict judge_softcap(Asker& asker, const AttentionProblem& problem) {
  if (problem.softcap == 0) return not_applicable("there is no cap");
  return judge_against_definition(asker, problem);
}

AttentionProblem draw_mask(Draw& draw) {
  AttentionProblem problem = draw_plain(draw);
  const bool boolean = draw.domain.features.has(Feature::mask);
  const bool added = draw.domain.features.has(Feature::bias);
  if (boolean && (!added || draw.chance(2))) {
    add_mask(draw, problem);
  } else if (added) {
    add_bias(draw, problem);
  }
  return problem;
}

/// A mask with all its axes.
template <class T>
Tensor<T, 4> written_out(const Tensor<T, 4>& mask, const std::array<Index, 4>& shape) {
  const View<const T, 4> given = mask.view();
  Tensor<T, 4> full(shape);
  for (Index b = 0; b < shape[0]; ++b) {
    for (Index h = 0; h < shape[1]; ++h) {
      for (Index i = 0; i < shape[2]; ++i) {
        for (Index j = 0; j < shape[3]; ++j) {
          full(b, h, i, j) =
              given(b % given.shape[0], h % given.shape[1], i % given.shape[2], j % given.shape[3]);
        }
      }
    }
  }
  return full;
}

Verdict judge_mask(Asker& asker, const AttentionProblem& problem) {
  if (!problem.mask && !problem.bias) return not_applicable("the subject offers no mask");
  Findings findings;
  Checked& close = findings.bounded("out is that of the definition with the mask");
  Checked& broadcast = findings.bounded("an axis of size 1 stands for all");
  Checked& alike = findings.bounded("a boolean mask is one of 0 and minus infinity added");
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  const AttentionAnswer answer = asker.ask(problem);
  compare_out(close, answer, oracle, asker.conventions);

  const Rows rows = [&](Index b, Index h, Index i) { return sees_any(oracle, b, h, i); };
  const std::array<Index, 4> shape = oracle.allowed().shape();
  AttentionProblem full = problem;
  if (full.mask) full.mask = written_out(*problem.mask, shape);
  if (full.bias) full.bias = written_out(*problem.bias, shape);
  compare_close(broadcast, asker.ask(full).out, answer.out, oracle.out_error, 2,
                "with axes of size 1", rows);
  if (problem.mask && asker.has(Feature::bias)) {
    AttentionProblem added = problem;
    added.bias = Tensor<float, 4>(problem.mask->shape());
    const bool allows = asker.conventions.mask_true != "masked";
    for (Index at = 0; at < problem.mask->size(); ++at) {
      added.bias->data()[at] = problem.mask->data()[at] == allows ? 0 : -infinity;
    }
    added.mask.reset();
    compare_close(alike, asker.ask(added).out, answer.out, oracle.out_error, 2,
                  "with the boolean mask", rows);
  }
  return findings.verdict();
}

AttentionProblem draw_lse(Draw& draw) {
  AttentionProblem problem = draw_options(draw);
  problem.want_lse = true;
  return problem;
}

Verdict judge_lse(Asker& asker, const AttentionProblem& problem) {
  if (auto open = open_question(asker, problem)) return not_applicable(*open);
  if (!problem.want_lse) return not_applicable("no lse was asked for");
  Findings findings;
  Checked& close = findings.bounded("lse is the logarithm of the row's sum of exponentials");
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  const AttentionAnswer answer = asker.ask(problem);
  for (Index b = 0; b < problem.batch(); ++b) {
    for (Index h = 0; h < problem.num_heads(); ++h) {
      for (Index i = 0; i < problem.seq_len_q(); ++i) {
        const double expected = oracle.stages.lse(b, h, i), value = (*answer.lse)(b, h, i);
        if (!std::isfinite(expected)) continue;
        close.within(std::fabs(value - expected), oracle.lse_error(b, h, i), [&] {
          return told({.result = Place::Result::lse, .batch = b, .head = h, .row = i}) + ": " +
                 number(value) + ", the definition gives " + number(expected);
        });
      }
    }
  }
  return findings.verdict();
}

constexpr std::string_view bound_of_accuracy =
    "That of num-accuracy, with what the options add to a logit's error: 6 roundings of the "
    "capped score, and one of the sum with an additive mask.";
constexpr std::string_view bound_of_two_answers =
    "That of num-accuracy with the same options against the definition, and twice that between "
    "two answers, as both may be off by it.";

const std::vector<std::string_view> regimes_with_numbers = {
    "gaussian", "single", "one-hot", "tied", "lanes", "huge-scores", "long", "tiny", "denormal"};

}  // namespace

AttentionTheorem num_options() {
  return {
      .id = "num-options",
      .title = "Every option that is offered is obeyed",
      .statement =
          R"(With a scale of the caller's (0 and below included), the causal mask on or off and )"
          R"(at either corner, an offset of the queries, padding, masks, windows, softcap, any )"
          R"(number of threads, and lse, weights or gradients asked for beside it, alone and )"
          R"(together, out is that of the definition.)",
      .bound = bound_of_accuracy,
      .claim = Claim::bounded,
      .regimes = {"gaussian", "one-hot", "lanes", "huge-scores", "long"},
      .draw = draw_options,
      .judge = judge_against_definition,
  };
}

AttentionTheorem num_grouped_heads() {
  return {
      .id = "num-grouped-heads",
      .title = "Heads that share keys are heads with equal keys",
      .statement = R"(With fewer heads of keys than of queries out is that of the keys and )"
                   R"(values repeated: query head $h$ reads head $\lfloor h / g \rfloor$, or )"
                   R"($h \bmod n$ where the subject tiles, $g$ query heads to each of $n$.)",
      .bound = bound_of_two_answers,
      .claim = Claim::bounded,
      .needs = {Feature::grouped_heads, Feature::heads},
      .regimes = regimes_with_numbers,
      .draw = draw_grouped,
      .judge = judge_grouped,
  };
}

AttentionTheorem num_window() {
  return {
      .id = "num-window",
      .title = "A window shows the last keys and no others",
      .statement = R"(With a window $w$ a query at position $p$ sees keys $p - w + 1$ to $p$, )"
                   R"(or $p - w$ to $p$ where the subject does not count the query's own; with )"
                   R"(offsets, masks and padding too. A window as long as everything is none.)",
      .bound = bound_of_two_answers,
      .claim = Claim::bounded,
      .needs = {Feature::window},
      .regimes = regimes_with_numbers,
      .draw = draw_window,
      .judge = judge_window,
  };
}

AttentionTheorem num_softcap() {
  return {
      .id = "num-softcap",
      .title = "Scores are capped, hidden keys stay hidden",
      .statement = R"(With a softcap $c$ the scores $s$ become $c \tanh(s / c)$, and then what )"
                   R"(is hidden is hidden, the padding of tiles included; an additive mask is )"
                   R"(added after it, or before it where the subject does so.)",
      .bound = bound_of_accuracy,
      .claim = Claim::bounded,
      .needs = {Feature::softcap},
      .regimes = regimes_with_numbers,
      .draw = draw_softcap,
      .judge = judge_softcap,
  };
}

AttentionTheorem num_mask() {
  return {
      .id = "num-mask",
      .title = "Masks hide what they say, on every axis",
      .statement =
          R"(A boolean or additive mask, whole or with axes of size 1 that stand for all, alone )"
          R"(or together with the causal one, gives the definition's out. Written out in full it )"
          R"(gives the same, and so does 0 and $-\infty$ added instead of true and false.)",
      .bound = bound_of_two_answers,
      .claim = Claim::bounded,
      .regimes = regimes_with_numbers,
      .draw = draw_mask,
      .judge = judge_mask,
  };
}

AttentionTheorem num_lse() {
  return {
      .id = "num-lse",
      .title = "The rows' logarithms of sums are right",
      .statement = R"(lse is $\ln \sum_j e^{s_j}$ over the logits that the query sees, or )"
                   R"($\log_2$ of it where the subject counts in base 2, whatever the options.)",
      .bound = R"(The weighted mean of what the logits may err, $\sum_j A_{ij} e_{ij}$, $n + 2$ )"
               R"(roundings of the sum, and those of the logarithm and of its sum with the )"
               R"(maximum $m_i$, $u\,(|m_i| + \ln n + 8)$.)",
      .claim = Claim::bounded,
      .needs = {Feature::lse},
      .regimes = regimes_with_numbers,
      .draw = draw_lse,
      .judge = judge_lse,
  };
}

}  // namespace headproof
