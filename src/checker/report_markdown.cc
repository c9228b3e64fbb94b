#include "checker/report.h"
#include "prose/math.h"

namespace headproof {
namespace {

/// Text for a cell of a table: none of its characters means anything there.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      escaped += ' ';
      continue;
    }
    if (std::string_view("\\`*_{}[]<>()#+-!|~$").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string sign(const TheoremReport& theorem) {
  if (fails(theorem)) return "❌ ";
  return theorem.outcome == Outcome::holds ? "✅ " : std::string(mark(theorem)) + " ";
}

}  // namespace

std::string report_markdown(const Report& report) {
  std::string text = "### headproof check " + cell(report.subject) + "\n\n" +
                     cell(summary_text(report)) +
                     "\n\n| theorem | verdict | bound used | cases | what came out |\n"
                     "|---|---|--:|--:|---|\n";
  for (const TheoremReport& theorem : report.theorems) {
    const std::string reason = reason_text(theorem);
    text += "| " + cell(theorem.id) + " | " + sign(theorem) + std::string(verdict_word(theorem)) +
            " | " + cell(margin_text(theorem)) + " | " + std::to_string(theorem.cases) + " | " +
            cell(reason) + " |\n";
  }
  std::string replays;
  for (const TheoremReport& theorem : report.theorems) {
    if (fails(theorem) && theorem.counterexample) {
      replays += "    " + theorem.counterexample->replay + "\n";
    }
  }
  if (!replays.empty()) text += "\nReplay with\n\n" + replays;
  for (const std::string& id : report.no_longer_violated) {
    text += "\n" + cell(no_longer_text(id)) + "\n";
  }
  return text + "\n";
}

}  // namespace headproof
