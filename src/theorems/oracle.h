// What a right head must answer: the definition in double precision, how far float32 may be from
// it, and the attention matrix that a head really used.
#pragma once

#include <array>
#include <stdexcept>

#include "headproof/head.h"
#include "headproof/subjects.h"

namespace headproof {

/// Unit roundoff of float32: the largest relative error of one rounding.
inline constexpr double unit_roundoff = 0x1p-24;

/// How many keys query i may see in a head's problem.
inline Index visible_keys(const HeadProblem& problem, Index i) {
  return problem.causal ? i + 1 : problem.x.shape()[1];
}

/// The head in double precision, and bounds on the error of any float32 head that follows the
/// formula: each sum may be taken in any order, fused or not; exp may err by two units in the last
/// place; the row maximum is subtracted first.
struct Oracle {
  Tensor<double, 3> q, k, v;       ///< [batch, seq_len, head_dim]
  Tensor<double, 3> scores, A;     ///< [batch, seq_len, seq_len]
  Tensor<double, 3> out;           ///< [batch, seq_len, head_dim]
  Tensor<double, 3> value_error;   ///< of v: (model_dim + 1) u sum |w| |x|
  Tensor<double, 3> score_error;   ///< of a scaled score, from q, k and their product
  Tensor<double, 3> weight_error;  ///< of A: the score's error passes through exp as a factor
  Tensor<double, 3> out_error;     ///< of out: from A, from v, and from their product

  explicit Oracle(const HeadProblem& problem);
};

/// A head gave no answer where a theorem needs one.
struct SubjectFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The problem with the causal mask, and without it.
std::array<HeadProblem, 2> masked_and_open(const HeadProblem& problem);

/// The head's answer; throws SubjectFailed when there is none, or one of another shape.
HeadAnswer ask(const Subject& subject, const HeadProblem& problem);

/// The attention matrix that the head uses, seen through `out` alone: the input gets seq_len
/// further channels that carry the identity, which only the values read, so that out = A I shows
/// head_dim columns of A a call. Throws SubjectFailed.
Tensor<float, 3> recover_A(const Subject& subject, const HeadProblem& problem);

/// ln(A_ij / A_im) against s_ij - s_im, the score differences of the definition, where m is the key
/// of row i's largest weight; for a causal problem where j <= i. Weights too small for a float32 to
/// hold them with full precision are left out.
struct RecoveredScores {
  double largest_share = 0;  ///< of its bound that the worst difference uses; NaN if any is NaN
  double error = 0, bound = 0;
  Index batch = 0, query = 0, key = 0;  ///< where that is
  double scale = 0;  ///< least-squares factor between ln A and the unscaled products q k^T
};
RecoveredScores recover_scores(const Tensor<float, 3>& A, const HeadProblem& problem,
                               const Oracle& oracle);

/// `rows` of `x` in another order: y[b, t] = x[b, permutation[t]].
Tensor<float, 3> permute_rows(View<const float, 3> x, View<const Index, 1> permutation);

}  // namespace headproof
