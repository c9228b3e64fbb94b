#include "checker/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "prose/lines.h"
#include "prose/math.h"
#include "theorems/findings.h"

namespace headproof {
namespace {

std::string counted(Index count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

void append(std::string& list, const std::string& entry) {
  list += (list.empty() ? "" : ", ") + entry;
}

std::string_view name_of(Causal causal) {
  return causal == Causal::none       ? "not causal"
         : causal == Causal::top_left ? "causal"
                                      : "causal from the bottom right";
}

}  // namespace

bool judged(const TheoremReport& theorem) {
  return theorem.outcome == Outcome::holds || theorem.outcome == Outcome::violated;
}

bool fails(const TheoremReport& theorem) {
  switch (theorem.outcome) {
    case Outcome::violated:
      return theorem.gates && !theorem.expected;
    case Outcome::crashed:
    case Outcome::gave_up:
      return true;
    default:
      return false;
  }
}

std::string_view verdict_word(const TheoremReport& theorem) {
  if (theorem.expected) return "expected";
  if (theorem.outcome == Outcome::violated && theorem.claim == Claim::bitwise) return "differs";
  return name_of(theorem.outcome);
}

std::string_view mark(const TheoremReport& theorem) {
  if (theorem.outcome == Outcome::holds) return "✓";
  if (fails(theorem)) return theorem.outcome == Outcome::violated ? "✗" : "!";
  return theorem.outcome == Outcome::violated ? "~" : "-";
}

std::string margin_text(const TheoremReport& theorem) {
  if (!judged(theorem)) return "";
  if (theorem.claim != Claim::bounded) return std::string(name_of(theorem.claim));
  double used = theorem.used;
  for (const Finding& finding : theorem.findings) {
    if (theorem.outcome != Outcome::violated || finding.outcome != Outcome::violated) continue;
    // An exact claim among those of a bounded theorem, or a NaN, has no share to tell.
    if (finding.claim != Claim::bounded) return std::string(name_of(finding.claim));
    if (std::isnan(finding.error)) return "NaN";
    used = finding.error / finding.bound;
  }
  std::array<char, 32> text{};
  const double percent = 100 * used;
  if (used > 1000) return "> 1000 times";
  if (percent > 1000) {
    std::snprintf(text.data(), text.size(), "%.0f times", used);
  } else if (percent > 0 && percent < 0.1) {
    return "< 0.1 %";
  } else {
    std::snprintf(text.data(), text.size(), "%.1f %%", percent);
  }
  return text.data();
}

std::string reason_text(const TheoremReport& theorem) {
  // What a subject says of itself is no prose of ours.
  if (!theorem.why.empty() || !theorem.counterexample) return on_one_line(theorem.why);
  return on_one_line(math_to_text(theorem.counterexample->note));
}

std::string summary_text(const Report& report) {
  // In the order of gravity.
  constexpr std::array<std::string_view, 8> order = {"holds",       "violated",      "expected",
                                                     "differs",     "crashed",       "gave up",
                                                     "unsupported", "not applicable"};
  std::string list;
  for (std::string_view word : order) {
    const auto count = std::count_if(
        report.theorems.begin(), report.theorems.end(),
        [word](const TheoremReport& theorem) { return verdict_word(theorem) == word; });
    if (count == 0) continue;
    // One theorem holds, two hold; one differs, two differ.
    std::string verb(word);
    if (count > 1 && (word == "holds" || word == "differs")) verb.pop_back();
    append(list, std::to_string(count) + " " + verb);
  }
  const auto cut = std::count_if(report.theorems.begin(), report.theorems.end(),
                                 [](const TheoremReport& theorem) { return theorem.out_of_time; });
  if (cut > 0) list += "; time ran out on " + std::to_string(cut) + ", more --seconds ask more";
  return counted(static_cast<Index>(report.theorems.size()), "theorem", "theorems") +
         (list.empty() ? "" : ": " + list);
}

std::string domain_text(const Domain& domain) {
  std::string text(name_of(domain.dtype));
  text += domain.layout == Layout::bhsd ? ", [batch, num_heads, seq_len, head_dim]"
                                        : ", [batch, seq_len, num_heads, head_dim]";
  text += domain.head_dims.empty() ? ", any head_dim" : ", head_dim ";
  for (std::size_t at = 0; at < domain.head_dims.size(); ++at) {
    const bool last = at + 1 == domain.head_dims.size();
    text += (at == 0 ? "" : last ? " or " : ", ") + std::to_string(domain.head_dims[at]);
  }
  const bool bounded = domain.max_length != Domain().max_length;
  if (domain.length_multiple > 1) {
    text += ", lengths in multiples of " + std::to_string(domain.length_multiple);
  } else {
    text += bounded ? ", lengths" : ", any length";
  }
  return bounded ? text + " up to " + std::to_string(domain.max_length) : text;
}

std::string features_text(const Features& features, bool offered) {
  std::string list;
  for (int at = 0; at < feature_count; ++at) {
    const auto feature = static_cast<Feature>(at);
    if (features.has(feature) == offered) append(list, std::string(name_of(feature)));
  }
  return list.empty() ? "nothing" : list;
}

std::string problem_text(const AttentionProblem& problem) {
  std::string text;
  if (problem.batch() != 1) append(text, "batch of " + std::to_string(problem.batch()));
  append(text, counted(problem.num_heads(), "head", "heads"));
  if (problem.num_kv_heads() != problem.num_heads()) {
    text += " on " + counted(problem.num_kv_heads(), "key head", "key heads");
  }
  append(text, counted(problem.seq_len_q(), "query", "queries"));
  append(text, counted(problem.seq_len_k(), "key", "keys"));
  append(text, "head_dim " + std::to_string(problem.head_dim()));
  if (problem.value_dim() != problem.head_dim()) {
    append(text, "value_dim " + std::to_string(problem.value_dim()));
  }
  std::string options(name_of(problem.causal));
  if (problem.scale) append(options, "scale " + number(*problem.scale));
  if (problem.query_offset) append(options, "offset " + std::to_string(*problem.query_offset));
  if (problem.window) append(options, "window " + std::to_string(*problem.window));
  if (problem.softcap > 0) append(options, "softcap " + number(problem.softcap));
  if (problem.mask) append(options, "mask");
  if (problem.bias) append(options, "bias");
  for (std::size_t b = 0; b < problem.key_length.size(); ++b) {
    append(options, (b == 0 ? "key_length " : "") + std::to_string(problem.key_length[b]));
  }
  if (problem.threads > 0) append(options, counted(problem.threads, "thread", "threads"));
  if (problem.strided) append(options, problem.strided_channels ? "all strided" : "strided");
  if (problem.decode) append(options, "decode");
  if (problem.want_lse) append(options, "with lse");
  if (problem.want_weights) append(options, "with A");
  if (problem.d_out) append(options, "with gradients");
  return text + "; " + options;
}

std::string no_longer_text(const std::string& id) {
  return id + " is listed as violated and holds; take it off the list";
}

std::string example_text(const Counterexample& example, const CounterexampleView& view) {
  std::string text = "the smallest counterexample found: " + problem_text(example.problem) +
                     " (regime " + example.regime + ")";
  if (example.problem.batch() > 1 || example.problem.num_heads() > 1) {
    text += "; shown: batch " + std::to_string(view.batch) + ", head " + std::to_string(view.head);
  }
  return text;
}

}  // namespace headproof
