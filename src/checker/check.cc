#include "headproof/check.h"

#include <algorithm>
#include <cmath>

#include "checker/cases.h"
#include "checker/expectations.h"
#include "checker/identify.h"
#include "checker/shrink.h"
#include "theorems/attention_oracle.h"
#include "theorems/attention_theorem.h"

namespace headproof {

namespace {

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

class Checker {
 public:
  Checker(AttentionSubject& subject, const CheckOptions& options, const Report& report)
      : options_(options),
        only_(subject.only_problem()),
        asker_(subject, report.domain, report.conventions) {}

  std::vector<Declined> failed_together() const { return asker_.failed_together(); }

  /// Goes on where `report` ran out of time.
  void run(const AttentionTheorem& theorem, Clock::time_point deadline, TheoremReport& report) {
    report.id = theorem.id;
    report.title = theorem.title;
    report.statement = theorem.statement;
    report.claim = theorem.claim;
    for (Feature feature : theorem.needs) {
      if (asker_.has(feature)) continue;
      report.outcome = Outcome::not_applicable;
      report.why = "the subject does not offer " + std::string(name_of(feature));
      return;
    }
    CheckOptions chosen = options_;
    if (only_) chosen.cases = 1;
    run_cases(
        chosen, regimes_for(theorem.regimes, options_), deadline, report,
        [&](int n, std::string_view regime) {
          if (only_) return *only_;
          Draw draw(asker_.domain, case_seed(options_.seed, theorem.id, n), n, regime);
          return theorem.draw(draw);
        },
        [&](const AttentionProblem& problem) { return judge(theorem, asker_, problem); },
        [&](AttentionProblem problem, Judged judged, int n, std::string_view regime) {
          found(theorem, std::move(problem), std::move(judged), n, std::string(regime), report);
        });
  }

 private:
  void found(const AttentionTheorem& theorem, AttentionProblem problem, Judged judged, int n,
             std::string regime, TheoremReport& report) {
    const auto start = Clock::now();
    const Outcome outcome = judged.outcome;
    // What comes and goes cannot be shrunk, and is told as it was seen.
    const bool stays = judge(theorem, asker_, problem).outcome == outcome;
    const int calls = only_ || !stays ? 0 : calls_to_shrink(outcome);
    // A third of the time that a check has by default; more where the caller gives more.
    const double patience = std::max(3.0, options_.seconds / 3);
    AttentionProblem smaller =
        shrink(problem, asker_.domain, calls, [&](const AttentionProblem& candidate) {
          return since(start) < patience && judge(theorem, asker_, candidate).outcome == outcome;
        });
    Judged again = judge(theorem, asker_, smaller);
    const bool repeats = stays && again.outcome == outcome;
    if (repeats) {
      judged = std::move(again);
      problem = std::move(smaller);
    }
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
    example.note = note_of(judged);
    if (!repeats) {
      constexpr std::string_view varies = "; asked again, it did not happen: the answers vary";
      example.note += varies;
      if (!judged.why.empty()) judged.why += varies;
    }
    example.regime = std::move(regime);
    example.replay = replay_line(options_, theorem.id, n);
    example.problem = std::move(problem);
    report.outcome = outcome;
    report.why = judged.why;
    report.findings = std::move(judged.verdict.findings);
    report.counterexample = std::move(example);
  }

  const CheckOptions& options_;
  const std::optional<AttentionProblem> only_;
  Asker asker_;
};

/// What stands before the theorems when the subject ends or hangs where it declares to answer, or
/// answers nothing at all (`silent`).
std::optional<TheoremReport> fault_of_declaration(const Report& report,
                                                  const std::optional<Refusal>& silent) {
  TheoremReport fault;
  fault.id = "answers";
  fault.title = "The subject answers what it declares to accept";
  const auto add = [&](const Refusal& refusal, const std::string& said) {
    // Nothing is broken in one that calls all questions unsupported; nothing can be said of it.
    const bool gave_up =
        refusal.kind == Refusal::Kind::timed_out || refusal.kind == Refusal::Kind::unsupported;
    if (fault.outcome != Outcome::crashed) {
      fault.outcome = gave_up ? Outcome::gave_up : Outcome::crashed;
    }
    fault.why += (fault.why.empty() ? "" : "; ") + said;
  };
  if (silent) add(*silent, "it answers no plain question: " + silent->why);
  for (const Declined& declined : report.declined) {
    if (silent) break;
    const auto kind = declined.refusal.kind;
    if (kind == Refusal::Kind::crashed || kind == Refusal::Kind::timed_out) {
      add(declined.refusal, "asked for " + declined.what + ": " + declined.refusal.why);
    }
  }
  if (fault.why.empty()) return std::nullopt;
  return fault;
}

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
  const auto only = subject.only_problem();
  Probed probed = only ? Probed{subject.domain(), {}, {}} : probe_domain(subject);
  report.domain = std::move(probed.domain);
  report.declined = std::move(probed.declined);
  if (const auto fault = fault_of_declaration(report, probed.silent)) {
    report.theorems.push_back(*fault);
  }
  if (probed.silent) {
    report.seconds = since(start);
    return report;
  }
  if (!only) report.conventions = identify(subject, report.domain);

  std::vector<const AttentionTheorem*> chosen;
  for (const AttentionTheorem& theorem : attention_theorems()) {
    const auto& ids = options.theorems;
    const bool wanted = ids.empty() || std::find(ids.begin(), ids.end(), theorem.id) != ids.end();
    const bool for_identity = !bitwise_name(theorem.id).empty();
    if (options.identify_only ? for_identity : wanted) chosen.push_back(&theorem);
  }
  Checker checker(subject, options, report);
  std::vector<TheoremReport> results(chosen.size());
  // First all of them, then, in the time that is left, those for which it was too short.
  for (bool again : {false, true}) {
    std::vector<std::size_t> waiting;
    for (std::size_t at = 0; at < chosen.size(); ++at) {
      if (!again || results[at].out_of_time) waiting.push_back(at);
    }
    for (std::size_t n = 0; n < waiting.size(); ++n) {
      const AttentionTheorem& theorem = *chosen[waiting[n]];
      if (options.progress) {
        options.progress(theorem.id, static_cast<double>(n) / static_cast<double>(waiting.size()));
      }
      // What is left of the time is shared among what is left of the theorems.
      const double left = options.seconds - since(start);
      if (again && left <= 0) break;
      const auto share = std::chrono::duration<double>(std::max(0.0, left) /
                                                       static_cast<double>(waiting.size() - n));
      checker.run(theorem, Clock::now() + std::chrono::duration_cast<Clock::duration>(share),
                  results[waiting[n]]);
    }
  }
  for (Declined& declined : checker.failed_together()) {
    report.declined.push_back(std::move(declined));
  }
  for (TheoremReport& result : results) {
    const std::string_view bitwise = bitwise_name(result.id);
    if (!bitwise.empty() &&
        (result.outcome == Outcome::holds || result.outcome == Outcome::violated)) {
      report.conventions.bitwise[std::string(bitwise)] =
          result.outcome == Outcome::holds ? "holds" : "differs";
    }
    if (!options.identify_only) report.theorems.push_back(std::move(result));
  }
  compare_with_expectations(report, options);
  report.seconds = since(start);
  return report;
}

Domain plain_domain() {
  Domain domain;
  domain.features = {Feature::causal, Feature::non_causal, Feature::batches, Feature::heads};
  return domain;
}

Report check(const std::function<AttentionReply(const AttentionProblem& problem)>& function,
             const CheckOptions& options, const Domain& domain) {
  const auto subject = function_attention(
      "function", domain, [&](const AttentionProblem& problem) -> AttentionReply {
        try {
          return function(problem);
        } catch (const std::exception& error) {
          return Refusal{Refusal::Kind::failed, std::string("it threw: ") + error.what()};
        }
      });
  return check(*subject, options);
}

}  // namespace headproof
