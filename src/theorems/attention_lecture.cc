#include "theorems/attention_lecture.h"

#include <algorithm>
#include <cmath>

#include "headproof/theorems.h"

namespace headproof {

AttentionTheorem lecture_theorem(std::string_view id) {
  const Theorem& lecture = *find_theorem(id);
  AttentionTheorem theorem;
  theorem.id = lecture.id;
  theorem.title = lecture.title;
  theorem.statement = lecture.statement;
  return theorem;
}

Sizes moderate_sizes(Draw& draw, Index longest) {
  Sizes sizes = draw.sizes();
  if (sizes.seq_len_q <= 20) return sizes;
  if (draw.regime == "long") {
    sizes.seq_len_q = sizes.seq_len_k = draw.length(100 + draw.below(longest - 100));
  }
  sizes.batch = sizes.num_kv_heads = 1;
  sizes.num_heads = std::min<Index>(sizes.num_heads, 2);
  if (!draw.domain.features.has(Feature::grouped_heads)) sizes.num_heads = 1;
  sizes.value_dim = draw.dim(64);
  if (!draw.domain.features.has(Feature::value_dim)) sizes.head_dim = sizes.value_dim;
  return sizes;
}

Weights weights_of(Asker& asker, const AttentionProblem& problem) {
  try {
    return {asker.recover_A(problem)};
  } catch (const Refused& refused) {
    if (refused.refusal.kind != Refusal::Kind::unsupported || !asker.has(Feature::weights)) throw;
  }
  AttentionProblem asked = problem;
  asked.want_weights = true;
  return {*asker.ask(asked).weights, true};
}

std::optional<std::string> no_numbers(const AttentionProblem& problem) {
  for (const auto* tensor : {&problem.q, &problem.k, &problem.v}) {
    if (tensor->size() == 0) return "a size is 0";
    if (!std::all_of(tensor->begin(), tensor->end(), [](float x) { return std::isfinite(x); })) {
      return "not all of q, k and v is finite";
    }
  }
  return std::nullopt;
}

std::optional<std::string> no_sequence(const AttentionProblem& problem) {
  if (problem.seq_len_q() != problem.seq_len_k()) return "it is about as many queries as keys";
  return no_numbers(problem);
}

double row_sum_error(Index n, const Roundoff& u) {
  const auto keys = static_cast<double>(n);
  return (3 * keys + 6) * u.accumulator + u.weight + u.output + 2 * keys * u.smallest;
}

}  // namespace headproof
