// What softmax(q k^T) v does not change under, and how it is linear: num-shift-invariance,
// num-linearity-in-v, num-key-permutation, num-head-independence.

#include <limits>

#include "theorems/num_common.h"

namespace headproof {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

const std::vector<std::string_view> regimes_with_bounds = {
    "gaussian", "single", "one-hot", "tied", "lanes", "long", "tiny", "huge-scores", "denormal"};

Rows rows_with_keys(const AttentionOracle& oracle) {
  return [&oracle](Index b, Index h, Index i) { return sees_any(oracle, b, h, i); };
}

/// The largest error of either answer, and how far apart the definition itself puts them.
Tensor<double, 4> errors_of_both(const AttentionOracle& a, const AttentionOracle& b) {
  Tensor<double, 4> sum(a.out_error.shape());
  for (Index at = 0; at < sum.size(); ++at) {
    const double apart = std::fabs(a.stages.out.data()[at] - b.stages.out.data()[at]);
    sum.data()[at] = a.out_error.data()[at] + b.out_error.data()[at] + apart;
  }
  return sum;
}

AttentionProblem shifted_by_key(const AttentionProblem& problem, float by, Dtype dtype) {
  AttentionProblem moved = problem;
  const Index d = problem.head_dim();
  for (Index at = d - 1; at < moved.k.size(); at += d) {
    moved.k.data()[at] = rounded(moved.k.data()[at] + by, dtype);
  }
  return moved;
}

AttentionProblem shifted_by_bias(const AttentionProblem& problem, float by, Dtype dtype) {
  AttentionProblem moved = problem;
  for (float& value : *moved.bias) value = rounded(value + by, dtype);
  return moved;
}

AttentionProblem draw_shift(Draw& draw) {
  AttentionProblem problem = draw_plain(draw);
  if (draw.domain.features.has(Feature::bias) && draw.chance(3)) add_bias(draw, problem);
  // A last channel of 1 in q and of 0 in k: what is added to it in k is added to all scores.
  const Index d = problem.head_dim();
  for (Index at = d - 1; at < problem.q.size(); at += d) problem.q.data()[at] = 1;
  for (Index at = d - 1; at < problem.k.size(); at += d) {
    float& last = problem.k.data()[at];
    last = d == 1 && std::fabs(last) < 100 ? std::nearbyint(last) : 0;
  }
  return problem;
}

Verdict judge_shift(Asker& asker, const AttentionProblem& problem) {
  if (problem.head_dim() == 0) return not_applicable("without channels nothing moves the scores");
  Findings findings;
  Checked& same = findings.bounded("out stays what it was");
  const AttentionAnswer answer = asker.ask(problem);
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  const auto compare = [&](const AttentionProblem& moved, float by) {
    const AttentionOracle there(moved, asker.domain, asker.conventions);
    compare_close(same, asker.ask(moved).out, answer.out, errors_of_both(oracle, there), 1,
                  "with scores moved by about " + number(by) + "; before", rows_with_keys(oracle));
  };
  for (float by : {128.0F, -128.0F, -32768.0F}) {
    compare(shifted_by_key(problem, by, asker.domain.dtype), by);
  }
  if (problem.bias) {
    for (float by : {128.0F, -1024.0F}) {
      compare(shifted_by_bias(problem, by, asker.domain.dtype), by);
    }
  }
  return findings.verdict();
}

AttentionProblem scaled_values(const AttentionProblem& problem, float factor) {
  AttentionProblem scaled = problem;
  for (float& value : scaled.v) value *= factor;
  return scaled;
}

/// The problem with the values of every other key only.
AttentionProblem every_other_value(const AttentionProblem& problem, Index first) {
  AttentionProblem fewer = problem;
  const Index dim = problem.value_dim();
  for (Index row = 0; dim > 0 && row < fewer.v.size() / dim; ++row) {
    if (row % problem.seq_len_k() % 2 != first) std::fill_n(fewer.v.data() + row * dim, dim, 0.0F);
  }
  return fewer;
}

Verdict judge_linearity(Asker& asker, const AttentionProblem& problem) {
  Findings findings;
  Checked& homogeneous = findings.bounded("out for $c\\,v$ is $c$ times out");
  Checked& additive = findings.bounded("out for $v + w$ is the sum of both outs");
  const AttentionAnswer answer = asker.ask(problem);
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  const Rows rows = rows_with_keys(oracle);
  for (float factor : {-1.0F, 4.0F}) {
    Tensor<double, 4> expected = answer.out;
    for (double& value : expected) value *= factor;
    compare_close(homogeneous, asker.ask(scaled_values(problem, factor)).out, expected,
                  oracle.out_error, 2 * std::fabs(factor), number(factor) + " times out is", rows);
  }
  const AttentionProblem even = every_other_value(problem, 0), odd = every_other_value(problem, 1);
  Tensor<double, 4> sum = asker.ask(even).out, error = oracle.out_error;
  const Tensor<double, 4> other = asker.ask(odd).out;
  const AttentionOracle of_even(even, asker.domain, asker.conventions);
  const AttentionOracle of_odd(odd, asker.domain, asker.conventions);
  for (Index at = 0; at < sum.size(); ++at) {
    sum.data()[at] += other.data()[at];
    error.data()[at] += of_even.out_error.data()[at] + of_odd.out_error.data()[at];
  }
  compare_close(additive, answer.out, sum, error, 1,
                "the values of even and of odd keys alone give together", rows);
  return findings.verdict();
}

/// `tensor` with positions of an axis in another order; an axis of size 1 stands for all.
template <class T>
Tensor<T, 4> reordered(const Tensor<T, 4>& tensor, std::size_t axis,
                       const std::vector<Index>& order) {
  if (tensor.shape()[axis] == 1) return tensor;
  Tensor<T, 4> other(tensor.shape());
  const Index inner = tensor.view().strides[axis], size = tensor.shape()[axis];
  for (Index at = 0; at < tensor.size(); ++at) {
    const Index position = at / inner % size;
    const Index from = order[static_cast<std::size_t>(position)];
    other.data()[at] = tensor.data()[at + (from - position) * inner];
  }
  return other;
}

Verdict judge_permutation(Asker& asker, const AttentionProblem& problem) {
  const Index keys = problem.seq_len_k();
  if (keys < 2) return not_applicable("there is one order only");
  if (!problem.key_length.empty()) return not_applicable("padding has its place");
  Findings findings;
  Checked& same = findings.bounded("out stays what it was");
  const AttentionAnswer answer = asker.ask(problem);
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  bool any = false;
  for (const bool reversed : {true, false}) {
    std::vector<Index> order;
    for (Index j = 0; j < keys; ++j) order.push_back(reversed ? keys - 1 - j : (j + 1) % keys);
    AttentionProblem permuted = problem;
    permuted.k = reordered(problem.k, 2, order);
    permuted.v = reordered(problem.v, 2, order);
    if (problem.mask) permuted.mask = reordered(*problem.mask, 3, order);
    if (problem.bias) permuted.bias = reordered(*problem.bias, 3, order);
    const AttentionOracle there(permuted, asker.domain, asker.conventions);
    // Under a causal mask this speaks of rows that see the same keys before and after.
    const Rows rows = [&](Index b, Index h, Index i) {
      bool sees_same = sees_any(oracle, b, h, i);
      for (Index j = 0; j < keys && sees_same; ++j) {
        sees_same = there.allowed(b, h, i, j) ==
                    oracle.allowed(b, h, i, order[static_cast<std::size_t>(j)]);
      }
      any |= sees_same;
      return sees_same;
    };
    compare_close(same, asker.ask(permuted).out, answer.out, errors_of_both(oracle, there), 1,
                  reversed ? "with the keys reversed; before" : "with the first key last; before",
                  rows);
  }
  if (!any) return not_applicable("no query sees the same keys in another order");
  return findings.verdict();
}

/// Every number that does not belong to head h of batch element b, changed.
template <class Change>
AttentionProblem with_others(const AttentionProblem& problem, Index b, Index h, Index kv,
                             Change&& change) {
  AttentionProblem other = problem;
  const auto in_all_but = [&](Tensor<float, 4>& tensor, Index own) {
    const auto [batch, heads, length, dim] = tensor.shape();
    for (Index at = 0; at < tensor.size(); ++at) {
      const Index head = at / (length * dim);
      if (head != b * heads + own) tensor.data()[at] = change(tensor.data()[at]);
    }
  };
  in_all_but(other.q, h);
  in_all_but(other.k, kv);
  in_all_but(other.v, kv);
  return other;
}

Verdict judge_independence(Asker& asker, const AttentionProblem& problem) {
  const Index batch = problem.batch(), heads = problem.num_heads();
  if (batch * heads < 2) return not_applicable("there is one head only");
  Findings findings;
  Checked& untouched = findings.exact("NaN in every other head leaves a head's out finite");
  Checked& same = findings.bounded("other numbers in every other head leave its out");
  const AttentionAnswer answer = asker.ask(problem);
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  const std::array<std::array<Index, 2>, 3> chosen = {
      {{0, 0}, {batch - 1, heads - 1}, {0, heads - 1}}};
  for (const auto& [b, h] : chosen) {
    const Index of_batch = b, of_head = h, kv = kv_head(problem, asker.conventions, h);
    const Rows rows = [&](Index row_b, Index row_h, Index i) {
      return row_b == of_batch && row_h == of_head && sees_any(oracle, row_b, row_h, i);
    };
    const AttentionAnswer others = asker.ask(with_others(problem, b, h, kv, [&](float value) {
      return rounded(2 - 3 * value, asker.domain.dtype);
    }));
    compare_close(same, others.out, answer.out, oracle.out_error, 2,
                  "with other numbers in all other heads; before", rows);
    const AttentionAnswer nans =
        asker.ask(with_others(problem, b, h, kv, [](float) { return nan; }));
    for (Index i = 0; i < problem.seq_len_q(); ++i) {
      if (!rows(b, h, i)) continue;
      for (Index c = 0; c < problem.value_dim(); ++c) {
        untouched.require(
            std::isfinite(nans.out(b, h, i, c)) || !std::isfinite(answer.out(b, h, i, c)), [&] {
              return place(of_batch, of_head, i, c) + ": " +
                     number(nans.out(of_batch, of_head, i, c));
            });
      }
    }
  }
  return findings.verdict();
}

}  // namespace

AttentionTheorem num_shift_invariance() {
  return {
      .id = "num-shift-invariance",
      .title = "A constant added to a row's scores changes nothing",
      .statement =
          R"(Where every key gains the same vector $w$, the scores of query $i$ all move by )"
          R"(scale $\cdot\, q_i w$, and out stays; so does a constant in an additive mask.)",
      .bound = R"(The bounds of num-accuracy before and after the move together, as each answer )"
               R"(may be off by its own; and what the definition itself moves by, where $k + w$ )"
               R"(had to be rounded.)",
      .claim = Claim::bounded,
      .regimes = {"gaussian", "single", "one-hot", "tied", "lanes", "long", "tiny"},
      .draw = draw_shift,
      .judge = judge_shift,
  };
}

AttentionTheorem num_linearity_in_v() {
  return {
      .id = "num-linearity-in-v",
      .title = "The output is linear in the values",
      .statement = R"(The weights do not depend on $v$, so that the out of $c\,v$ is $c$ times )"
                   R"(that of $v$, and the out of $v + w$ the sum of those of $v$ and $w$.)",
      .bound = R"(The bounds of num-accuracy of all answers that meet: $2 |c|$ times that for )"
               R"($v$, where $c$ is a power of two and $c\,v$ exact; and those for $v$, $w$ and )"
               R"($v + w$ together, where each key's value is in one of $v$ and $w$.)",
      .claim = Claim::bounded,
      .regimes = regimes_with_bounds,
      .draw =
          [](Draw& draw) {
            AttentionProblem problem = draw_plain(draw);
            if (draw.domain.dtype == Dtype::float16) {
              for (float& value : problem.v) value = std::min(value, 1e4F);
            }
            return problem;
          },
      .judge = judge_linearity,
  };
}

AttentionTheorem num_key_permutation() {
  return {
      .id = "num-key-permutation",
      .title = "The order of keys does not matter",
      .statement = R"(Keys, values and the mask's columns in another order give the same out to )"
                   R"(every query that sees the same keys: to all without a causal mask, to the )"
                   R"(last one with it.)",
      .bound = R"(The bounds of num-accuracy before and after together: they hold for any order )"
               R"(of sums.)",
      .claim = Claim::bounded,
      .regimes = regimes_with_bounds,
      .draw =
          [](Draw& draw) {
            AttentionProblem problem = draw_plain(draw);
            const Features& has = draw.domain.features;
            if (has.has(Feature::mask) && draw.chance(4)) add_mask(draw, problem);
            if (has.has(Feature::bias) && !problem.mask && draw.chance(4)) add_bias(draw, problem);
            return problem;
          },
      .judge = judge_permutation,
  };
}

AttentionTheorem num_head_independence() {
  return {
      .id = "num-head-independence",
      .title = "Heads and batch elements do not see each other",
      .statement = R"(The out of head $h$ of batch element $b$ depends on the queries of that )"
                   R"(head and on the keys and values that it reads, and on no others.)",
      .bound = R"(Twice that of num-accuracy, as both answers may be off by it; with NaN in all )"
               R"(others none: an answer that depends on a NaN is NaN, however small the weight.)",
      .claim = Claim::exact,
      .regimes = regimes_with_bounds,
      .draw =
          [](Draw& draw) {
            AttentionProblem problem = draw_plain(draw);
            if (draw.domain.features.has(Feature::mask) && draw.chance(4)) add_mask(draw, problem);
            return problem;
          },
      .judge = judge_independence,
  };
}

}  // namespace headproof
