#include "checker/cases.h"

#include <algorithm>

namespace headproof {

const std::vector<Regime>& regimes() {
  static const std::vector<Regime> all = {
      {"gaussian",
       "numbers as they are after a layer norm: nothing special, so that a fault that "
       "shows here shows anywhere"},
      {"single", "one position: off-by-one errors, empty loops, and rows that see one key"},
      {"one-hot", "weights near 0 and 1: a wrong index shows as another value"},
      {"tied", "equal scores: every row is a mean, so that one key more or less is seen"},
      {"lanes", "lengths one below, at and above a vector or block: tails"},
      {"huge-scores",
       "scores up to 10^30: finite stand-ins for minus infinity, and overflow where "
       "the maximum isn't subtracted"},
      {"long", "more positions than a block or tile: merging, running maxima, skipped blocks"},
      {"tiny", "numbers near 10^-18: products that underflow, thresholds"},
      {"denormal", "values below the normal range: flush-to-zero"},
      {"nan", "a NaN or infinity somewhere: what may not see it must not"},
      {"inf", "an infinity among the values"},
  };
  return all;
}

std::uint64_t case_seed(std::uint64_t seed, std::string_view id, int case_number) {
  std::uint64_t hash = 14695981039346656037ULL ^ seed;  // FNV-1a
  const auto mix = [&](unsigned char byte) { hash = (hash ^ byte) * 1099511628211ULL; };
  for (char letter : id) mix(static_cast<unsigned char>(letter));
  for (int shift = 0; shift < 32; shift += 8) {
    mix(static_cast<unsigned char>(static_cast<unsigned>(case_number) >> shift));
  }
  return hash ^ hash >> 32;
}

std::vector<std::string_view> regimes_for(const std::vector<std::string_view>& of_theorem,
                                          const CheckOptions& options) {
  std::vector<std::string_view> names;
  for (const Regime& regime : regimes()) {
    const auto wants = [&](const auto& list) {
      return list.empty() || std::find(list.begin(), list.end(), regime.name) != list.end();
    };
    // NaN and infinity are for theorems that ask for them by name.
    const bool special = regime.name == "nan" || regime.name == "inf";
    if ((of_theorem.empty() ? !special : wants(of_theorem)) && wants(options.regimes)) {
      names.push_back(regime.name);
    }
  }
  return names;
}

int calls_to_shrink(Outcome outcome) {
  return outcome == Outcome::violated ? 1500 : outcome == Outcome::crashed ? 60 : 0;
}

void write_down(const CheckOptions& options, int case_number, std::string_view regime,
                Judged judged, Counterexample example, TheoremReport& report) {
  example.note = judged.why;
  for (Finding& finding : judged.verdict.findings) {
    if (finding.outcome != Outcome::violated || !example.note.empty()) continue;
    example.note = finding.what + ": " + finding.note;
    example.place = finding.place;
  }
  if (judged.varies) {
    constexpr std::string_view varies = "; asked again, it did not happen: the answers vary";
    example.note += varies;
    if (!judged.why.empty()) judged.why += varies;
  }
  example.regime = regime;
  example.replay = options.replay ? options.replay(report.id, case_number)
                                  : options.command + " --theorem " + report.id + " --seed " +
                                        std::to_string(options.seed) + " --case " +
                                        std::to_string(case_number);
  report.outcome = judged.outcome;
  report.why = std::move(judged.why);
  report.findings = std::move(judged.verdict.findings);
  report.counterexample = std::move(example);
}

}  // namespace headproof
