#include "theorems/oracle.h"

#include <cmath>
#include <string>
#include <utility>

namespace headproof {
namespace {

template <std::size_t Rank>
Tensor<double, Rank> widen(const Tensor<float, Rank>& tensor) {
  Tensor<double, Rank> wide(tensor.shape());
  std::copy(tensor.begin(), tensor.end(), wide.begin());
  return wide;
}

template <std::size_t Rank>
Tensor<double, Rank> absolute(const Tensor<double, Rank>& tensor) {
  Tensor<double, Rank> positive = tensor;
  for (double& value : positive) value = std::fabs(value);
  return positive;
}

Tensor<double, 3> without_head_axis(const Tensor<double, 4>& tensor) {
  Tensor<double, 3> narrow({tensor.shape()[0], tensor.shape()[2], tensor.shape()[3]});
  std::copy(tensor.begin(), tensor.end(), narrow.begin());
  return narrow;
}

/// The error of w x in float32: of each of the sums over model_dim, to first order in u.
Tensor<double, 3> projection_error(const Tensor<double, 3>& x, const Tensor<double, 2>& w) {
  auto error = project<double>(absolute(x), absolute(w));
  const auto terms = static_cast<double>(w.shape()[1]);
  for (double& value : error) value *= (terms + 1) * unit_roundoff;
  return error;
}

}  // namespace

Oracle::Oracle(const HeadProblem& problem) {
  const auto x = widen(problem.x);
  const auto w_q = widen(problem.weights.query);
  const auto w_k = widen(problem.weights.key);
  const auto w_v = widen(problem.weights.value);
  auto stages = head_forward<double>(x, w_q, w_k, w_v, problem.causal);
  q = std::move(stages.q);
  k = std::move(stages.k);
  v = std::move(stages.v);
  scores = without_head_axis(stages.attention.scores);
  A = without_head_axis(stages.attention.A);
  out = without_head_axis(stages.attention.out);

  value_error = projection_error(x, w_v);
  const auto query_error = projection_error(x, w_q);
  const auto key_error = projection_error(x, w_k);

  const auto [batch, seq_len, head_dim] = q.shape();
  const double scale = 1 / std::sqrt(static_cast<double>(head_dim));
  const double dot_terms = static_cast<double>(head_dim) + 2;  // the scale rounds twice more
  score_error = Tensor<double, 3>(scores.shape());
  weight_error = Tensor<double, 3>(scores.shape());
  out_error = Tensor<double, 3>(out.shape());
  for (Index b = 0; b < batch; ++b) {
    for (Index i = 0; i < seq_len; ++i) {
      const Index visible = visible_keys(problem, i);
      const auto n = static_cast<double>(visible);
      double maximum = scores(b, i, 0);
      for (Index j = 0; j < visible; ++j) {
        maximum = std::max(maximum, scores(b, i, j));
        double from_dot = 0, from_projections = 0;
        for (Index c = 0; c < head_dim; ++c) {
          const double query = std::fabs(q(b, i, c)), key = std::fabs(k(b, j, c));
          from_dot += query * key;
          from_projections += query_error(b, i, c) * key + query * key_error(b, j, c);
        }
        score_error(b, i, j) = scale * (dot_terms * unit_roundoff * from_dot + from_projections);
      }
      // exp(score - maximum): the score's error, the difference rounded, exp's own error.
      const auto exponential_error = [&](Index j) {
        return score_error(b, i, j) + unit_roundoff * (std::fabs(scores(b, i, j) - maximum) + 4);
      };
      double sum_error = (n + 2) * unit_roundoff;  // of the row sum, and of dividing by it
      for (Index j = 0; j < visible; ++j) sum_error += A(b, i, j) * exponential_error(j);
      for (Index j = 0; j < visible; ++j) {
        weight_error(b, i, j) =
            A(b, i, j) * std::expm1(exponential_error(j) + sum_error) + 0x1p-149;
      }
      for (Index c = 0; c < head_dim; ++c) {
        for (Index j = 0; j < visible; ++j) {
          const double value = std::fabs(v(b, j, c));
          out_error(b, i, c) +=
              weight_error(b, i, j) * value +
              A(b, i, j) * (value_error(b, j, c) + (n + 1) * unit_roundoff * value);
        }
      }
    }
  }
}

HeadAnswer ask(const Subject& subject, const HeadProblem& problem) {
  auto answer = subject.head(problem);
  if (!answer) throw SubjectFailed(answer.error().message);
  const auto [batch, seq_len, model_dim] = problem.x.shape();
  if (answer->out.shape() != std::array{batch, seq_len, problem.weights.value.shape()[0]}) {
    throw SubjectFailed("out has another shape than [batch, seq_len, head_dim]");
  }
  if (answer->A && answer->A->shape() != std::array{batch, seq_len, seq_len}) {
    throw SubjectFailed("A has another shape than [batch, seq_len, seq_len]");
  }
  return std::move(*answer);
}

Tensor<float, 3> recover_A(const Subject& subject, const HeadProblem& problem) {
  const Index batch = problem.x.shape()[0], seq_len = problem.x.shape()[1];
  const Index model_dim = problem.x.shape()[2];
  const Index head_dim = problem.weights.head_dim();
  HeadProblem wider;
  wider.causal = problem.causal;
  wider.x = Tensor<float, 3>({batch, seq_len, model_dim + seq_len});
  for (Index b = 0; b < batch; ++b) {
    for (Index t = 0; t < seq_len; ++t) {
      for (Index m = 0; m < model_dim; ++m) wider.x(b, t, m) = problem.x(b, t, m);
      wider.x(b, t, model_dim + t) = 1;
    }
  }
  const auto widen_weight = [&](const Tensor<float, 2>& w) {
    Tensor<float, 2> wide({head_dim, model_dim + seq_len});
    for (Index c = 0; c < head_dim; ++c) {
      for (Index m = 0; m < model_dim; ++m) wide(c, m) = w(c, m);
    }
    return wide;
  };
  wider.weights.query = widen_weight(problem.weights.query);
  wider.weights.key = widen_weight(problem.weights.key);

  Tensor<float, 3> A({batch, seq_len, seq_len});
  for (Index first = 0; first < seq_len; first += head_dim) {
    const Index columns = std::min(head_dim, seq_len - first);
    wider.weights.value = Tensor<float, 2>({head_dim, model_dim + seq_len});
    for (Index c = 0; c < columns; ++c) wider.weights.value(c, model_dim + first + c) = 1;
    const HeadAnswer answer = ask(subject, wider);
    for (Index b = 0; b < batch; ++b) {
      for (Index i = 0; i < seq_len; ++i) {
        for (Index c = 0; c < columns; ++c) A(b, i, first + c) = answer.out(b, i, c);
      }
    }
  }
  return A;
}

RecoveredScores recover_scores(const Tensor<float, 3>& A, const HeadProblem& problem,
                               const Oracle& oracle) {
  const auto [batch, seq_len, head_dim] = oracle.q.shape();
  const double root = std::sqrt(static_cast<double>(head_dim));
  RecoveredScores recovered;
  double product_sum = 0, square_sum = 0;
  for (Index b = 0; b < batch; ++b) {
    for (Index i = 0; i < seq_len; ++i) {
      const Index visible = visible_keys(problem, i);
      double maximum = oracle.scores(b, i, 0);
      for (Index j = 1; j < visible; ++j) maximum = std::max(maximum, oracle.scores(b, i, j));
      // What one weight adds: its exponent rounded, exp, the division, a weight near underflow.
      const auto weight_error = [&](Index j) {
        return oracle.score_error(b, i, j) +
               unit_roundoff * (maximum - oracle.scores(b, i, j) + 6) +
               0x1p-149 / oracle.A(b, i, j);
      };
      for (Index j = 1; j < visible; ++j) {
        const double expected = oracle.scores(b, i, j) - oracle.scores(b, i, 0);
        const double found =
            std::log(static_cast<double>(A(b, i, j))) - std::log(static_cast<double>(A(b, i, 0)));
        product_sum += found * expected * root;
        square_sum += expected * expected * root * root;
        // The row sum is common to both weights and cancels.
        const double error = std::fabs(found - expected);
        const double bound = weight_error(j) + weight_error(0);
        const double share = error / bound;
        if (!(share <= recovered.largest_share)) {
          recovered = {share, error, bound, b, i, j, 0};
          if (std::isnan(share)) return recovered;
        }
      }
    }
  }
  recovered.scale = product_sum / square_sum;
  return recovered;
}

Tensor<float, 3> permute_rows(View<const float, 3> x, View<const Index, 1> permutation) {
  Tensor<float, 3> permuted(x.shape);
  for (Index b = 0; b < x.shape[0]; ++b) {
    for (Index t = 0; t < x.shape[1]; ++t) {
      for (Index m = 0; m < x.shape[2]; ++m) permuted(b, t, m) = x(b, permutation(t), m);
    }
  }
  return permuted;
}

}  // namespace headproof
