// What right attention must answer: the definition in double precision, and how far a subject that
// follows it may be from that.
#pragma once

#include "headproof/attention_subject.h"
#include "headproof/check.h"

namespace headproof {

/// Unit roundoffs of what a subject rounds to: its accumulators (scores, sums, products), the
/// weights before they meet the values, and the output; and the smallest positive output.
struct Roundoff {
  double accumulator, weight, output, smallest;
};
Roundoff roundoff_of(Dtype dtype);

/// The problem's options with what the subject's conventions make of them.
struct AttentionOracle {
  AttentionStages<double> stages;  ///< scores, logits, A, lse, out under the subject's conventions
  /// Bounds on the errors of scores (before softcap and mask), of logits, of A, of out and of lse,
  /// for any order of sums, any blocks of keys, fused or not.
  Tensor<double, 4> score_error, weight_error, out_error;
  Tensor<double, 3> lse_error;
  /// Of A as `Asker::recover_A` sees it: a weight goes through a sum with zeros and into an output.
  Tensor<double, 4> recovered_error;

  AttentionOracle(const AttentionProblem& problem, const Domain& domain,
                  const Conventions& conventions);

  /// Whether query i may see key j (by mask, window, causality and lengths).
  bool allowed(Index b, Index h, Index i, Index j) const { return allowed_(b, h, i, j); }
  const Tensor<bool, 4>& allowed() const { return allowed_; }

  /// The key/value head that query head h reads.
  Index kv_head(Index h) const { return kv_heads_[static_cast<std::size_t>(h)]; }

 private:
  Tensor<bool, 4> allowed_;
  std::vector<Index> kv_heads_;
};

}  // namespace headproof
