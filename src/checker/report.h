// A report in the forms that people and programs read.
#pragma once

#include <string>
#include <string_view>

#include "checker/counterexample.h"
#include "headproof/check.h"

namespace headproof {

/// For a terminal. `identify_only`: what was found out about the subject, without a summary.
std::string report_text(const Report& report, bool colour, bool identify_only = false);

/// Its parts, for who prints them as they become known: the subject and its conventions; a line for
/// each theorem, whose id is padded to so many characters; what is wrong; and how it ended. What
/// bits depend on is said by theorems, so that `with_bitwise` is for those who see none.
std::string subject_text(const Report& report, bool colour, bool with_bitwise = false);
std::string theorem_line(const TheoremReport& theorem, std::size_t id_width, bool colour);
std::string faults_text(const Report& report, bool colour);
std::string end_text(const Report& report);

/// One JSON document with `schema_version`. Numbers that JSON has no word for are the strings
/// "NaN", "Infinity" and "-Infinity"; what was not found out is null.
std::string report_json(const Report& report);

/// JUnit's XML: a testcase for each theorem. Violated: a failure with the replay line; crashed or
/// gave up: an error; not applicable, unsupported or expected: skipped.
std::string report_junit(const Report& report);

/// One page that loads nothing from elsewhere, with each counterexample drawn.
std::string report_html(const Report& report);

/// A table for the summary of a job, and the replay lines of what failed.
std::string report_markdown(const Report& report);

// ---- What the forms share ----

/// The verdict in a word or two: "holds", "violated", "differs" (bits that need not be the same),
/// "expected", "not applicable", ...
std::string_view verdict_word(const TheoremReport& theorem);

/// Whether it was found to hold or not to.
bool judged(const TheoremReport& theorem);

/// Whether the theorem makes the check fail.
bool fails(const TheoremReport& theorem);

/// "✓" holds, "✗" violated, "!" crashed or gave up, "~" violated but doesn't count, "-" the rest.
std::string_view mark(const TheoremReport& theorem);

/// What an error used of its bound, "34.2 %" or "12 times"; "exact" or "bitwise" for claims without
/// a bound, and nothing where nothing was judged.
std::string margin_text(const TheoremReport& theorem);

/// One sentence on what went wrong or why nothing was judged; plain, and empty for what holds.
std::string reason_text(const TheoremReport& theorem);

/// What is said of a theorem that is listed as violated and holds.
std::string no_longer_text(const std::string& id);

/// "19 theorems: 17 hold, 1 violated, 1 not applicable".
std::string summary_text(const Report& report);

/// "float32, [batch, num_heads, seq_len, head_dim], head_dim 16 or 32, lengths in multiples of 16".
std::string domain_text(const Domain& domain);

/// The features that are offered, or those that are not, with commas.
std::string features_text(const Features& features, bool offered);

/// "1 head, 2 queries, 2 keys, head_dim 1; causal, window 2".
std::string problem_text(const AttentionProblem& problem);

/// "the smallest counterexample found: 2 heads, ...; causal (regime tied); shown: batch 0, head 1".
std::string example_text(const Counterexample& example, const CounterexampleView& view);

}  // namespace headproof
