// What right gradients of attention must be: those of the definition in double precision, and how
// far a subject's may be from them.
#pragma once

#include "theorems/attention_oracle.h"

namespace headproof {

struct AttentionGradientOracle {
  /// d_q, d_k, d_v of sum(d_out * out), and bounds on the errors of a backward pass that makes the
  /// weights again from lse, rounds weights and their gradients to the dtype, and sums in any
  /// order.
  AttentionGradients<double> gradients, errors;

  /// Precondition: problem.d_out, finite, and `forward` of the same problem.
  AttentionGradientOracle(const AttentionProblem& problem, const Domain& domain,
                          const Conventions& conventions, const AttentionOracle& forward);
};

/// `d_out` with zeros in rows that see no key: where they follow a convention of their own, they
/// have no gradient, and a loss that leaves them out must not feel them.
void leave_out_empty_rows(Tensor<float, 4>& d_out, const AttentionOracle& oracle);

}  // namespace headproof
