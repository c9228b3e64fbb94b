#include "theorems/head_num_poison.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "theorems/findings.h"
#include "theorems/oracle.h"

namespace headproof {
namespace {

Verdict check_poison(const Subject& subject, const HeadProblem& problem) {
  const Index seq_len = problem.x.shape()[1];
  if (!problem.causal) return not_applicable("nothing is masked");
  if (seq_len < 2) return not_applicable("one position hides nothing");
  Findings findings;
  Checked& clean = findings.exact("NaN or infinity in the last $x_j$ reaches no row before it");
  const Tensor<float, 3> before = ask(subject, problem).out;
  for (float poison :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    HeadProblem poisoned = problem;
    for (Index b = 0; b < problem.x.shape()[0]; ++b) {
      const View<float, 1> last = poisoned.x[b][seq_len - 1];
      std::fill(last.data, last.data + last.size(), poison);
    }
    const Tensor<float, 3> after = ask(subject, poisoned).out;
    for (Index b = 0; b < before.shape()[0]; ++b) {
      for (Index i = 0; i + 1 < seq_len; ++i) {
        for (Index c = 0; c < before.shape()[2]; ++c) {
          const float was = before(b, i, c), is = after(b, i, c);
          clean.require(std::bit_cast<std::uint32_t>(was) == std::bit_cast<std::uint32_t>(is), [&] {
            return where(b, i) + ", channel " + std::to_string(c) + ": " + number(is) +
                   " where position " + std::to_string(seq_len - 1) + " holds " + number(poison) +
                   ", else " + number(was);
          });
        }
      }
    }
  }
  return findings.verdict();
}

}  // namespace

Theorem head_num_poison() {
  Theorem theorem;
  theorem.id = "num-poison";
  theorem.title = "What is masked does not reach the output";
  theorem.statement =
      R"(With the causal mask, NaN and infinity in $x_j$ leave every row before $j$ as it was.)";
  theorem.bound = "None: the rows are equal bit for bit.";
  theorem.check = check_poison;
  return theorem;
}

}  // namespace headproof
