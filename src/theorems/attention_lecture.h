// What the lecture's theorems about black boxes have in common.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "theorems/attention_results.h"

namespace headproof {

/// The theorem under its number, title and statement in the lecture.
AttentionTheorem lecture_theorem(std::string_view id);

/// Sizes for questions that take a call for every few keys, and time that grows with the square of
/// the length: those of more than 20 positions have few heads and a wide value_dim, and at most
/// about `longest` positions.
Sizes moderate_sizes(Draw& draw, Index longest = 160);

/// How many keys query i may see.
inline Index visible_keys(const AttentionProblem& problem, Index i) {
  const Index keys = problem.seq_len_k();
  if (problem.causal == Causal::none) return keys;
  const Index corner = problem.causal == Causal::bottom_right ? keys - problem.seq_len_q() : 0;
  return std::clamp<Index>(corner + i + 1, 0, keys);
}

/// The weights that a subject uses; or where it answers no other question than `problem`, as a
/// recording does, those that it shows.
struct Weights {
  Tensor<double, 4> A;
  bool shown = false;
};
Weights weights_of(Asker& asker, const AttentionProblem& problem);

/// Why a problem is none of a sequence that attends to itself, in the finite numbers of one channel
/// or more; nothing where it is one. What is drawn always is, what was recorded may not be.
std::optional<std::string> no_sequence(const AttentionProblem& problem);
/// Why q, k or v has no finite numbers to speak of; nothing where all of them have.
std::optional<std::string> no_numbers(const AttentionProblem& problem);

/// How far the sum of a row of the weights may be from 1 with n allowed keys: a running maximum
/// over blocks of any size rescales the sum (two roundings) and the weights (one) at each key; the
/// division, the weights' dtype and the output round as well.
double row_sum_error(Index n, const Roundoff& u);

/// Calls visit(b, h, i) for every row of the output.
template <class Visit>
void for_each_row(const AttentionProblem& problem, Visit&& visit) {
  for (Index b = 0; b < problem.batch(); ++b) {
    for (Index h = 0; h < problem.num_heads(); ++h) {
      for (Index i = 0; i < problem.seq_len_q(); ++i) visit(b, h, i);
    }
  }
}

/// Row t of the result is row permutation[t] of the tensor's.
template <class T>
Tensor<T, 4> permuted_rows(const Tensor<T, 4>& tensor, const std::vector<Index>& permutation) {
  Tensor<T, 4> permuted(tensor.shape());
  for (Index b = 0; b < tensor.shape()[0]; ++b) {
    for (Index h = 0; h < tensor.shape()[1]; ++h) {
      for (std::size_t t = 0; t < permutation.size(); ++t) {
        std::copy_n(tensor[b][h][permutation[t]].data, tensor.shape()[3],
                    permuted[b][h][static_cast<Index>(t)].data);
      }
    }
  }
  return permuted;
}

}  // namespace headproof
