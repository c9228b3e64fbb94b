// Gradients of a right forward pass that are wrong.

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "subjects/attention_mutants.h"

namespace headproof {
namespace {

using Gradients = AttentionGradients<float>;

/// The gradient of the row as `change(row)` leaves it.
template <class Change>
std::function<void(const Row&, Gradients&)> gradient_of(Change change) {
  return [change](const Row& row, Gradients& gradients) {
    Row other = row;
    change(other);
    plain::gradient(other, gradients);
  };
}

}  // namespace

std::vector<AttentionMutant> mutants_of_gradients() {
  return {
      {{"gradient-without-scale", "d_q is not scaled", {"num-gradient"}},
       {.finish =
            [](const AttentionProblem& problem, AttentionAnswer& answer) {
              if (!answer.gradients) return;
              const double usual = 1 / std::sqrt(static_cast<double>(problem.head_dim()));
              for (double& value : answer.gradients->d_q) value /= problem.scale.value_or(usual);
            }}},
      {{"gradient-k-v-swapped", "d_k and d_v change places", {"num-gradient"}},
       {.finish =
            [](const AttentionProblem& problem, AttentionAnswer& answer) {
              if (!answer.gradients || problem.head_dim() != problem.value_dim()) return;
              std::swap(answer.gradients->d_k, answer.gradients->d_v);
            }}},
      {{"gradient-through-the-mask",
        "forbidden keys have the weight in the backward pass that they would have without a mask",
        {"num-gradient"}},
       {.gradient = gradient_of([](Row& row) {
          for (Index j = 0; j < row.keys; ++j) {
            if (!row.allowed(j)) row.weights(j) = std::exp(row.logits(j) - row.lse);
            row.allowed(j) = true;
          }
        })}},
      {{"gradient-of-nan-times-0",
        "values of forbidden keys are multiplied by 0 in the backward pass, not skipped",
        {"num-gradient", "num-poison"}},
       {.gradient = gradient_of([](Row& row) {
          for (Index j = 0; j < row.keys; ++j) row.allowed(j) = true;
        })}},
      {{"gradient-without-delta",
        "d_q is made as if the sum of the softmax were constant",
        {"num-gradient"}},
       {.gradient =
            [](const Row& row, Gradients& gradients) {
              plain::gradient(row, gradients);
              float delta = 0;
              for (Index c = 0; c < row.problem.value_dim(); ++c) {
                delta += (*row.problem.d_out)(row.b, row.h, row.i, c) * row.out(c);
              }
              for (Index j = 0; j < row.seq_len_k(); ++j) {
                for (Index c = 0; c < row.problem.head_dim() && row.allowed(j); ++c) {
                  gradients.d_q(row.b, row.h, row.i, c) +=
                      row.scale * row.weights(j) * delta * row.k(j, c);
                }
              }
            }}},
      {{"gradient-of-one-head-of-a-group",
        "where heads share keys, d_k is that of the last of them",
        {"num-gradient"}},
       {.gradient =
            [](const Row& row, Gradients& gradients) {
              const Index group = row.problem.num_heads() / row.problem.num_kv_heads();
              if (row.i == 0 && row.h % group != 0) {
                auto d_k = gradients.d_k[row.b][row.kv_head];
                std::fill_n(d_k.data, d_k.size(), 0.0F);
              }
              plain::gradient(row, gradients);
            }}},
      {{"gradient-without-softcap", "the softcap is not differentiated", {"num-gradient"}},
       {.gradient =
            [](const Row& row, Gradients& gradients) {
              AttentionProblem plain_problem = row.problem;
              plain_problem.softcap = 0;
              Row other(plain_problem, row.b, row.h, row.i);
              other.kv_head = row.kv_head;
              other.scale = row.scale;
              other.allowed = row.allowed;
              other.weights = row.weights;
              plain::gradient(other, gradients);
            }}},
      {{"gradient-of-v-unweighted",
        "d_v takes each row's d_out as it is, not times the weight",
        {"num-gradient"}},
       {.gradient =
            [](const Row& row, Gradients& gradients) {
              Gradients rest = gradients;
              plain::gradient(row, rest);
              gradients.d_q = rest.d_q;
              gradients.d_k = rest.d_k;
              for (Index j = 0; j < row.seq_len_k(); ++j) {
                for (Index c = 0; c < row.problem.value_dim() && row.allowed(j); ++c) {
                  gradients.d_v(row.b, row.kv_head, j, c) +=
                      (*row.problem.d_out)(row.b, row.h, row.i, c);
                }
              }
            }}},
      {{"gradient-of-last-key-dropped",
        "the loop over keys ends one too early in the backward pass",
        {"num-gradient"}},
       {.gradient = gradient_of([](Row& row) {
          if (row.keys > 1) row.allowed(row.keys - 1) = false;
        })}},
      {{"gradient-beyond-64",
        "d_k is that of the first 64 queries",
        {"num-gradient"},
        {65, 2, "64 queries are right"}},
       {.gradient =
            [](const Row& row, Gradients& gradients) {
              const Tensor<float, 4> d_k = gradients.d_k;
              plain::gradient(row, gradients);
              if (row.i >= 64) gradients.d_k = d_k;
            }}},
  };
}

}  // namespace headproof
