// What a theorem may ask of an implementation.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headproof/head.h"
#include "headproof/result.h"
#include "headproof/tensor.h"

namespace headproof {

/// One question to a head. The weights are passed in, so that swapped projections and wrong scales
/// show.
struct HeadProblem {
  Tensor<float, 3> x;  ///< [batch, seq_len, model_dim]
  HeadWeights weights;
  bool causal = true;
};

/// A head's answer: out [batch, seq_len, head_dim], and A [batch, seq_len, seq_len] where the head
/// shows it.
struct HeadAnswer {
  Tensor<float, 3> out;
  std::optional<Tensor<float, 3>> A;
};

/// An implementation of the head (x, weights) -> out, however it works.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual std::string_view name() const = 0;

  /// The head's answer; an error when the head gives none.
  virtual Result<HeadAnswer> head(const HeadProblem& problem) const = 0;

  /// d out[b, i, c] / d x[b, j, m] as [batch, seq_len, head_dim, seq_len, model_dim], for heads
  /// that offer gradients.
  virtual std::optional<Tensor<float, 5>> jacobian(const HeadProblem& problem) const;
};

/// The reference head, its gradients by vector-Jacobian products.
std::unique_ptr<Subject> reference_subject();

/// A head that is wrong on purpose: what a mutant's name means, in one sentence.
struct MutantInfo {
  std::string_view name, what;
};

/// All mutants, in a fixed order.
const std::vector<MutantInfo>& mutants();

/// The mutant of that name; null when there is none.
std::unique_ptr<Subject> mutant_subject(std::string_view name);

}  // namespace headproof
