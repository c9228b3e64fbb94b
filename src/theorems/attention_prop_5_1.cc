// Proposition 5.1 for a black box: the causal mask makes A lower-triangular, and attention causal.

#include "headproof/theorems.h"
#include "theorems/attention_results.h"

namespace headproof {

AttentionTheorem attention_prop_5_1() {
  const Theorem& lecture = *find_theorem("prop-5.1");
  return {
      .id = lecture.id,
      .title = lecture.title,
      .statement = lecture.statement,
      .bound = "None: zeros are exact.",
      .claim = Claim::exact,
      .needs = {Feature::causal},
      .draw = [](Draw& draw) { return draw.problem(true); },
      .judge =
          [](Asker& asker, const AttentionProblem& problem) {
            Findings findings;
            Checked& triangular = findings.exact("$A$ is 0 above the diagonal");
            const Tensor<double, 4> A = asker.recover_A(problem);
            const auto [batch, heads, rows, keys] = A.shape();
            for (Index b = 0; b < batch; ++b) {
              for (Index h = 0; h < heads; ++h) {
                for (Index i = 0; i < rows; ++i) {
                  for (Index j = i + 1; j < keys; ++j) {
                    triangular.require(A(b, h, i, j) == 0, [&] {
                      return place(b, h, i, j) + ": " + number(A(b, h, i, j));
                    });
                  }
                }
              }
            }
            return findings.verdict();
          },
  };
}

}  // namespace headproof
