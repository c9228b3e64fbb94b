// The softmax, its sums, and what numbers are rounded to.

#include <algorithm>
#include <cmath>
#include <limits>

#include "subjects/attention_mutants.h"
#include "subjects/rounded.h"

namespace headproof {
namespace {

/// The softmax relative to `maximum(row)` instead of the largest logit.
template <class Maximum>
Steps::Step relative_to(Maximum maximum_of) {
  return [maximum_of](Row& row) {
    const float maximum = maximum_of(row);
    float sum = 0;
    for (Index j = 0; j < row.seq_len_k(); ++j) {
      if (row.allowed(j)) sum += row.weights(j) = std::exp(row.logits(j) - maximum);
    }
    row.lse = maximum + std::log(sum);
    for (Index j = 0; j < row.seq_len_k(); ++j) {
      if (row.allowed(j)) row.weights(j) /= sum;
    }
  };
}

float largest(const Row& row, float least) {
  for (Index j = 0; j < row.seq_len_k(); ++j) {
    if (row.allowed(j)) least = std::max(least, row.logits(j));
  }
  return least;
}

/// Each weight, after the softmax, becomes `change(weight, j)`.
template <class Change>
Steps::Step changed_weights(Change change) {
  return [change](Row& row) {
    plain::softmax(row);
    for (Index j = 0; j < row.seq_len_k(); ++j) {
      if (row.allowed(j)) row.weights(j) = change(row, j);
    }
  };
}

/// The logarithm of the sum becomes `change(row)`.
template <class Change>
Steps::Step changed_lse(Change change) {
  return [change](Row& row) {
    plain::softmax(row);
    row.lse = change(row);
  };
}

/// Each logit becomes `change(row, j)`.
template <class Change>
Steps::Step changed_logits(Change change) {
  return [change](Row& row) {
    plain::logits(row);
    for (Index j = 0; j < row.seq_len_k(); ++j) row.logits(j) = change(row, j);
  };
}

/// Each number of the output, after all, becomes `change(number)`.
template <class Change>
Steps::Step changed_out(Change change) {
  return [change](Row& row) {
    plain::combine(row);
    for (float& value : row.out) value = change(value);
  };
}

/// The weight of row and key j among those of the rows `others`, which are not of one row's keys.
void normalise_over(Row& row, const std::vector<Row>& others) {
  const float lse = row.lse;
  for (Index j = 0; j < row.seq_len_k(); ++j) {
    if (!row.allowed(j)) continue;
    double sum = 0;
    for (const Row& other : others) {
      if (other.allowed(j)) sum += std::exp(static_cast<double>(other.logits(j) - lse));
    }
    row.weights(j) = static_cast<float>(std::exp(static_cast<double>(row.logits(j) - lse)) / sum);
  }
}

float half(float value) { return rounded(value, Dtype::float16); }

}  // namespace

std::vector<AttentionMutant> mutants_of_numbers() {
  return {
      {{"maximum-from-1e4",
        "the running maximum starts at -10,000",
        {"num-extreme-scores", "num-accuracy"}},
       {.softmax = relative_to([](const Row& row) { return largest(row, -1e4F); })}},
      {{"maximum-from-0",
        "the running maximum starts at 0",
        {"num-extreme-scores", "num-accuracy"}},
       {.softmax = relative_to([](const Row& row) { return largest(row, 0); })}},
      {{"maximum-not-subtracted",
        "the maximum is not subtracted before the exponential",
        {"num-extreme-scores", "num-accuracy"}},
       {.softmax = relative_to([](const Row&) { return 0.0F; })}},
      {{"softmax-over-heads", "the softmax runs over the heads", {"prop-3.1"}},
       {.softmax =
            [](Row& row) {
              plain::softmax(row);
              std::vector<Row> heads;
              for (Index h = 0; h < row.problem.num_heads(); ++h) {
                heads.push_back(plain::with_logits(row.problem, row.b, h, row.i));
              }
              normalise_over(row, heads);
            }}},
      {{"softmax-over-heads-and-keys", "one softmax runs over the keys of all heads", {"prop-3.1"}},
       {.softmax =
            [](Row& row) {
              plain::softmax(row);
              float sums = 0;  // of all heads, as multiples of this one's
              for (Index h = 0; h < row.problem.num_heads(); ++h) {
                Row other = plain::with_logits(row.problem, row.b, h, row.i);
                plain::softmax(other);
                sums += std::exp(other.lse - row.lse);
              }
              for (Index j = 0; j < row.seq_len_k(); ++j) {
                if (row.allowed(j)) row.weights(j) /= sums;
              }
            }}},
      {{"softmax-over-queries", "the softmax of up to 32 queries runs over them", {"prop-3.1"}},
       {.softmax =
            [](Row& row) {
              plain::softmax(row);
              if (row.seq_len_q() > 32) return;
              std::vector<Row> queries;
              for (Index i = 0; i < row.seq_len_q(); ++i) {
                queries.push_back(plain::with_logits(row.problem, row.b, row.h, i));
              }
              normalise_over(row, queries);
            }}},
      {{"not-normalised", "the weights are not divided by their sum", {"prop-3.1"}},
       {.softmax = changed_weights([](const Row& row, Index j) {
          return std::exp(row.logits(j) - largest(row, -std::numeric_limits<float>::infinity()));
        })}},
      {{"sink", "the sum counts one more score of 0 that has no value", {"prop-3.1", "sec-4.5"}},
       {.softmax = changed_weights(
            [](const Row& row, Index j) { return row.weights(j) / (1 + std::exp(-row.lse)); })}},
      {{"epsilon-in-the-sum", "10^-5 is added to the sum of weights", {"num-accuracy", "prop-3.1"}},
       {.softmax =
            changed_weights([](const Row& row, Index j) { return row.weights(j) / (1 + 1e-5F); })}},
      {{"exp-coarse", "the exponential is wrong by 10^-4 of itself, up or down", {"num-accuracy"}},
       {.softmax = changed_weights([](const Row& row, Index j) {
          return row.weights(j) * (1 + 1e-4F * std::sin(100 * row.logits(j)));
        })}},
      {{"scores-clamped",
        "scores are clamped to -50 .. 50",
        {"num-accuracy", "num-extreme-scores", "num-shift-invariance"}},
       {.logits = changed_logits(
            [](const Row& row, Index j) { return std::clamp(row.logits(j), -50.0F, 50.0F); })}},
      {{"scores-float16", "scores are rounded to float16", {"num-accuracy"}},
       {.logits = changed_logits([](const Row& row, Index j) { return half(row.logits(j)); })}},
      {{"weights-bfloat16", "weights are rounded to bfloat16", {"num-accuracy"}},
       {.softmax = changed_weights(
            [](const Row& row, Index j) { return rounded(row.weights(j), Dtype::bfloat16); })}},
      {{"accumulator-float16", "the sum over the keys is kept in float16", {"num-accuracy"}},
       {.combine =
            [](Row& row) {
              for (Index c = 0; c < row.problem.value_dim(); ++c) {
                for (Index j = 0; j < row.seq_len_k(); ++j) {
                  if (row.allowed(j)) row.out(c) = half(row.out(c) + row.weights(j) * row.v(j, c));
                }
              }
            }}},
      {{"lse-float16", "lse is rounded to float16", {"num-lse"}},
       {.softmax = changed_lse([](const Row& row) { return half(row.lse); })}},
      {{"lse-of-two-bases",
        "lse is the maximum to base e plus the sum's logarithm to base 2",
        {"num-lse"}},
       {.softmax = changed_lse([](const Row& row) {
          const float maximum = largest(row, -std::numeric_limits<float>::infinity());
          return maximum + 1.442695F * (row.lse - maximum);
        })}},
      {{"lse-without-scale", "lse is that of scores that are not scaled", {"num-lse"}},
       {.softmax = changed_lse([](const Row& row) { return row.lse / row.scale; })}},
      {{"lse-without-maximum", "the maximum is not added to lse", {"num-lse"}},
       {.softmax = changed_lse([](const Row& row) {
          return row.lse - largest(row, -std::numeric_limits<float>::infinity());
        })}},
      {{"nan-becomes-0", "NaN in the output becomes 0", {"num-nan-visible"}},
       {.combine = changed_out([](float value) { return std::isnan(value) ? 0 : value; })}},
      {{"nan-is-forbidden", "keys whose score is NaN are not seen", {"num-nan-visible"}},
       {.logits =
            [](Row& row) {
              plain::logits(row);
              for (Index j = 0; j < row.seq_len_k(); ++j) {
                if (std::isnan(row.logits(j))) row.allowed(j) = false;
              }
            }}},
      {{"denormals-flushed", "outputs below the normal numbers become 0", {"num-accuracy"}},
       {.combine = changed_out([](float value) {
          return std::fabs(value) < std::numeric_limits<float>::min() ? 0 : value;
        })}},
      {{"small-weights-dropped", "weights below 10^-6 become 0", {"cor-3.3", "num-accuracy"}},
       {.softmax = changed_weights(
            [](const Row& row, Index j) { return row.weights(j) < 1e-6F ? 0 : row.weights(j); })}},
      {{"dropout-left-on", "every fifth weight is dropped, the others grow", {"prop-3.1"}},
       {.softmax = changed_weights([](const Row& row, Index j) {
          return (row.i + 2 * j) % 5 == 4 ? 0 : 1.25F * row.weights(j);
        })}},
      {{"values-clamped", "outputs are clamped to -8 .. 8", {"num-linearity-in-v", "num-accuracy"}},
       {.combine = changed_out([](float value) { return std::clamp(value, -8.0F, 8.0F); })}},
      {{"position-bias",
        "a hundredth of the distance is taken from each score",
        {"num-key-permutation", "thm-6.1", "num-accuracy", "cor-6.2", "ex-7"}},
       {.logits = changed_logits([](const Row& row, Index j) {
          return row.logits(j) - 0.01F * static_cast<float>(std::abs(row.position - j));
        })}},
      {{"residual", "a thousandth of the query's own value is added", {"num-accuracy", "prop-3.1"}},
       {.combine =
            [](Row& row) {
              plain::combine(row);
              for (Index c = 0; c < row.problem.value_dim() && row.i < row.keys; ++c) {
                row.out(c) += 0.001F * row.v(row.i, c);
              }
            }}},
  };
}

}  // namespace headproof
