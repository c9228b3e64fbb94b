// Blocks, tails, long sequences, decoding, and orders of sums.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "subjects/attention_mutants.h"

namespace headproof {
namespace {

/// Keys are seen where the mask allows them and `loop(row, j)` holds.
template <class Loop>
Steps::Step seen_where(Loop loop) {
  return [loop](Row& row) {
    plain::mask(row);
    for (Index j = 0; j < row.seq_len_k(); ++j) row.allowed(j) = row.allowed(j) && loop(row, j);
  };
}

/// The sum over the keys from the last to the first.
void combine_backwards(Row& row) {
  for (Index c = 0; c < row.problem.value_dim(); ++c) {
    for (Index j = row.seq_len_k(); j-- > 0;) {
      if (row.allowed(j)) row.out(c) += row.weights(j) * row.v(j, c);
    }
  }
}

/// The sum of what the exponentials give, divided by theirs.
void combine_then_divide(Row& row) {
  const Tensor<float, 1> weights = row.weights;
  float maximum = -std::numeric_limits<float>::infinity(), sum = 0;
  for (Index j = 0; j < row.seq_len_k(); ++j) {
    if (row.allowed(j)) maximum = std::max(maximum, row.logits(j));
  }
  for (Index j = 0; j < row.seq_len_k(); ++j) {
    if (row.allowed(j)) sum += row.weights(j) = std::exp(row.logits(j) - maximum);
  }
  plain::combine(row);
  for (float& value : row.out) value = sum == 0 ? 0 : value / sum;
  row.weights = weights;
}

}  // namespace

std::vector<AttentionMutant> mutants_of_loops() {
  return {
      {{"last-key-dropped", "the loop over keys ends one too early", {"cor-3.3", "num-accuracy"}},
       {.mask = seen_where([](const Row& row, Index j) { return j + 1 < row.keys; })}},
      {{"first-key-dropped",
        "queries that see more than one key don't see the first",
        {"cor-3.3", "num-accuracy"}},
       {.mask = seen_where([](const Row& row, Index j) { return j > 0 || row.keys == 1; })}},
      {{"tail-dropped",
        "of more than eight keys, the last that fill no vector of eight are dropped",
        {"cor-3.3", "num-accuracy"},
        {9, 2, "up to eight keys are right"}},
       {.mask = seen_where(
            [](const Row& row, Index j) { return row.keys < 8 || j < row.keys / 8 * 8; })}},
      {{"tail-twice",
        "the last keys that fill no vector of four count twice",
        {"num-accuracy"},
        {5, 2, "up to four keys are one vector, or all of them count twice"}},
       {.logits =
            [](Row& row) {
              plain::logits(row);
              for (Index j = row.keys / 4 * 4; j < row.keys; ++j) row.logits(j) += 0.6931472F;
            }}},
      {{"block-skipped",
        "the third block of sixteen keys is skipped",
        {"cor-3.3", "num-accuracy"},
        {33, 2, "the first two blocks are right"}},
       {.mask = seen_where([](const Row& row, Index j) { return row.i == j || j / 16 != 2; })}},
      {{"block-of-low-scores-skipped",
        "a key is skipped when its score is 3 below the one before",
        {"cor-3.3", "num-accuracy"}},
       {.logits =
            [](Row& row) {
              plain::logits(row);
              for (Index j = 1; j < row.seq_len_k(); ++j) {
                if (row.logits(j) < row.logits(j - 1) - 3) row.allowed(j) = false;
              }
            }}},
      {{"tile-maximum",
        "what came before a pair of keys is not brought to the new maximum",
        {"num-accuracy"}},
       {.softmax = [](Row& row) { plain::online_softmax(row, 2, false); }}},
      {{"chunks-of-64",
        "queries see keys of their own chunk of 64 only",
        {"cor-3.3", "num-accuracy"},
        {65, 2, "the first chunk is right"}},
       {.mask = seen_where([](const Row& row, Index j) { return j / 64 == row.position / 64; })}},
      {{"positions-wrapped",
        "key and value 128 are read at 0, and so on",
        {"num-accuracy"},
        {129, 2, "the first 128 positions are right"}},
       {.prepare =
            [](AttentionProblem& problem) {
              for (auto* tensor : {&problem.k, &problem.v}) {
                const auto [batch, heads, keys, dim] = tensor->shape();
                for (Index b = 0; b < batch; ++b) {
                  for (Index h = 0; h < heads; ++h) {
                    for (Index j = 128; j < keys; ++j) {
                      std::copy_n((*tensor)[b][h][j % 128].data, dim, (*tensor)[b][h][j].data);
                    }
                  }
                }
              }
            }}},
      {{"last-key-of-128-dropped",
        "of a number of keys that 128 divides, the last is dropped",
        {"num-accuracy"},
        {128, 2, "other numbers of keys are right"}},
       {.mask = seen_where([](const Row& row, Index j) {
          return row.keys == 0 || row.keys % 128 != 0 || j + 1 < row.keys;
        })}},
      {{"keys-beyond-512",
        "keys from the 513th on are not seen",
        {"num-accuracy"},
        {513, 2, "512 keys are right"}},
       {.mask = seen_where([](const Row&, Index j) { return j < 512; })}},
      {{"half-block-of-channels-dropped",
        "with more than 16 channels, scores leave out the last 8 that fill no block of 16",
        {"num-accuracy"},
        {4, 40, "24 channels are the fewest that show it"}},
       {.prepare =
            [](AttentionProblem& problem) {
              const Index dim = problem.head_dim();
              for (Index at = 0; dim > 16 && dim % 16 == 8 && at < problem.q.size(); ++at) {
                if (at % dim >= dim - 8) problem.q.data()[at] = 0;
              }
            }}},
      {{"odd-channel-ignored",
        "with an odd head_dim above 1, scores leave out the last channel",
        {"num-accuracy"},
        {4, 3, "the smallest odd head_dim above 1"}},
       {.prepare =
            [](AttentionProblem& problem) {
              const Index dim = problem.head_dim();
              for (Index at = dim - 1; dim > 1 && dim % 2 == 1 && at < problem.q.size();
                   at += dim) {
                problem.q.data()[at] = 0;
              }
            }}},
      {{"channels-beyond-8",
        "scores leave out channels from the ninth on",
        {"num-accuracy"},
        {4, 9, "the first eight channels are right"}},
       {.prepare =
            [](AttentionProblem& problem) {
              const Index dim = problem.head_dim();
              for (Index at = 0; at < problem.q.size(); ++at) {
                if (at % dim >= 8) problem.q.data()[at] = 0;
              }
            }}},
      {{"odd-value-not-written",
        "with an odd value_dim above 1, the last channel is not written",
        {"num-accuracy"},
        {4, 3, "the smallest odd value_dim above 1"}},
       {.combine =
            [](Row& row) {
              plain::combine(row);
              const Index dim = row.problem.value_dim();
              if (dim > 1 && dim % 2 == 1) row.out(dim - 1) = 0;
            }}},
      {{"values-by-head-dim", "values are read as if they had head_dim channels", {"num-accuracy"}},
       {.prepare =
            [](AttentionProblem& problem) {
              const Tensor<float, 4> right = problem.v;
              const Index dim = problem.value_dim(), step = problem.head_dim();
              for (Index at = 0; at < right.size(); ++at) {
                const Index from = at / dim * step + at % dim;
                problem.v.data()[at] = right.data()[from % right.size()];
              }
            }}},
      {{"decode-forgets", "decoding sees the last two keys only", {"num-decode"}},
       {.mask = seen_where(
            [](const Row& row, Index j) { return !row.problem.decode || j + 1 >= row.position; })}},
      {{"decode-without-window", "decoding ignores the window", {"num-decode"}},
       {.prepare =
            [](AttentionProblem& problem) {
              if (problem.decode) problem.window.reset();
            }}},
      {{"decode-one-behind", "decoding does not see the key that was just added", {"num-decode"}},
       {.mask = seen_where([](const Row& row, Index j) {
          return !row.problem.decode || j < std::max<Index>(1, row.position);
        })}},
      {{"keys-of-the-last-call",
        "keys are those of the last call where that had as many",
        {"num-history"}},
       {.prepare =
            [last = Tensor<float, 4>()](AttentionProblem& problem) mutable {
              const Tensor<float, 4> keys = problem.k;
              if (last.shape() == keys.shape()) problem.k = last;
              last = keys;
            }}},
      {{"kernel-by-batch",
        "several sequences go to a kernel that divides by the sum at the end, one alone to another",
        {"num-batch-invariance"},
        {},
        true},
       {.combine =
            [](Row& row) {
              row.problem.batch() > 1 ? combine_then_divide(row) : plain::combine(row);
            }}},
      {{"kernel-by-length",
        "sequences of odd length go to a kernel that divides by the sum at the end",
        {"num-prefix"},
        {},
        true},
       {.combine =
            [](Row& row) {
              row.seq_len_k() % 2 == 1 ? combine_then_divide(row) : plain::combine(row);
            }}},
      {{"splits-by-threads",
        "a row's sum is split by the number of threads",
        {"num-thread-invariance"},
        {},
        true},
       {.combine =
            [](Row& row) { plain::combine_in_parts(row, std::max(1, row.problem.threads)); }}},
      {{"decode-backwards",
        "decoding sums from the last key to the first",
        {"num-decode-equals-prefill"},
        {},
        true},
       {.combine =
            [](Row& row) { row.problem.decode ? combine_backwards(row) : plain::combine(row); }}},
      {{"order-by-chance",
        "sums are taken in one order or the other, differently in each call",
        {"num-determinism"},
        {},
        true},
       {.combine =
            [state = std::uint32_t{1}](Row& row) mutable {
              state = state * 1664525U + 1013904223U;
              (state >> 31) != 0 ? combine_backwards(row) : plain::combine(row);
            }}},
  };
}

}  // namespace headproof
