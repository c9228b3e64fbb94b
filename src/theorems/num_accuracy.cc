// num-accuracy: the output is that of the definition, up to the roundings that it takes.

#include "theorems/attention_results.h"

namespace headproof {

AttentionTheorem num_accuracy() {
  return {
      .id = "num-accuracy",
      .title = "The output is that of the definition",
      .statement = R"(out = softmax(mask(scale $q k^\top$)) v in every element, as close as the )"
                   R"(roundings of the computation allow.)",
      .bound =
          R"($\sum_j (a_{ij} + A_{ij} (n + 2)\,u)\,|v_j| + u_o |o_i|$: $a_{ij}$ is what the )"
          R"(weight may err, from $(d + 4)\,u \sum_c |q_{ic}| |k_{jc}|$ for the score, )"
          R"($u\,(2 (m_i - s_{ij}) + 4 n + 8)$ for an exponential under a running maximum over )"
          R"($n$ keys in blocks of any size, the row's sum, and one rounding to the dtype of the )"
          R"(weights; $u_o$ is the rounding of the output.)",
      .claim = Claim::bounded,
      .draw =
          [](Draw& draw) {
            const Sizes sizes = draw.rectangular_sizes();
            return draw.problem(sizes, draw.either_causal());
          },
      .judge =
          [](Asker& asker, const AttentionProblem& problem) {
            Findings findings;
            Checked& close = findings.bounded("out is that of the definition");
            const AttentionOracle oracle(problem, asker.domain, asker.conventions);
            compare_out(close, asker.ask(problem), oracle, asker.conventions);
            return findings.verdict();
          },
  };
}

}  // namespace headproof
