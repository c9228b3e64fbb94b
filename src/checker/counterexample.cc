#include "checker/counterexample.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "theorems/attention_oracle.h"

namespace headproof {
namespace {

using Place = std::array<Index, 4>;

/// The entry that is farthest beyond its bound, the first of several; one that must be 0 goes
/// before all others, because it is a leak and they are what follows from it.
std::optional<Place> worst(const Tensor<double, 4>& is, const Tensor<double, 4>& should_be,
                           const Tensor<double, 4>& bound) {
  if (is.shape() != should_be.shape()) return std::nullopt;
  std::optional<Place> place;
  std::pair<bool, double> gravest;
  const auto [batch, heads, rows, columns] = is.shape();
  for (Index b = 0; b < batch; ++b) {
    for (Index h = 0; h < heads; ++h) {
      for (Index i = 0; i < rows; ++i) {
        for (Index c = 0; c < columns; ++c) {
          const double right = should_be(b, h, i, c);
          double error = std::fabs(is(b, h, i, c) - right);
          if (!std::isfinite(right) || error <= bound(b, h, i, c)) continue;
          if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
          const std::pair gravity(right == 0 && bound(b, h, i, c) == 0, error);
          if (place && gravity <= gravest) continue;
          gravest = gravity;
          place = {b, h, i, c};
        }
      }
    }
  }
  return place;
}

/// The batch element and head of the problem that the sentence names; the first ones otherwise.
std::array<Index, 2> named_in(const std::string& note, const AttentionProblem& problem) {
  long long b = 0, h = 0;
  const std::size_t at = note.find("batch ");
  const bool named = at != std::string::npos &&
                     std::sscanf(note.c_str() + at, "batch %lld, head %lld", &b, &h) == 2;
  const bool inside = b >= 0 && b < problem.batch() && h >= 0 && h < problem.num_heads();
  return named && inside ? std::array<Index, 2>{b, h} : std::array<Index, 2>{0, 0};
}

/// Axes of size 1 stand for all.
template <class T>
NamedMatrix matrix(std::string name, const Tensor<T, 4>& tensor, Index b, Index h, bool given) {
  const auto shape = tensor.shape();
  NamedMatrix matrix{std::move(name), Tensor<double, 2>({shape[2], shape[3]}), given};
  const auto head = tensor[shape[0] == 1 ? 0 : b][shape[1] == 1 ? 0 : h];
  for (Index i = 0; i < shape[2]; ++i) {
    for (Index c = 0; c < shape[3]; ++c) matrix.values(i, c) = static_cast<double>(head(i, c));
  }
  return matrix;
}

}  // namespace

CounterexampleView view_of(const Counterexample& example, const Domain& domain,
                           const Conventions& conventions) {
  const AttentionProblem& problem = example.problem;
  const AttentionOracle oracle(problem, domain, conventions);
  const auto* answer = std::get_if<AttentionAnswer>(&example.reply);
  std::optional<Place> wrong_A, wrong_out;
  if (example.A_used) wrong_A = worst(*example.A_used, example.A, oracle.weight_error);
  if (answer != nullptr) {
    Tensor<double, 4> bound = oracle.out_error;
    // A row that may see nothing is judged by convention, not by the definition's zeros.
    const bool empty_is_free = !conventions.empty_row.empty() && conventions.empty_row != "zero";
    for (Index b = 0; empty_is_free && b < problem.batch(); ++b) {
      for (Index h = 0; h < problem.num_heads(); ++h) {
        for (Index i = 0; i < problem.seq_len_q(); ++i) {
          bool empty = true;
          for (Index j = 0; j < problem.seq_len_k(); ++j) empty &= !oracle.allowed(b, h, i, j);
          for (Index c = 0; empty && c < problem.value_dim(); ++c) {
            bound(b, h, i, c) = std::numeric_limits<double>::infinity();
          }
        }
      }
    }
    wrong_out = worst(answer->out, example.out, bound);
  }

  CounterexampleView view;
  if (problem.batch() == 0 || problem.num_heads() == 0 || problem.num_kv_heads() == 0) return view;
  const auto& place = wrong_A ? wrong_A : wrong_out;
  const auto [batch, head] =
      place ? std::array{(*place)[0], (*place)[1]} : named_in(example.note, problem);
  view.batch = batch;
  view.head = head;
  const Index b = view.batch, h = view.head;
  const Index kv_head = conventions.kv_map == "tiled"
                            ? h % problem.num_kv_heads()
                            : h / (problem.num_heads() / problem.num_kv_heads());
  view.given.push_back(matrix("q", problem.q, b, h, true));
  view.given.push_back(matrix("k", problem.k, b, kv_head, true));
  view.given.push_back(matrix("v", problem.v, b, kv_head, true));
  if (problem.mask) view.given.push_back(matrix("mask", *problem.mask, b, h, true));
  if (problem.bias) view.given.push_back(matrix("bias", *problem.bias, b, h, true));
  if (problem.d_out) view.given.push_back(matrix("d_out", *problem.d_out, b, h, true));

  const auto compared = [&](const std::string& name, const Tensor<double, 4>& is,
                            const Tensor<double, 4>& should_be, std::optional<Place> wrong) {
    Comparison comparison{matrix(name + " as it is", is, b, h, false),
                          matrix(name + " as it should be", should_be, b, h, false)};
    if (wrong && (*wrong)[0] == b && (*wrong)[1] == h) {
      comparison.is.wrong = comparison.should_be.wrong = {(*wrong)[2], (*wrong)[3]};
    }
    return comparison;
  };
  if (wrong_A) view.A = compared("A", *example.A_used, example.A, wrong_A);
  // Where the weights are wrong and the values don't show it, out says nothing.
  if (answer != nullptr && (wrong_out || !wrong_A)) {
    view.out = compared("out", answer->out, example.out, wrong_out);
  }
  if (answer != nullptr && answer->gradients) {
    view.also_given.push_back(matrix("d_q", answer->gradients->d_q, b, h, false));
    view.also_given.push_back(matrix("d_k", answer->gradients->d_k, b, kv_head, false));
    view.also_given.push_back(matrix("d_v", answer->gradients->d_v, b, kv_head, false));
  }
  return view;
}

}  // namespace headproof
