// What masked entries must not do, and what visible ones must: num-poison, num-nan-visible,
// num-extreme-scores, num-empty-rows.

#include <algorithm>
#include <limits>

#include "theorems/num_common.h"

namespace headproof {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

const std::vector<std::string_view> regimes_with_finite_numbers = {
    "gaussian", "single", "one-hot", "tied", "lanes", "long", "huge-scores"};

float huge(Dtype dtype) { return dtype == Dtype::float16 ? 65504 : 1e38F; }

/// NaN, infinity, huge or below the normal numbers.
bool poisonous(float value, Dtype dtype) {
  const bool half = dtype == Dtype::float16;
  return !std::isfinite(value) || std::fabs(value) >= (half ? 65504.0F : 1e36F) ||
         (value != 0 && std::fabs(value) < (half ? 0x1p-14F : 0x1p-126F));
}

/// Which keys [batch, num_kv_heads, seq_len_k] hold poison in k or v.
Tensor<bool, 3> poisoned_keys(const AttentionProblem& problem, Dtype dtype) {
  Tensor<bool, 3> poisoned({problem.batch(), problem.num_kv_heads(), problem.seq_len_k()});
  for (const auto* tensor : {&problem.k, &problem.v}) {
    const Index dim = tensor->shape()[3];
    for (Index at = 0; at < tensor->size(); ++at) {
      if (poisonous(tensor->data()[at], dtype)) poisoned.data()[at / dim] = true;
    }
  }
  return poisoned;
}

AttentionProblem draw_poison(Draw& draw) {
  AttentionProblem problem = draw_plain(draw);
  hide_keys(draw, problem);
  const Dtype dtype = draw.domain.dtype;
  const float poisons[] = {nan,      huge(dtype),
                           infinity, -huge(dtype),
                           nan,      dtype == Dtype::float16 ? 0x1p-20F : 0x1p-130F};
  for (Index plants = 1 + draw.below(2); plants > 0; --plants) {
    // In one head or in all; in keys, in values, or in both.
    const Index last = problem.seq_len_k() - 1;
    const Index position = draw.chance(2) ? last : draw.below(last + 1);
    const Index heads = problem.batch() * problem.num_kv_heads();
    const Index head = draw.chance(2) ? draw.below(heads) : -1;
    const float poison = poisons[draw.below(6)];
    const Index spared = draw.below(3);
    for (Index row = position; row < heads * (last + 1); row += last + 1) {
      if (head >= 0 && row / (last + 1) != head) continue;
      const auto plant = [&](Tensor<float, 4>& tensor) {
        const Index dim = tensor.shape()[3];
        std::fill_n(tensor.data() + row * dim, dim, poison);
      };
      if (spared != 0) plant(problem.k);
      if (spared != 1) plant(problem.v);
    }
  }
  if (draw.domain.features.has(Feature::backward) && draw.chance(2)) add_d_out(draw, problem);
  return problem;
}

Verdict judge_poison(Asker& asker, const AttentionProblem& problem) {
  if (auto open = open_question(asker, problem)) return not_applicable(*open);
  const Dtype dtype = asker.domain.dtype;
  const Tensor<bool, 3> poisoned = poisoned_keys(problem, dtype);
  if (std::find(poisoned.begin(), poisoned.end(), true) == poisoned.end()) {
    return not_applicable("nothing is poisoned");
  }
  AttentionProblem clean = problem;
  for (auto* tensor : {&clean.k, &clean.v}) {
    const Index dim = tensor->shape()[3];
    for (Index at = 0; at < tensor->size(); ++at) {
      if (poisoned.data()[at / dim]) tensor->data()[at] = 0;
    }
  }
  const AttentionOracle oracle(clean, asker.domain, asker.conventions);
  bool all_spared = true, any_spared = false;
  const auto spared = [&](Index b, Index h, Index i) {
    const Index kv = kv_head(problem, asker.conventions, h);
    bool sees = false, sees_poison = false;
    for (Index j = 0; j < problem.seq_len_k(); ++j) {
      if (!oracle.allowed(b, h, i, j)) continue;
      sees = true;
      sees_poison |= poisoned(b, kv, j);
    }
    all_spared &= sees && !sees_poison;
    any_spared |= sees && !sees_poison;
    return sees && !sees_poison;
  };
  Tensor<bool, 3> rows({problem.batch(), problem.num_heads(), problem.seq_len_q()});
  for (Index b = 0; b < problem.batch(); ++b) {
    for (Index h = 0; h < problem.num_heads(); ++h) {
      for (Index i = 0; i < problem.seq_len_q(); ++i) rows(b, h, i) = spared(b, h, i);
    }
  }
  if (!any_spared) return not_applicable("every query sees the poison");

  AttentionProblem poison = problem;
  if (!all_spared) {  // a gradient through a row that sees poison may be poison itself
    poison.d_out.reset();
    clean.d_out.reset();
  }
  Findings findings;
  Checked& same = findings.bounded("rows that do not see it are what they are with zeros there");
  const AttentionAnswer before = asker.ask(clean), after = asker.ask(poison);
  compare_close(same, after.out, before.out, oracle.out_error, 2,
                "with zeros where the hidden poison is",
                [&](Index b, Index h, Index i) { return rows(b, h, i); });
  if (poison.d_out) {
    Checked& finite = findings.exact("gradients stay finite where no query sees it");
    for (auto result : {Place::Result::d_q, Place::Result::d_k, Place::Result::d_v}) {
      const Tensor<double, 4> gradient = *result_of(after, result);
      for (Index at = 0; at < gradient.size(); ++at) {
        const double value = gradient.data()[at];
        finite.require(std::isfinite(value), [&] {
          return told(place_of(gradient, at, {.result = result})) + ": " + number(value);
        });
      }
    }
  }
  return findings.verdict();
}

AttentionProblem draw_visible_nan(Draw& draw) {
  AttentionProblem problem = draw_plain(draw);
  if (draw.chance(3)) hide_keys(draw, problem);
  Tensor<float, 4>* const tensors[] = {&problem.q, &problem.k, &problem.v};
  const Index which = draw.below(3);
  Tensor<float, 4>& tensor = *tensors[which];
  const bool infinite = draw.regime == "inf" && which == 2;
  tensor.data()[draw.below(tensor.size())] = infinite ? infinity : nan;
  return problem;
}

Verdict judge_visible_nan(Asker& asker, const AttentionProblem& problem) {
  if (auto open = open_question(asker, problem)) return not_applicable(*open);
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  // A weight that underflows may drop its value; where the scores are NaN the weights are.
  constexpr double weight_that_counts = 1e-3;
  const auto must_show = [&](Index b, Index h, Index i, Index c) {
    if (!sees_any(oracle, b, h, i) || std::isfinite(oracle.stages.out(b, h, i, c))) return false;
    const Index kv = kv_head(problem, asker.conventions, h);
    for (Index j = 0; j < problem.seq_len_k(); ++j) {
      if (!oracle.allowed(b, h, i, j)) continue;
      const double weight = oracle.stages.A(b, h, i, j);
      if (std::isnan(weight)) return true;
      if (weight > weight_that_counts && !std::isfinite(problem.v(b, kv, j, c))) return true;
    }
    return false;
  };
  Findings findings;
  Checked& shows = findings.exact("rows that see a NaN or an infinity are not finite");
  bool any = false;
  const AttentionAnswer answer = asker.ask(problem);
  for (Index b = 0; b < problem.batch(); ++b) {
    for (Index h = 0; h < problem.num_heads(); ++h) {
      for (Index i = 0; i < problem.seq_len_q(); ++i) {
        for (Index c = 0; c < problem.value_dim(); ++c) {
          if (!must_show(b, h, i, c)) continue;
          any = true;
          shows.require(!std::isfinite(answer.out(b, h, i, c)),
                        [&] { return place(b, h, i, c) + ": " + number(answer.out(b, h, i, c)); });
        }
      }
    }
  }
  if (!any) return not_applicable("no query sees a NaN");
  return findings.verdict();
}

AttentionProblem draw_extreme(Draw& draw) {
  AttentionProblem problem = draw_plain(draw);
  if (draw.chance(3)) hide_keys(draw, problem);
  // q is 1 and k falls or rises along the keys: what is visible is far below what is hidden
  // behind it, or far above 0. Values grow, so that what leaks leaves the visible ones' hull.
  const bool half = draw.domain.dtype == Dtype::float16;
  constexpr float levels[] = {2e2F, 2e4F, 2e9F, 1e30F};
  const float level = half ? levels[draw.below(2)] : levels[draw.below(4)];
  const float sign = draw.chance(3) ? 1.0F : -1.0F;
  const Index keys = problem.seq_len_k();
  std::fill(problem.q.begin(), problem.q.end(), 0.0F);
  for (Index at = 0; at < problem.q.size(); at += problem.head_dim()) problem.q.data()[at] = 1;
  for (Index row = 0; row < problem.k.size() / problem.head_dim(); ++row) {
    const auto share = static_cast<float>(row % keys) / static_cast<float>(keys);
    problem.k(row / keys / problem.num_kv_heads(), row / keys % problem.num_kv_heads(), row % keys,
              0) = rounded(sign * level * (sign < 0 ? 1 - share : 1 + share), draw.domain.dtype);
  }
  for (Index at = 0; at < problem.v.size(); ++at) {
    problem.v.data()[at] = static_cast<float>(at / problem.value_dim() % keys + 1);
  }
  return problem;
}

Verdict judge_extreme(Asker& asker, const AttentionProblem& problem) {
  if (auto open = open_question(asker, problem)) return not_applicable(*open);
  Findings findings;
  Checked& inside = findings.bounded("out lies between the visible values");
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  const AttentionAnswer answer = asker.ask(problem);
  const Roundoff u = roundoff_of(asker.domain.dtype);
  for (Index b = 0; b < problem.batch(); ++b) {
    for (Index h = 0; h < problem.num_heads(); ++h) {
      const Index kv = kv_head(problem, asker.conventions, h);
      for (Index i = 0; i < problem.seq_len_q(); ++i) {
        for (Index c = 0; c < problem.value_dim(); ++c) {
          double low = infinity, high = -infinity, visible = 0;
          for (Index j = 0; j < problem.seq_len_k(); ++j) {
            if (!oracle.allowed(b, h, i, j)) continue;
            ++visible;
            low = std::min<double>(low, problem.v(b, kv, j, c));
            high = std::max<double>(high, problem.v(b, kv, j, c));
          }
          if (visible == 0 || !std::isfinite(oracle.stages.out(b, h, i, c))) continue;
          const double largest = std::max(std::fabs(low), std::fabs(high));
          const double value = answer.out(b, h, i, c);
          const double bound = ((4 * visible + 8) * u.accumulator + u.weight + u.output) * largest +
                               (visible + 2) * u.smallest * (largest + 1);
          const double outside = std::isfinite(value) ? std::max({low - value, value - high, 0.0})
                                                      : static_cast<double>(nan);
          inside.within(outside, bound, [&] {
            return place(b, h, i, c) + ": " + number(value) + ", the visible values lie in " +
                   number(low) + " to " + number(high);
          });
        }
      }
    }
  }
  return findings.verdict();
}

AttentionProblem draw_empty_rows(Draw& draw) {
  const Features& has = draw.domain.features;
  AttentionProblem problem = draw_plain(draw);
  const bool rectangular = problem.seq_len_q() > problem.seq_len_k();
  if (rectangular && problem.causal != Causal::none && draw.chance(2)) {
    problem.causal = Causal::bottom_right;  // the first queries stand before the first key
    return problem;
  }
  std::vector<Feature> ways;
  for (Feature feature : {Feature::mask, Feature::bias, Feature::key_length}) {
    if (has.has(feature)) ways.push_back(feature);
  }
  if (ways.empty()) return problem;
  const Feature way = ways[static_cast<std::size_t>(draw.below(static_cast<Index>(ways.size())))];
  const Index rows = problem.seq_len_q(), keys = problem.seq_len_k();
  const Index heads = draw.chance(2) ? 1 : problem.num_heads();
  const Index empty_head = draw.below(2 * heads), empty_row = draw.below(rows);
  const auto empty = [&](Index h, Index i) { return h == empty_head || i == empty_row; };
  if (way == Feature::key_length) {
    add_key_length(draw, problem);
    problem.key_length[static_cast<std::size_t>(draw.below(problem.batch()))] = 0;
  } else if (way == Feature::mask) {
    // Either reading of true leaves rows empty: some rows are all false and others all true.
    const bool value = draw.chance(2);
    problem.mask = Tensor<bool, 4>({1, heads, rows, keys});
    for (Index h = 0; h < heads; ++h) {
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < keys; ++j) (*problem.mask)(0, h, i, j) = empty(h, i) == value;
      }
    }
  } else {
    problem.bias = Tensor<float, 4>({1, heads, rows, keys});
    for (Index h = 0; h < heads; ++h) {
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < keys; ++j) {
          if (empty(h, i)) (*problem.bias)(0, h, i, j) = -infinity;
        }
      }
    }
  }
  problem.want_lse = has.has(Feature::lse);
  return problem;
}

Verdict judge_empty_rows(Asker& asker, const AttentionProblem& problem) {
  if (auto open = open_question(asker, problem)) return not_applicable(*open);
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  const std::string& convention = asker.conventions.empty_row;
  Findings findings;
  Checked& follows = findings.exact(
      "a row that sees no key is " +
      (convention == "zero" || convention == "nan" ? convention : "no garbage") + " throughout");
  Checked& others = findings.bounded("rows beside it are those of the definition");
  const AttentionAnswer answer = asker.ask(problem);
  const Roundoff u = roundoff_of(asker.domain.dtype);
  const auto keys = static_cast<double>(problem.seq_len_k());
  bool any = false;
  for (Index b = 0; b < problem.batch(); ++b) {
    for (Index h = 0; h < problem.num_heads(); ++h) {
      const Index kv = kv_head(problem, asker.conventions, h);
      for (Index i = 0; i < problem.seq_len_q(); ++i) {
        if (sees_any(oracle, b, h, i)) continue;
        any = true;
        for (Index c = 0; c < problem.value_dim(); ++c) {
          double low = 0, high = 0;
          for (Index j = 0; j < problem.seq_len_k(); ++j) {
            low = std::min<double>(low, problem.v(b, kv, j, c));
            high = std::max<double>(high, problem.v(b, kv, j, c));
          }
          const double slack = (4 * keys + 8) * (u.weight + u.output) * (high - low) + u.smallest;
          const double value = answer.out(b, h, i, c);
          const bool right = convention == "zero"  ? value == 0
                             : convention == "nan" ? std::isnan(value)
                                                   : std::isnan(value) || (value >= low - slack &&
                                                                           value <= high + slack);
          follows.require(right, [&] { return place(b, h, i, c) + ": " + number(value); });
        }
        if (problem.want_lse) {
          const double lse = (*answer.lse)(b, h, i);
          // A stand-in for minus infinity may show, plus infinity or what lay there must not.
          const bool none = lse <= -1e4 || (std::isnan(lse) && convention != "zero");
          follows.require(none, [&] {
            return told({.result = Place::Result::lse, .batch = b, .head = h, .row = i}) + ": " +
                   number(lse);
          });
        }
      }
    }
  }
  if (!any) return not_applicable("every query sees a key");
  compare_close(others, answer.out, oracle.stages.out, oracle.out_error, 1, "the definition gives",
                [&](Index b, Index h, Index i) { return sees_any(oracle, b, h, i); });
  return findings.verdict();
}

}  // namespace

AttentionTheorem num_poison() {
  return {
      .id = "num-poison",
      .title = "What is hidden reaches nothing, be it NaN, infinite or huge",
      .statement =
          R"(A key and value that a query may not see, by the causal mask, a mask, a window or )"
          R"(padding, may be NaN, infinite, $10^{38}$ or denormal: the query's out is what it is )"
          R"(with zeros there. Where no query sees them, gradients stay finite too.)",
      .bound = R"(Twice that of num-accuracy, as both answers may be off by it: a weight of )"
               R"($10^{-30}$ on $10^{38}$ is far outside, and any weight on NaN is NaN.)",
      .claim = Claim::exact,
      .regimes = regimes_with_finite_numbers,
      .draw = draw_poison,
      .judge = judge_poison,
  };
}

AttentionTheorem num_nan_visible() {
  return {
      .id = "num-nan-visible",
      .title = "A NaN that a query may see shows",
      .statement = R"(A NaN in a query or in a key that it sees makes its whole row of out not )"
                   R"(finite, a NaN or infinity in a value it sees that channel of it, provided )"
                   R"(that its weight exceeds $10^{-3}$, so that it can't underflow.)",
      .bound = "None: a number is finite or it is not.",
      .claim = Claim::exact,
      .regimes = {"nan", "inf"},
      .draw = draw_visible_nan,
      .judge = judge_visible_nan,
  };
}

AttentionTheorem num_extreme_scores() {
  return {
      .id = "num-extreme-scores",
      .title = "Scores of any size leave the output between the visible values",
      .statement =
          R"(Where all scores that a query may see are near $-10^4$, $-10^9$ or $-10^{30}$ and )"
          R"(those that it may not see are above them, or all are as far above 0, its out is )"
          R"(still a mean of the values that it may see.)",
      .bound =
          R"(Whatever the scores' errors are, the weights are those of some softmax: they are not )"
          R"(negative and add up to 1 but for $n$ additions, two rescalings a block of one key )"
          R"(and a division, $(4 n + 8)\,u$; weights and out are rounded once, $u_w + u_o$; all )"
          R"(of it times the largest visible $|v|$, and $n + 2$ times the smallest number, below )"
          R"(which weights vanish.)",
      .claim = Claim::bounded,
      .regimes = {"gaussian"},
      .draw = draw_extreme,
      .judge = judge_extreme,
  };
}

AttentionTheorem num_empty_rows() {
  return {
      .id = "num-empty-rows",
      .title = "A query that may see no key gets what the subject always gives it",
      .statement =
          R"(Rows without an allowed key, by a mask, an additive mask, padding or the bottom )"
          R"(right corner, follow one convention: 0, NaN, or something between the values, never )"
          R"(what lay in memory. Their lse is no number above $-10^4$. No other row is touched.)",
      .bound = R"(None for zeros and NaN; for a mean $(4 n + 8)(u_w + u_o)$ times the spread of )"
               R"(the values. Other rows: that of num-accuracy.)",
      .claim = Claim::exact,
      .regimes = {"gaussian", "single", "one-hot", "tied", "lanes"},
      .draw = draw_empty_rows,
      .judge = judge_empty_rows,
  };
}

}  // namespace headproof
