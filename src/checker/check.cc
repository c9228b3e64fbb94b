#include "headproof/check.h"

#include <algorithm>
#include <cmath>

#include "checker/cases.h"
#include "checker/counterexample.h"
#include "checker/expectations.h"
#include "checker/identify.h"
#include "checker/shrink.h"
#include "theorems/attention_gradient_oracle.h"
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

class BlackBox {
 public:
  BlackBox(AttentionSubject& subject, const CheckOptions& options, const Report& report)
      : options_(options),
        only_(subject.only_problem()),
        asker_(subject, report.domain, report.conventions) {}

  std::vector<Declined> failed_together() const { return asker_.failed_together(); }

  void go_on(const AttentionTheorem& theorem, Clock::time_point deadline, TheoremReport& report) {
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
    const auto judge_it = [&](const AttentionProblem& problem) {
      return judge(theorem, asker_, problem);
    };
    run_cases(
        chosen, regimes_for(theorem.regimes, options_), deadline, report,
        [&](int n, std::string_view regime) {
          if (only_) return *only_;
          Draw draw(asker_.domain, case_seed(options_.seed, theorem.id, n), n, regime);
          return theorem.draw(draw);
        },
        judge_it,
        [&](AttentionProblem problem, Judged judged, int n, std::string_view regime) {
          const int calls = only_ ? 0 : calls_to_shrink(judged.outcome);
          make_smaller(options_, problem, judged, judge_it,
                       [&](const AttentionProblem& larger, const auto& fails) {
                         return shrink(larger, asker_.domain, calls, fails);
                       });
          Counterexample example = counterexample_of(std::move(problem), judged.outcome);
          write_down(options_, n, regime, std::move(judged), std::move(example), report);
        });
  }

 private:
  Counterexample counterexample_of(AttentionProblem problem, Outcome outcome) {
    Counterexample example;
    if (problem.d_out) {  // as num-gradient asks
      leave_out_empty_rows(*problem.d_out,
                           AttentionOracle(problem, asker_.domain, asker_.conventions));
    }
    example.should_be = definition_of(problem, asker_.domain, asker_.conventions).values;
    example.reply = asker_.reply(problem);
    if (outcome == Outcome::violated) {
      try {
        example.A_used = asker_.recover_A(problem);
      } catch (const Refused&) {
        // The counterexample is told without it.
      }
    }
    example.problem = std::move(problem);
    return example;
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

/// The theorems that a check is about: those chosen, or those that find out what bits depend on.
std::vector<const AttentionTheorem*> chosen_theorems(const CheckOptions& options) {
  std::vector<const AttentionTheorem*> chosen;
  for (const AttentionTheorem& theorem : attention_theorems()) {
    const auto& ids = options.theorems;
    const bool wanted = ids.empty() || std::find(ids.begin(), ids.end(), theorem.id) != ids.end();
    const bool for_identity = !bitwise_name(theorem.id).empty();
    if (options.identify_only ? for_identity : wanted) chosen.push_back(&theorem);
  }
  return chosen;
}

/// First all of them, then, in the time that is left, those for which it was too short.
std::vector<TheoremReport> take_turns(const std::vector<Turn>& turns, const CheckOptions& options,
                                      Clock::time_point start,
                                      const std::function<void(TheoremReport&)>& ended) {
  std::vector<TheoremReport> results(turns.size());
  for (bool again : {false, true}) {
    std::vector<std::size_t> waiting;
    for (std::size_t at = 0; at < turns.size(); ++at) {
      if (!again || results[at].out_of_time) waiting.push_back(at);
    }
    for (std::size_t n = 0; n < waiting.size(); ++n) {
      const Turn& turn = turns[waiting[n]];
      TheoremReport& result = results[waiting[n]];
      if (options.progress) {
        options.progress(turn.id, static_cast<double>(n) / static_cast<double>(waiting.size()));
      }
      // What is left of the time is shared among what is left of the theorems.
      const double left = std::max(0.0, options.seconds - since(start));
      const std::chrono::duration<double> share(left / static_cast<double>(waiting.size() - n));
      if (!again || left > 0) {
        turn.go_on(Clock::now() + std::chrono::duration_cast<Clock::duration>(share), result);
      }
      if (again || !result.out_of_time) ended(result);
    }
  }
  return results;
}

}  // namespace

Report check_in_turns(
    AttentionSubject& subject, const CheckOptions& options,
    const std::function<Turn(Turn of_black_box, const Domain& domain)>& complete) {
  const auto start = Clock::now();
  Report report;
  report.subject = subject.name();
  report.seed = options.seed;
  const auto only = subject.only_problem();
  Probed probed = only ? Probed{subject.domain(), {}, {}} : probe_domain(subject);
  report.domain = std::move(probed.domain);
  report.declined = std::move(probed.declined);
  if (!only && !probed.silent) report.conventions = identify(subject, report.domain);
  if (options.identified) options.identified(report);

  const auto ended = [&](TheoremReport& theorem) {
    apply_expectations(theorem, options);
    if (options.ended && !options.identify_only) options.ended(theorem);
  };
  if (auto fault = fault_of_declaration(report, probed.silent)) {
    ended(*fault);
    report.theorems.push_back(std::move(*fault));
  }
  BlackBox black_box(subject, options, report);
  std::vector<Turn> turns;
  for (const AttentionTheorem* theorem : chosen_theorems(options)) {
    if (probed.silent) break;
    turns.push_back(complete({theorem->id,
                              [&black_box, theorem](Clock::time_point deadline, auto& result) {
                                black_box.go_on(*theorem, deadline, result);
                              }},
                             report.domain));
  }
  for (TheoremReport& result : take_turns(turns, options, start, ended)) {
    const std::string_view bitwise = bitwise_name(result.id);
    if (!bitwise.empty() &&
        (result.outcome == Outcome::holds || result.outcome == Outcome::violated)) {
      report.conventions.bitwise[std::string(bitwise)] =
          result.outcome == Outcome::holds ? "holds" : "differs";
    }
    if (!options.identify_only) report.theorems.push_back(std::move(result));
  }
  report.failed_together = black_box.failed_together();
  const std::size_t told = report.theorems.size();
  compare_with_expectations(report, options);
  for (std::size_t at = told; at < report.theorems.size(); ++at) ended(report.theorems[at]);
  report.seconds = since(start);
  return report;
}

Report check(AttentionSubject& subject, const CheckOptions& options) {
  return check_in_turns(subject, options, [](Turn turn, const Domain&) { return turn; });
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
