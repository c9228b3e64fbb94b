// How a theorem goes through its cases, whatever kind of problem it speaks of.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headproof/check.h"

namespace headproof {

using Clock = std::chrono::steady_clock;

inline double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What a judgement came to, answers that were refused included.
struct Judged {
  Outcome outcome = Outcome::holds;
  Verdict verdict;
  std::string why;
  bool varies = false;  ///< asked again, it came to something else
};

/// The seed of one case of a theorem.
std::uint64_t case_seed(std::uint64_t seed, std::string_view id, int case_number);

/// The names of the regimes that a theorem is for (none named: all without NaN and infinity) and
/// that were chosen.
std::vector<std::string_view> regimes_for(const std::vector<std::string_view>& of_theorem,
                                          const CheckOptions& options);

/// How many further questions shrinking may judge. A crash starts a new process each time, and a
/// time-out waits: fewer tries.
int calls_to_shrink(Outcome outcome);

/// Makes the problem of a fault smaller, with shrink(problem, fails) for at most a third of the
/// time that a check has by default, or more where the caller gives more. What comes and goes
/// cannot be made smaller, and is told as it was seen.
template <class Problem, class Judge, class Shrink>
void make_smaller(const CheckOptions& options, Problem& problem, Judged& judged, Judge&& judge,
                  Shrink&& shrink) {
  const auto start = Clock::now();
  const double patience = std::max(3.0, options.seconds / 3);
  const std::function<bool(const Problem&)> fails = [&](const Problem& candidate) {
    return judge(candidate).outcome == judged.outcome;
  };
  if (fails(problem)) {
    Problem smaller = shrink(problem, [&](const Problem& candidate) {
      return since(start) < patience && fails(candidate);
    });
    Judged again = judge(smaller);
    if (again.outcome == judged.outcome) {
      judged = std::move(again);
      problem = std::move(smaller);
      return;
    }
  }
  judged.varies = true;
}

/// Completes the counterexample, and the report with it.
void write_down(const CheckOptions& options, int case_number, std::string_view regime,
                Judged judged, Counterexample example, TheoremReport& report);

/// Tries case after case until one does not hold, and writes down what became of the theorem. Goes
/// on where an earlier call for the same report ran out of time; does nothing where one ended.
/// draw(number, regime) gives a case's problem, judge(problem) a `Judged`, and
/// found(problem, judged, number, regime) is called for the case that does not hold.
template <class Draw, class Judge, class Found>
void run_cases(const CheckOptions& options, const std::vector<std::string_view>& regimes,
               Clock::time_point deadline, TheoremReport& report, Draw&& draw, Judge&& judge,
               Found&& found) {
  const int first = report.cases;
  if (first > 0 && !report.out_of_time) return;
  if (first == 0 || report.outcome == Outcome::not_applicable) {
    report.outcome = Outcome::not_applicable;
    report.why = regimes.empty() ? "none of the chosen regimes is for it"
                                 : "no problem was one that it speaks of";
  }
  report.out_of_time = false;
  for (int n = first; n < options.cases && !regimes.empty(); ++n) {
    if (options.case_number >= 0 && n != options.case_number) continue;
    if (Clock::now() > deadline && report.cases > first && options.case_number < 0) {
      report.out_of_time = true;
      if (report.outcome == Outcome::not_applicable) {
        report.why = "time ran out before a problem that it speaks of";
      }
      break;
    }
    const std::string_view regime = regimes[static_cast<std::size_t>(n) % regimes.size()];
    auto problem = draw(n, regime);
    Judged judged = judge(problem);
    ++report.cases;
    if (judged.outcome == Outcome::not_applicable) continue;
    if (judged.outcome == Outcome::unsupported) {
      if (report.outcome == Outcome::not_applicable) {
        report.outcome = Outcome::unsupported;
        report.why = judged.why;
      }
      continue;
    }
    if (judged.outcome != Outcome::holds) {
      report.used = std::max(report.used, judged.verdict.used());
      found(std::move(problem), std::move(judged), n, regime);
      return;
    }
    report.outcome = Outcome::holds;
    report.why.clear();
    if (judged.verdict.used() >= report.used) {
      report.used = judged.verdict.used();
      report.findings = std::move(judged.verdict.findings);
    }
  }
}

/// A theorem's turn: goes on with its cases until the deadline, where it has not ended before.
struct Turn {
  std::string_view id;
  std::function<void(Clock::time_point deadline, TheoremReport& report)> go_on;
};

/// What every check does: finds out about the subject; gives each theorem its turn, and in what is
/// left of the time another to those for which it was too short; and compares with what is
/// expected. `complete` makes of the turn of a black box that of what is checked.
Report check_in_turns(AttentionSubject& subject, const CheckOptions& options,
                      const std::function<Turn(Turn of_black_box, const Domain& domain)>& complete);

}  // namespace headproof
