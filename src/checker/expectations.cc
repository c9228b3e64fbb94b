#include "checker/expectations.h"

#include <algorithm>

#include "checker/conventions.h"

namespace headproof {
namespace {

TheoremReport expected_convention(const ConventionFound& found, const std::string& expected) {
  TheoremReport report;
  report.id = "expect-" + found.key;
  report.title = "The convention " + found.key + " is " + expected;
  report.statement = "Asked for with --expect: this convention is free, and the caller wants one.";
  report.cases = 1;
  if (found.value.empty()) {
    report.outcome = Outcome::not_applicable;
    report.why = "it was not found out: the subject does not offer what that takes";
  } else if (!meets_expectation(found, expected)) {
    report.outcome = Outcome::violated;
    report.why = found.key + " is " + found.value + ", and " + expected + " was expected";
  }
  return report;
}

}  // namespace

void apply_expectations(TheoremReport& theorem, const CheckOptions& options) {
  theorem.gates = theorem.claim != Claim::bitwise || options.require_bitwise;
  const auto known = options.expected.find(theorem.id);
  if (known == options.expected.end() || theorem.outcome != Outcome::violated) return;
  theorem.expected = true;
  theorem.why = known->second;
}

void compare_with_expectations(Report& report, const CheckOptions& options) {
  for (const ConventionFound& found : conventions_found(report.conventions)) {
    const auto expected = options.expect.find(found.key);
    if (expected == options.expect.end()) continue;
    report.theorems.push_back(expected_convention(found, expected->second));
  }
  report.strict = options.strict;
  for (TheoremReport& theorem : report.theorems) {
    apply_expectations(theorem, options);
    if (theorem.outcome == Outcome::holds && options.expected.contains(theorem.id)) {
      report.no_longer_violated.push_back(theorem.id);
    }
  }
}

int Report::exit_code() const {
  bool failed = false, violated = strict && !no_longer_violated.empty();
  for (const TheoremReport& theorem : theorems) {
    failed |= theorem.outcome == Outcome::crashed || theorem.outcome == Outcome::gave_up;
    violated |= theorem.outcome == Outcome::violated && theorem.gates && !theorem.expected;
  }
  return failed ? 3 : violated ? 1 : 0;
}

}  // namespace headproof
