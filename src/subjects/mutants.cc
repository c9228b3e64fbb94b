// Heads that are wrong on purpose, one fault each. They exist to prove that the theorems' checks
// can fail: whatever a check lets pass here, it would let pass in somebody's kernel.

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <utility>

#include "headproof/subjects.h"

namespace headproof {
namespace {

enum class Fault {
  no_scale,
  scale_by_d_k,
  query_is_key,
  query_key_swapped,
  mask_minus_1e9,
  leak_last,
  leak_last_later_batch,
  half_residual,
  clamped_into_box,
  zero_scores,
  value_is_key,
  mask_minus_20,
  mask_after_softmax,
  no_mask,
  mask_first_batch_only,
  strict_mask,
  softmax_over_queries,
  transposed_weights,
  out_is_value,
  shown_weights_differ,
  reversed_when_unmasked,
};

struct Mutant {
  MutantInfo info;
  Fault fault;
};

constexpr Mutant all_mutants[] = {
    {{"no-scale", "the scores are not divided by the root of head_dim"}, Fault::no_scale},
    {{"scale-by-d_k", "the scores are divided by head_dim, not by its root"}, Fault::scale_by_d_k},
    {{"query-is-key", "the queries are made with the key weights"}, Fault::query_is_key},
    {{"query-key-swapped", "queries and keys change places"}, Fault::query_key_swapped},
    {{"mask-minus-1e9", "masked scores become -1e9 instead of minus infinity"},
     Fault::mask_minus_1e9},
    {{"leak-last", "a thousandth of the last value leaks into the first three rows under the mask"},
     Fault::leak_last},
    {{"leak-last-later-batch", "the same leak, but not in the first batch element"},
     Fault::leak_last_later_batch},
    {{"half-residual", "half of each output is its own value"}, Fault::half_residual},
    {{"clamped-into-box", "three times the output, clamped into the box of the values"},
     Fault::clamped_into_box},
    {{"zero-scores", "all scores are 0"}, Fault::zero_scores},
    {{"value-is-key", "the values are made with the key weights"}, Fault::value_is_key},
    {{"mask-minus-20", "masked scores become -20 instead of minus infinity"}, Fault::mask_minus_20},
    {{"mask-after-softmax", "the mask zeroes weights after the softmax"},
     Fault::mask_after_softmax},
    {{"no-mask", "the causal mask is forgotten"}, Fault::no_mask},
    {{"mask-first-batch-only", "only the first batch element is masked"},
     Fault::mask_first_batch_only},
    {{"strict-mask", "the mask hides the query's own position too"}, Fault::strict_mask},
    {{"softmax-over-queries", "the softmax runs over the queries instead of the keys"},
     Fault::softmax_over_queries},
    {{"transposed-weights", "the output is the transpose of A times the values"},
     Fault::transposed_weights},
    {{"out-is-value", "the output is the values themselves"}, Fault::out_is_value},
    {{"shown-weights-differ", "the A that is shown is not the A that is used"},
     Fault::shown_weights_differ},
    {{"reversed-when-unmasked", "without the mask, the sequence is read backwards"},
     Fault::reversed_when_unmasked},
};

template <class Scalar>
struct Answer {
  Tensor<Scalar, 3> out, A;
};

/// Clamps by real parts, so that a complex-step derivative follows the branch taken.
template <class Scalar>
Scalar clamp_between(const Scalar& value, const Scalar& low, const Scalar& high) {
  if (std::real(value) < std::real(low)) return low;
  if (std::real(value) > std::real(high)) return high;
  return value;
}

/// The faults between q, k, v and out. Templated, so that float runs it and complex<double>
/// differentiates it.
template <class Scalar>
Answer<Scalar> attend(Fault fault, Tensor<Scalar, 3> q, Tensor<Scalar, 3> k, Tensor<Scalar, 3> v,
                      bool causal) {
  using Real = decltype(std::real(Scalar()));
  constexpr Real infinity = std::numeric_limits<Real>::infinity();
  const auto [batch, seq_len, head_dim] = q.shape();
  if (fault == Fault::query_key_swapped) std::swap(q, k);
  if (fault == Fault::reversed_when_unmasked && !causal) {
    for (Tensor<Scalar, 3>* tensor : {&q, &k, &v}) {
      const Tensor<Scalar, 3> forward = *tensor;
      for (Index b = 0; b < batch; ++b) {
        for (Index t = 0; t < seq_len; ++t) {
          std::copy_n(forward[b][seq_len - 1 - t].data, head_dim, (*tensor)[b][t].data);
        }
      }
    }
  }

  Real scale = 1 / std::sqrt(static_cast<Real>(head_dim));
  if (fault == Fault::no_scale) scale = 1;
  if (fault == Fault::scale_by_d_k) scale = 1 / static_cast<Real>(head_dim);
  if (fault == Fault::zero_scores) scale = 0;

  Real masked = -infinity;
  if (fault == Fault::mask_minus_1e9) masked = -1e9F;
  if (fault == Fault::mask_minus_20) masked = -20;

  Answer<Scalar> answer{Tensor<Scalar, 3>(v.shape()), Tensor<Scalar, 3>({batch, seq_len, seq_len})};
  for (Index b = 0; b < batch; ++b) {
    const auto allowed = [&](Index i, Index j) {
      if (!causal || fault == Fault::no_mask) return true;
      if (fault == Fault::mask_first_batch_only && b > 0) return true;
      return fault == Fault::strict_mask ? j < i : j <= i;
    };
    const auto A = answer.A[b];
    for (Index i = 0; i < seq_len; ++i) {
      for (Index j = 0; j < seq_len; ++j) {
        Scalar dot(0);
        for (Index c = 0; c < head_dim; ++c) dot += q(b, i, c) * k(b, j, c);
        const bool masks_now = !allowed(i, j) && fault != Fault::mask_after_softmax;
        A(i, j) = masks_now ? Scalar(masked) : dot * scale;
      }
    }

    // The softmax runs along the second axis of `lines`.
    const auto lines = fault == Fault::softmax_over_queries ? A.transposed(0, 1) : A;
    for (Index i = 0; i < seq_len; ++i) {
      Scalar maximum(-infinity), sum(0);
      for (Index j = 0; j < seq_len; ++j) {
        if (std::real(lines(i, j)) > std::real(maximum)) maximum = lines(i, j);
      }
      for (Index j = 0; j < seq_len; ++j) {
        sum += lines(i, j) = std::real(lines(i, j)) == -infinity && std::real(maximum) != -infinity
                                 ? Scalar(0)
                                 : std::exp(lines(i, j) - maximum);
      }
      for (Index j = 0; j < seq_len; ++j) lines(i, j) /= sum;
    }
    if (fault == Fault::mask_after_softmax) {
      for (Index i = 0; i < seq_len; ++i) {
        for (Index j = 0; j < seq_len; ++j) {
          if (!allowed(i, j)) A(i, j) = 0;
        }
      }
    }

    const auto used = fault == Fault::transposed_weights ? A.transposed(0, 1) : A;
    for (Index i = 0; i < seq_len; ++i) {
      for (Index c = 0; c < head_dim; ++c) {
        Scalar& out = answer.out(b, i, c);
        for (Index j = 0; j < seq_len; ++j) {
          if (used(i, j) != Scalar(0)) out += used(i, j) * v(b, j, c);
        }
        const Scalar own = v(b, i, c), last = v(b, seq_len - 1, c);
        const bool leaks =
            fault == Fault::leak_last || (fault == Fault::leak_last_later_batch && b > 0);
        if (leaks && causal && i < 3) out = Real(0.999) * out + Real(0.001) * last;
        if (fault == Fault::half_residual) out = Real(0.5) * out + Real(0.5) * own;
        if (fault == Fault::out_is_value) out = own;
        if (fault == Fault::clamped_into_box) {
          Scalar low = v(b, 0, c), high = v(b, 0, c);
          for (Index j = 0; j < seq_len; ++j) {
            if (allowed(i, j) && std::real(v(b, j, c)) < std::real(low)) low = v(b, j, c);
            if (allowed(i, j) && std::real(v(b, j, c)) > std::real(high)) high = v(b, j, c);
          }
          out = clamp_between(Real(3) * out, low, high);
        }
      }
    }
    if (fault == Fault::shown_weights_differ) {
      for (Index i = 0; i < seq_len; ++i) {
        for (Index j = 0; j < seq_len; ++j) {
          A(i, j) = allowed(i, j) ? Scalar(Real(1) / static_cast<Real>(causal ? i + 1 : seq_len))
                                  : Scalar(0);
        }
      }
    }
  }
  return answer;
}

/// Which weights the fault's projections use.
const Tensor<float, 2>& query_weights(Fault fault, const HeadWeights& w) {
  return fault == Fault::query_is_key ? w.key : w.query;
}
const Tensor<float, 2>& value_weights(Fault fault, const HeadWeights& w) {
  return fault == Fault::value_is_key ? w.key : w.value;
}

class MutantSubject final : public Subject {
 public:
  explicit MutantSubject(const Mutant& mutant) : mutant_(mutant) {}

  std::string_view name() const override { return mutant_.info.name; }

  Result<HeadAnswer> head(const HeadProblem& problem) const override {
    const HeadWeights& w = problem.weights;
    auto answer =
        attend<float>(mutant_.fault, project<float>(problem.x, query_weights(mutant_.fault, w)),
                      project<float>(problem.x, w.key),
                      project<float>(problem.x, value_weights(mutant_.fault, w)), problem.causal);
    return HeadAnswer{std::move(answer.out), std::move(answer.A)};
  }

  /// Complex step (W. Squire and G. Trapp, SIAM Review 40, 1998): x_jm moves by ih in all batch
  /// elements, which moves row j of q, k, v by ih times a column of their weights.
  std::optional<Tensor<float, 5>> jacobian(const HeadProblem& problem) const override {
    using Complex = std::complex<double>;
    constexpr double step = 0x1p-200;
    const auto [batch, seq_len, model_dim] = problem.x.shape();
    const Tensor<float, 2>* weights[] = {&query_weights(mutant_.fault, problem.weights),
                                         &problem.weights.key,
                                         &value_weights(mutant_.fault, problem.weights)};
    const Index head_dim = problem.weights.head_dim();
    Tensor<Complex, 3> projected[3];
    for (int p = 0; p < 3; ++p) {
      const auto real = project<float>(problem.x, *weights[p]);
      projected[p] = Tensor<Complex, 3>(real.shape());
      std::copy(real.begin(), real.end(), projected[p].begin());
    }
    Tensor<float, 5> jacobian({batch, seq_len, head_dim, seq_len, model_dim});
    for (Index j = 0; j < seq_len; ++j) {
      for (Index m = 0; m < model_dim; ++m) {
        Tensor<Complex, 3> moved[3] = {projected[0], projected[1], projected[2]};
        for (int p = 0; p < 3; ++p) {
          for (Index b = 0; b < batch; ++b) {
            for (Index c = 0; c < head_dim; ++c) {
              moved[p](b, j, c) += Complex(0, step * static_cast<double>((*weights[p])(c, m)));
            }
          }
        }
        const auto answer = attend<Complex>(mutant_.fault, std::move(moved[0]), std::move(moved[1]),
                                            std::move(moved[2]), problem.causal);
        for (Index b = 0; b < batch; ++b) {
          for (Index i = 0; i < seq_len; ++i) {
            for (Index c = 0; c < head_dim; ++c) {
              jacobian(b, i, c, j, m) = static_cast<float>(answer.out(b, i, c).imag() / step);
            }
          }
        }
      }
    }
    return jacobian;
  }

 private:
  const Mutant& mutant_;
};

}  // namespace

const std::vector<MutantInfo>& mutants() {
  static const std::vector<MutantInfo> infos = [] {
    std::vector<MutantInfo> list;
    for (const Mutant& mutant : all_mutants) list.push_back(mutant.info);
    return list;
  }();
  return infos;
}

std::unique_ptr<Subject> mutant_subject(std::string_view name) {
  for (const Mutant& mutant : all_mutants) {
    if (mutant.info.name == name) return std::make_unique<MutantSubject>(mutant);
  }
  return nullptr;
}

}  // namespace headproof
