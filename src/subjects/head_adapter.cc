#include "subjects/head_adapter.h"

#include <algorithm>
#include <cmath>

namespace headproof {
namespace {

Tensor<double, 4> with_one_head(const Tensor<float, 3>& tensor) {
  const auto [batch, rows, columns] = tensor.shape();
  Tensor<double, 4> wide({batch, 1, rows, columns});
  std::copy(tensor.begin(), tensor.end(), wide.begin());
  return wide;
}

bool finite(const Tensor<float, 4>& tensor) {
  return std::all_of(tensor.begin(), tensor.end(),
                     [](float value) { return std::isfinite(value); });
}

/// What the head cannot be asked; empty when it can.
std::string unsupported(const AttentionProblem& p) {
  if (p.num_heads() != 1 || p.num_kv_heads() != 1) return "a head is one head";
  if (p.seq_len_q() != p.seq_len_k()) return "queries and keys are of the same positions";
  if (p.head_dim() != p.value_dim()) return "queries and values are of the same width";
  if (p.causal == Causal::bottom_right || p.scale || p.query_offset || p.window || p.softcap != 0 ||
      p.mask || p.bias || !p.key_length.empty() || p.threads != 0 || p.strided || p.decode ||
      p.want_lse || p.d_out) {
    return "a head has no options but the causal mask";
  }
  if (!finite(p.q) || !finite(p.k) || !finite(p.v)) {
    return "a projection carries what is not finite into every channel of its position";
  }
  return "";
}

class HeadAsAttention final : public AttentionSubject {
 public:
  explicit HeadAsAttention(const Subject& head) : head_(head) {}

  std::string name() const override { return std::string(head_.name()); }

  Domain domain() const override {
    Domain domain;
    domain.features = {Feature::causal, Feature::non_causal, Feature::batches, Feature::weights};
    return domain;
  }

  AttentionReply attend(const AttentionProblem& problem) override {
    std::string why = unsupported(problem);
    if (!why.empty()) return Refusal{Refusal::Kind::unsupported, std::move(why)};
    auto answer = head_.head(head_problem_of(problem));
    if (!answer) return Refusal{Refusal::Kind::failed, answer.error().message};
    AttentionAnswer wide;
    wide.out = with_one_head(answer->out);
    if (problem.want_weights) {
      if (!answer->A) return Refusal{Refusal::Kind::unsupported, "the head shows no A"};
      wide.weights = with_one_head(*answer->A);
    }
    return wide;
  }

 private:
  const Subject& head_;
};

}  // namespace

HeadProblem head_problem_of(const AttentionProblem& problem) {
  const Index dim = problem.head_dim();
  HeadProblem head;
  head.causal = problem.causal != Causal::none;
  head.x = Tensor<float, 3>({problem.batch(), problem.seq_len_q(), 3 * dim});
  Index part = 0;
  for (const Tensor<float, 4>* tensor : {&problem.q, &problem.k, &problem.v}) {
    for (Index b = 0; b < problem.batch(); ++b) {
      for (Index t = 0; t < problem.seq_len_q(); ++t) {
        std::copy_n((*tensor)[b][0][t].data, dim, head.x[b][t].data + part * dim);
      }
    }
    ++part;
  }
  part = 0;
  for (Tensor<float, 2>* weights : {&head.weights.query, &head.weights.key, &head.weights.value}) {
    *weights = Tensor<float, 2>({dim, 3 * dim});
    for (Index c = 0; c < dim; ++c) (*weights)(c, part * dim + c) = 1;
    ++part;
  }
  return head;
}

std::unique_ptr<AttentionSubject> head_as_attention(const Subject& head) {
  return std::make_unique<HeadAsAttention>(head);
}

}  // namespace headproof
