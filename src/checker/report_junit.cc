#include <utf8.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <utility>

#include "checker/report.h"
#include "prose/math.h"

namespace headproof {
namespace {

/// Text for an element or an attribute; XML has no word for control characters.
std::string xml(std::string_view text) {
  std::string valid;
  utf8::replace_invalid(text.begin(), text.end(), std::back_inserter(valid), U'?');
  std::replace_if(
      valid.begin(), valid.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t'; }, '?');
  return escape_html(valid);
}

std::string element(std::string_view tag, std::string_view message, std::string_view body) {
  return "      <" + std::string(tag) + " message=\"" + xml(message) + "\">" + xml(body) + "</" +
         std::string(tag) + ">\n";
}

/// What a maintainer needs in the log of a job.
std::string body_of(const TheoremReport& theorem) {
  std::string body = math_to_text(theorem.statement);
  if (theorem.counterexample) {
    body += "\nsmallest counterexample: " + problem_text(theorem.counterexample->problem);
  }
  body += "\n" + reason_text(theorem);
  if (theorem.counterexample) body += "\nreplay: " + theorem.counterexample->replay;
  return body;
}

/// The element inside a testcase; nothing for one that passed.
std::string inside(const TheoremReport& theorem) {
  if (theorem.outcome == Outcome::violated && fails(theorem)) {
    return element("failure", reason_text(theorem), body_of(theorem));
  }
  if (fails(theorem)) return element("error", reason_text(theorem), body_of(theorem));
  if (theorem.expected) return element("skipped", "expected: " + theorem.why, body_of(theorem));
  if (theorem.outcome == Outcome::violated) {
    return "      <system-out>" + xml("differs, which does not count:\n" + body_of(theorem)) +
           "</system-out>\n";
  }
  if (theorem.outcome == Outcome::holds) return "";
  return element("skipped", std::string(name_of(theorem.outcome)) + ": " + reason_text(theorem),
                 "");
}

}  // namespace

std::string report_junit(const Report& report) {
  std::size_t tests = 0, failures = 0, errors = 0, skipped = 0;
  std::string cases;
  const auto add = [&](std::string_view name, const std::string& content) {
    ++tests;
    for (auto [count, tag] : {std::pair{&failures, "<failure"}, std::pair{&errors, "<error"},
                              std::pair{&skipped, "<skipped"}}) {
      if (content.find(tag) != std::string::npos) ++*count;
    }
    cases += "    <testcase classname=\"headproof\" name=\"" + xml(name) + "\"";
    cases += content.empty() ? "/>\n" : ">\n" + content + "    </testcase>\n";
  };
  for (const TheoremReport& theorem : report.theorems) add(theorem.id, inside(theorem));
  for (const std::string& id : report.no_longer_violated) {
    if (report.strict) add("listed-" + id, element("failure", no_longer_text(id), ""));
  }
  std::array<char, 32> time{};
  std::snprintf(time.data(), time.size(), "%.3f", report.seconds);
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"headproof "
         "check " +
         xml(report.subject) + "\" tests=\"" + std::to_string(tests) + "\" failures=\"" +
         std::to_string(failures) + "\" errors=\"" + std::to_string(errors) + "\" skipped=\"" +
         std::to_string(skipped) + "\" time=\"" + time.data() + "\">\n" + cases +
         "  </testsuite>\n</testsuites>\n";
}

}  // namespace headproof
