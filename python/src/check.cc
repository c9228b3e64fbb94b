// The checker: a callable is asked in this process, and the report is an object.

#include "headproof/check.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "array.h"
#include "checker/conventions.h"
#include "checker/report.h"
#include "notebook.h"
#include "parts.h"
#include "subjects/protocol_subject.h"
#include "theorems/attention_theorem.h"

namespace headproof::python {
namespace {

using namespace nb::literals;  // NOLINT: names of arguments

std::vector<std::string> theorem_ids() {
  std::vector<std::string> ids;
  for (const AttentionTheorem& theorem : attention_theorems()) ids.emplace_back(theorem.id);
  return ids;
}

std::vector<std::string> regime_names() {
  std::vector<std::string> names;
  for (const Regime& regime : regimes()) names.emplace_back(regime.name);
  return names;
}

void check_names(const char* what, const std::vector<std::string>& given,
                 const std::vector<std::string>& known) {
  for (const std::string& name : given) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string list;
    for (const std::string& one : known) list += " " + one;
    raise_value_error(std::string(what) + " holds '" + name + "'; there are" + list);
  }
}

/// The report of asking `answer`, a function from the bytes of a question to those of its reply.
Report run(const nb::callable& answer, const std::string& name, CheckOptions options,
           const nb::object& replay) {
  check_names("theorems", options.theorems, theorem_ids());
  check_names("regimes", options.regimes, regime_names());
  for (const auto& [id, why] : options.expected) check_names("expected", {id}, theorem_ids());
  for (const auto& [key, value] : options.expect) {
    if (const auto error = expectation_error(key, value)) {
      raise_value_error("expect holds {'" + key + "': '" + value + "'}: " + *error);
    }
  }
  if (!(options.seconds > 0 && options.seconds <= 86400)) {
    raise_value_error("seconds is " + std::to_string(options.seconds) +
                      "; it must be above 0 and at most 86400, a day");
  }
  if (options.cases < 1) {
    raise_value_error("cases is " + std::to_string(options.cases) + "; it must be at least 1");
  }
  options.cases = std::max(options.cases, options.case_number + 1);
  if (replay.is_none()) {
    options.command = name;
  } else {
    options.replay = [&replay](std::string_view id, int number) {
      const nb::gil_scoped_acquire inside;
      return nb::cast<std::string>(replay(std::string(id), number));
    };
  }
  const auto ask = [&answer](std::string_view question) {
    const nb::gil_scoped_acquire inside;
    const nb::bytes reply =
        nb::cast<nb::bytes>(answer(nb::bytes(question.data(), question.size())));
    return std::string(reply.c_str(), reply.size());
  };
  const nb::gil_scoped_release outside;
  auto opened = function_subject(name, ask);
  if (!opened) {
    const nb::gil_scoped_acquire inside;
    raise_value_error(opened.error().message);
  }
  return opened->attention ? check(*opened->attention, options) : check(*opened->head, options);
}

/// headproof.Violation, which `raise_for_violations` raises.
nb::object& violation() {
  static nb::object* const type = new nb::object(
      nb::steal(PyErr_NewExceptionWithDoc("headproof.Violation",
                                          "Something that was checked is violated, or gave no "
                                          "answer; the text is the report's.",
                                          PyExc_AssertionError, nullptr)));
  return *type;
}

}  // namespace

void add_check(nb::module_& module) {
  module.attr("Violation") = violation();
  nb::class_<TheoremReport>(module, "TheoremReport", "What became of one theorem.")
      .def_ro("id", &TheoremReport::id)
      .def_ro("title", &TheoremReport::title)
      .def_ro("statement", &TheoremReport::statement)
      .def_ro("cases", &TheoremReport::cases, "How many problems were tried.")
      .def_ro("used", &TheoremReport::used, "The largest share of its bound that an error used.")
      .def_prop_ro(
          "verdict", [](const TheoremReport& self) { return std::string(verdict_word(self)); },
          "'holds', 'violated', 'differs', 'expected', 'crashed', 'gave up', "
          "'unsupported' or 'not applicable' (docs/checker.md).")
      .def_prop_ro(
          "fails", [](const TheoremReport& self) { return fails(self); },
          "Whether it makes the check fail.")
      .def_prop_ro(
          "reason", [](const TheoremReport& self) { return reason_text(self); },
          "One sentence on what went wrong or why nothing was judged; empty otherwise.")
      .def("__repr__", [](const TheoremReport& self) {
        return "<" + self.id + ": " + std::string(verdict_word(self)) + ">";
      });
  nb::class_<Report>(
      module, "Report",
      "What check() found. print(report) shows it as the command does; in a notebook "
      "it shows itself.")
      .def_ro("subject", &Report::subject)
      .def_ro("seed", &Report::seed)
      .def_ro("seconds", &Report::seconds)
      .def_ro("theorems", &Report::theorems, "A TheoremReport for each theorem, in order.")
      .def_prop_ro("exit_code", &Report::exit_code,
                   "0: nothing that counts is violated; 1: something is; 3: the subject failed.")
      .def("__str__", [](const Report& self) { return report_text(self, false); })
      .def("__repr__",
           [](const Report& self) {
             return "<headproof.Report of " + self.subject + ": " + summary_text(self) + ">";
           })
      .def("json", &report_json, "The report as a JSON document (docs/checker.md).")
      .def("junit", &report_junit, "The report as JUnit's XML.")
      .def("html", &report_html, "The report as a page that loads nothing from elsewhere.")
      .def("_repr_html_",
           [](const Report& self) { return in_frame(report_html(self), "32rem", false); })
      .def(
          "raise_for_violations",
          [](const Report& self) {
            if (self.exit_code() == 0) return;
            PyErr_SetString(violation().ptr(), report_text(self, false).c_str());
            throw nb::python_error();
          },
          "Raises headproof.Violation, an AssertionError with the report as its text, unless "
          "exit_code is 0.");
  module.def("theorem_ids", &theorem_ids, "The ids of all theorems that check() asks.");
  module.def(
      "_check",
      [](const nb::callable& answer, const std::string& name, std::vector<std::string> theorems,
         std::vector<std::string> regimes, std::uint64_t seed, double seconds, int case_number,
         int cases, std::map<std::string, std::string> expect,
         std::map<std::string, std::string> expected, bool strict, bool require_bitwise,
         const nb::object& replay) {
        CheckOptions options;
        options.theorems = std::move(theorems);
        options.regimes = std::move(regimes);
        options.seed = seed;
        options.seconds = seconds;
        options.case_number = case_number;
        options.cases = cases;
        options.expect = std::move(expect);
        options.expected = std::move(expected);
        options.strict = strict;
        options.require_bitwise = require_bitwise;
        return run(answer, name, std::move(options), replay);
      },
      "answer"_a, "name"_a, "theorems"_a, "regimes"_a, "seed"_a, "seconds"_a, "case_number"_a,
      "cases"_a, "expect"_a, "expected"_a, "strict"_a, "require_bitwise"_a, "replay"_a);
}

}  // namespace headproof::python
