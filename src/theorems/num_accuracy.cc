// num-accuracy: the output is that of the definition, up to the roundings that it takes.

#include <algorithm>
#include <array>

#include "theorems/attention_results.h"

namespace headproof {
namespace {

/// Sizes by plan, so that no run is without them: the lengths around those of blocks, the head_dims
/// and the numbers of heads that models have, each in a regime whose numbers show what goes wrong.
Sizes planned_sizes(Draw& draw) {
  constexpr int regimes = 9;  // that it is for
  const Features& has = draw.domain.features;
  const auto turn = static_cast<std::size_t>(draw.case_number / regimes);
  Sizes sizes = draw.rectangular_sizes();
  const auto set_length = [&](Index about) {
    // One below or above the length of a block: one step of what the subject accepts.
    const Index block = (about + 4) / 8 * 8;
    sizes.seq_len_q = sizes.seq_len_k =
        draw.length(block + (about - block) * draw.domain.length_multiple);
  };
  const auto set_few_positions = [&] {
    sizes.seq_len_q = std::min(sizes.seq_len_q, draw.length(4));
    sizes.seq_len_k = std::min(sizes.seq_len_k, draw.length(4));
  };
  if (draw.regime == "lanes") {
    constexpr std::array<Index, 7> lengths = {16, 31, 32, 33, 63, 64, 65};
    set_length(lengths[turn % lengths.size()]);
  } else if (draw.regime == "tied" && turn > 0) {
    constexpr std::array<Index, 6> lengths = {15, 17, 7, 8, 9, 16};
    set_length(lengths[(turn - 1) % lengths.size()]);
  } else if (draw.regime == "long") {
    constexpr std::array<Index, 7> lengths = {127, 128, 129, 350, 255, 256, 257};
    set_length(lengths[turn % lengths.size()]);
    if (turn == 3 && has.has(Feature::rectangular)) {
      sizes.seq_len_q = draw.length(8);
      sizes.seq_len_k = draw.length(513 + draw.below(588));
    }
    sizes.batch = sizes.num_heads = sizes.num_kv_heads = 1;
    sizes.head_dim = sizes.value_dim = draw.dim(1 + draw.below(4));
  } else if ((draw.regime == "gaussian" || draw.regime == "denormal") && turn > 0) {
    constexpr std::array<Index, 7> gaussian = {32, 128, 24, 96, 80, 256, 40};
    constexpr std::array<Index, 6> denormal = {64, 48, 160, 32, 128, 96};
    sizes.head_dim =
        draw.dim(draw.regime == "gaussian" ? gaussian[(turn - 1) % 7] : denormal[(turn - 1) % 6]);
    sizes.value_dim = sizes.head_dim;
    set_few_positions();
  } else if (draw.regime == "one-hot" && turn > 0 && has.has(Feature::heads)) {
    constexpr std::array<std::array<Index, 2>, 6> heads = {
        {{8, 8}, {4, 1}, {12, 12}, {8, 1}, {32, 8}, {28, 4}}};
    sizes.num_heads = heads[(turn - 1) % 6][0];
    sizes.num_kv_heads =
        has.has(Feature::grouped_heads) ? heads[(turn - 1) % 6][1] : sizes.num_heads;
    sizes.batch = 1;
    set_few_positions();
  }
  return sizes;
}

AttentionProblem draw_accuracy(Draw& draw) {
  const Sizes sizes = planned_sizes(draw);
  const bool causal = draw.either_causal();
  AttentionProblem problem = draw.problem(sizes, causal);
  if (draw.regime == "long" && sizes.seq_len_q < sizes.seq_len_k) {  // let queries see all keys
    const bool open = draw.domain.features.has(Feature::non_causal);
    problem.causal = open ? Causal::none : Causal::bottom_right;
  }
  return problem;
}

}  // namespace

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
      .draw = draw_accuracy,
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
