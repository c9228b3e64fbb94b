#include "headproof/check.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "checker/identify.h"
#include "checker/shrink.h"
#include "theorems/attention_oracle.h"
#include "theorems/attention_theorem.h"

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

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What a judgement came to, answers that were refused included.
struct Judged {
  Outcome outcome = Outcome::holds;
  Verdict verdict;
  std::string why;
};

Judged judge(const AttentionTheorem& theorem, Asker& asker, const AttentionProblem& problem) {
  try {
    Verdict verdict = theorem.judge(asker, problem);
    const Outcome outcome = verdict.outcome();
    return {outcome, std::move(verdict), ""};
  } catch (const Refused& refused) {
    switch (refused.refusal.kind) {
      case Refusal::Kind::unsupported:
        return {Outcome::unsupported, {}, refused.refusal.why};
      case Refusal::Kind::timed_out:
        return {Outcome::gave_up, {}, refused.refusal.why};
      default:
        return {Outcome::crashed, {}, refused.refusal.why};
    }
  }
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

std::vector<std::string_view> regimes_for(const AttentionTheorem& theorem,
                                          const CheckOptions& options) {
  std::vector<std::string_view> names;
  for (const Regime& regime : regimes()) {
    const auto wants = [&](const auto& list) {
      return list.empty() || std::find(list.begin(), list.end(), regime.name) != list.end();
    };
    // NaN and infinity are for theorems that ask for them by name.
    const bool special = regime.name == "nan" || regime.name == "inf";
    if ((theorem.regimes.empty() ? !special : wants(theorem.regimes)) && wants(options.regimes)) {
      names.push_back(regime.name);
    }
  }
  return names;
}

class Checker {
 public:
  Checker(AttentionSubject& subject, const CheckOptions& options, const Report& report)
      : options_(options), asker_(subject, report.domain, report.conventions) {}

  TheoremReport run(const AttentionTheorem& theorem, Clock::time_point deadline) {
    TheoremReport report;
    report.id = theorem.id;
    report.title = theorem.title;
    report.statement = theorem.statement;
    report.claim = theorem.claim;
    for (Feature feature : theorem.needs) {
      if (asker_.has(feature)) continue;
      report.outcome = Outcome::not_applicable;
      report.why = "the subject does not offer " + std::string(name_of(feature));
      return report;
    }
    const std::vector<std::string_view> names = regimes_for(theorem, options_);
    if (names.empty()) {
      report.outcome = Outcome::not_applicable;
      report.why = "none of the chosen regimes is for it";
      return report;
    }
    report.outcome = Outcome::not_applicable;
    report.why = "no problem was one that it speaks of";
    for (int n = 0; n < options_.cases; ++n) {
      if (options_.case_number >= 0 && n != options_.case_number) continue;
      if (Clock::now() > deadline && report.cases > 0 && options_.case_number < 0) break;
      const std::string_view regime = names[static_cast<std::size_t>(n) % names.size()];
      Draw draw(asker_.domain, case_seed(options_.seed, theorem.id, n), n, regime);
      AttentionProblem problem = theorem.draw(draw);
      Judged judged = judge(theorem, asker_, problem);
      ++report.cases;
      if (judged.outcome == Outcome::not_applicable) continue;
      if (judged.outcome == Outcome::unsupported) {
        if (report.outcome == Outcome::not_applicable) {
          report.outcome = Outcome::unsupported;
          report.why = judged.why;
        }
        continue;
      }
      if (judged.outcome == Outcome::holds) {
        report.outcome = Outcome::holds;
        report.why.clear();
        if (judged.verdict.used() >= report.used) {
          report.used = judged.verdict.used();
          report.findings = judged.verdict.findings;
        }
        continue;
      }
      found(theorem, std::move(problem), judged.outcome, n, std::string(regime), report);
      break;
    }
    return report;
  }

 private:
  void found(const AttentionTheorem& theorem, AttentionProblem problem, Outcome outcome, int n,
             std::string regime, TheoremReport& report) {
    const auto start = Clock::now();
    // A crash starts a new process each time, and a time-out waits: fewer tries.
    const int calls = outcome == Outcome::violated ? 1500 : outcome == Outcome::crashed ? 60 : 0;
    // A third of the time that a check has by default; more where the caller gives more.
    const double patience = std::max(3.0, options_.seconds / 3);
    problem =
        shrink(std::move(problem), asker_.domain, calls, [&](const AttentionProblem& smaller) {
          return since(start) < patience && judge(theorem, asker_, smaller).outcome == outcome;
        });
    Judged judged = judge(theorem, asker_, problem);
    Counterexample example;
    const AttentionOracle oracle(problem, asker_.domain, asker_.conventions);
    example.out = oracle.stages.out;
    example.A = oracle.stages.A;
    example.reply = asker_.reply(problem);
    if (outcome == Outcome::violated) {
      try {
        example.A_used = asker_.recover_A(problem);
      } catch (const Refused&) {
        // The counterexample is told without it.
      }
    }
    for (const Finding& finding : judged.verdict.findings) {
      if (finding.outcome == Outcome::violated && example.note.empty()) {
        example.note = finding.what + ": " + finding.note;
      }
    }
    if (!judged.why.empty()) example.note = judged.why;
    example.regime = std::move(regime);
    example.replay = options_.command + " --theorem " + std::string(theorem.id) + " --seed " +
                     std::to_string(options_.seed) + " --case " + std::to_string(n);
    example.problem = std::move(problem);
    report.outcome = outcome;
    report.why = judged.why;
    report.findings = std::move(judged.verdict.findings);
    report.counterexample = std::move(example);
  }

  const CheckOptions& options_;
  Asker asker_;
};

/// A bitwise theorem's short name among the conventions.
std::string_view bitwise_name(std::string_view id) {
  if (id == "num-determinism") return "determinism";
  if (id == "num-thread-invariance") return "threads";
  if (id == "num-batch-invariance") return "batch";
  if (id == "num-prefix") return "prefix";
  if (id == "num-decode-equals-prefill") return "decode";
  return "";
}

}  // namespace

Report check(AttentionSubject& subject, const CheckOptions& options) {
  const auto start = Clock::now();
  Report report;
  report.subject = subject.name();
  report.seed = options.seed;
  auto probed = probe_domain(subject);
  if (auto* refusal = std::get_if<Refusal>(&probed)) {
    report.domain = subject.domain();
    TheoremReport none;
    none.id = "answers";
    none.title = "the subject answers a plain question";
    none.outcome = refusal->kind == Refusal::Kind::timed_out ? Outcome::gave_up : Outcome::crashed;
    none.why = refusal->why;
    report.theorems.push_back(std::move(none));
    return report;
  }
  report.domain = std::get<Domain>(std::move(probed));
  report.conventions = identify(subject, report.domain);

  std::vector<const AttentionTheorem*> chosen;
  for (const AttentionTheorem& theorem : attention_theorems()) {
    const auto& ids = options.theorems;
    const bool wanted = ids.empty() || std::find(ids.begin(), ids.end(), theorem.id) != ids.end();
    const bool for_identity = !bitwise_name(theorem.id).empty();
    if (options.identify_only ? for_identity : wanted) chosen.push_back(&theorem);
  }
  Checker checker(subject, options, report);
  for (std::size_t at = 0; at < chosen.size(); ++at) {
    if (options.progress) {
      options.progress(chosen[at]->id,
                       static_cast<double>(at) / static_cast<double>(chosen.size()));
    }
    // What is left of the time is shared among what is left of the theorems.
    const double left = std::max(0.0, options.seconds - since(start));
    const auto share =
        std::chrono::duration<double>(left / static_cast<double>(chosen.size() - at));
    TheoremReport result =
        checker.run(*chosen[at], Clock::now() + std::chrono::duration_cast<Clock::duration>(share));
    const std::string_view bitwise = bitwise_name(result.id);
    if (!bitwise.empty() &&
        (result.outcome == Outcome::holds || result.outcome == Outcome::violated)) {
      report.conventions.bitwise[std::string(bitwise)] =
          result.outcome == Outcome::holds ? "holds" : "differs";
    }
    if (!options.identify_only) report.theorems.push_back(std::move(result));
  }
  report.seconds = since(start);
  return report;
}

}  // namespace headproof
