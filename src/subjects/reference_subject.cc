#include <utility>

#include "headproof/subjects.h"

namespace headproof {

std::optional<Tensor<float, 5>> Subject::jacobian(const HeadProblem& /*problem*/) const {
  return std::nullopt;
}

namespace {

class ReferenceSubject final : public Subject {
 public:
  std::string_view name() const override { return "reference"; }

  Result<HeadAnswer> head(const HeadProblem& problem) const override {
    const HeadWeights& w = problem.weights;
    Head head(w, problem.x.shape()[1], problem.causal);
    auto out = head(problem.x);
    if (!out) return out.error();
    return HeadAnswer{std::move(*out), head.A()};
  }

  /// One vector-Jacobian product for each output direction (i, c), in all batch elements at once.
  std::optional<Tensor<float, 5>> jacobian(const HeadProblem& problem) const override {
    const auto [batch, seq_len, model_dim] = problem.x.shape();
    const HeadWeights& w = problem.weights;
    const auto forward = head_forward<float>(problem.x, w.query, w.key, w.value, problem.causal);
    Tensor<float, 5> jacobian({batch, seq_len, w.head_dim(), seq_len, model_dim});
    Tensor<float, 3> d_out({batch, seq_len, w.head_dim()});
    for (Index i = 0; i < seq_len; ++i) {
      for (Index c = 0; c < w.head_dim(); ++c) {
        for (Index b = 0; b < batch; ++b) d_out(b, i, c) = 1;
        const auto d_x =
            head_backward<float>(forward, problem.x, w.query, w.key, w.value, d_out, problem.causal)
                .d_x;
        for (Index b = 0; b < batch; ++b) {
          d_out(b, i, c) = 0;
          std::copy_n(d_x[b].data, seq_len * model_dim, jacobian[b][i][c].data);
        }
      }
    }
    return jacobian;
  }
};

}  // namespace

std::unique_ptr<Subject> reference_subject() { return std::make_unique<ReferenceSubject>(); }

}  // namespace headproof
