// headproof check SUBJECT: which theorem an implementation of attention breaks.

#include "headproof/check.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <vector>

#include "checker/conventions.h"
#include "checker/report.h"
#include "command.h"
#include "headproof/files.h"
#include "prose/lines.h"
#include "subjects/child_process.h"
#include "subjects/open.h"
#include "theorems/attention_theorem.h"

namespace headproof::cli {
namespace {

struct Options {
  std::string subject, language, seed = "0", expected_file, junit, html, require;
  std::string dtype = "float32", layout = "bhsd";
  std::vector<std::string> expect;
  CheckOptions check;
  SubjectOptions open;
  JsonOption json;
  /// The options that change what the subject is asked, and so belong to a replay line, by the kind
  /// of subjects that heed them.
  std::vector<CLI::Option*> for_questions, for_processes, for_callables, for_layout;
};

/// A word as a shell reads it back.
std::string quoted(const std::string& word) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

/// How a person asks the same subject in the same way.
std::string command_of(const Options& options) {
  std::string command = "headproof check " + quoted(options.subject);
  for (const auto* list : {&options.for_questions, &options.for_callables, &options.for_layout,
                           &options.for_processes}) {
    for (const CLI::Option* option : *list) {
      for (const std::string& value : option->results()) {
        command += " " + option->get_name() + " " + quoted(value);
      }
    }
  }
  return command;
}

/// What is wrong with an option that was given and means nothing to such a subject.
Status idle_option(const Options& options) {
  const std::string& name = options.subject;
  const bool head = name.starts_with("head:");
  const std::string_view kind = std::string_view(name).substr(head ? 5 : 0);
  const bool callable = kind.starts_with("python:");
  const bool recorded = kind.starts_with("recorded:");
  const bool inside = recorded || kind.starts_with("builtin:") || kind.starts_with("mutant:");
  const struct {
    const std::vector<CLI::Option*>& list;
    bool heeded;
    const char* whom;
  } all[] = {{options.for_questions, !recorded, "subjects that may be asked anything"},
             {options.for_processes, !inside, "subjects in processes of their own"},
             {options.for_callables, callable, "Python callables"},
             {options.for_layout, callable && !head, "Python callables that take q, k and v"}};
  for (const auto& [list, heeded, whom] : all) {
    for (const CLI::Option* option : list) {
      if (option->count() == 0 || heeded) continue;
      return Error{
          on_one_line(fmt::format("{} is for {}, and {} is none", option->get_name(), whom, name))};
    }
  }
  return std::monostate();
}

bool is_theorem(std::string_view id) {
  const auto& all = attention_theorems();
  return std::any_of(all.begin(), all.end(),
                     [id](const AttentionTheorem& theorem) { return theorem.id == id; });
}

std::string theorem_ids() {
  std::string ids;
  for (const AttentionTheorem& theorem : attention_theorems()) {
    ids += " " + std::string(theorem.id);
  }
  return ids;
}

/// Known violations: on each line an id, and behind a # why it is known. Lines without an id say
/// nothing.
Result<std::map<std::string, std::string>> read_expected(const std::string& file) {
  const auto text = read_file(file);
  if (!text) return text.error();
  constexpr std::string_view blank = " \t\r";
  const auto trimmed = [&](std::string_view part) {
    const std::size_t first = std::min(part.find_first_not_of(blank), part.size());
    part.remove_prefix(first);
    return std::string(part.substr(0, part.find_last_not_of(blank) + 1));
  };
  std::map<std::string, std::string> known;
  int number = 0;
  for (std::string_view rest = *text; !rest.empty();) {
    ++number;
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t mark = std::min(line.find('#'), line.size());
    const std::string id = trimmed(line.substr(0, mark));
    if (id.empty()) continue;
    const std::string reason = mark < line.size() ? trimmed(line.substr(mark + 1)) : "";
    const std::string place = fmt::format("line {} of {}", number, file);
    if (!is_theorem(id)) {
      return Error{on_one_line(
          fmt::format("{}: there is no theorem {}; there are{}", place, id, theorem_ids()))};
    }
    if (!known.emplace(id, reason).second) {
      return Error{fmt::format("{}: {} stands there twice", place, id)};
    }
  }
  return known;
}

/// What is wrong with the options, or `options.check` and `options.open` complete.
Status complete(Options& options) {
  const auto seed = parse_seed(options.seed);
  if (!seed) return seed.error();
  CheckOptions& check = options.check;
  check.seed = *seed;
  for (const std::string& id : check.theorems) {
    if (!is_theorem(id)) {
      return Error{
          fmt::format("--theorem {}: there is no such theorem; there are{}", id, theorem_ids())};
    }
  }
  for (const std::string& name : check.regimes) {
    std::string names;
    for (const Regime& regime : regimes()) names += " " + std::string(regime.name);
    if ((names + " ").find(" " + name + " ") == std::string::npos) {
      return Error{fmt::format("--regime {}: there is no such regime; there are{}", name, names)};
    }
  }
  for (const std::string& text : options.expect) {
    const std::size_t sign = text.find('=');
    if (sign == std::string::npos) {
      return Error{fmt::format("--expect {} must be written KEY=VALUE", text)};
    }
    const std::string key = text.substr(0, sign), value = text.substr(sign + 1);
    if (const auto error = expectation_error(key, value)) {
      return Error{fmt::format("--expect {}: {}", text, *error)};
    }
    if (!check.expect.emplace(key, value).second) {
      return Error{fmt::format("--expect {}: {} is expected twice", text, key)};
    }
  }
  constexpr double most = 86400;
  for (const auto& [flag, seconds] :
       {std::pair{"--seconds", check.seconds},
        std::pair{"--first-call-seconds", options.open.first_call_seconds},
        std::pair{"--call-seconds", options.open.call_seconds}}) {
    if (!(seconds > 0 && seconds <= most)) {
      return Error{fmt::format("{} {} is not above 0 and at most {}, a day", flag, seconds, most)};
    }
  }
  if (check.cases < 1) return Error{fmt::format("--cases {} is not at least 1", check.cases)};
  // A case that is asked for by its number is there, however many are tried otherwise.
  check.cases = std::max(check.cases, check.case_number + 1);
  if (!options.expected_file.empty()) {
    auto known = read_expected(options.expected_file);
    if (!known) return known.error();
    check.expected = std::move(*known);
  } else if (check.strict) {
    return Error{"--strict needs --expected FILE, of which it is strict"};
  }
  check.require_bitwise = !options.require.empty();
  check.command = command_of(options);
  options.open.dtype = *dtype_of(options.dtype);
  options.open.layout = *layout_of(options.layout);
  return std::monostate();
}

/// The job's summary on GitHub Actions gets the table too.
void add_to_step_summary(const Report& report) {
  const char* file = std::getenv("GITHUB_STEP_SUMMARY");
  if (file == nullptr || *file == '\0') return;
  std::ofstream summary(file, std::ios::app | std::ios::binary);
  summary << report_markdown(report);
  if (!summary.flush()) {
    print(stderr, fmt::format("headproof: cannot write to {}, the step summary\n", file));
  }
}

/// How long the ids are that a report names.
std::size_t id_width(const CheckOptions& check) {
  std::size_t width = 0;
  for (const AttentionTheorem& theorem : attention_theorems()) {
    if (check.theorems.empty()) width = std::max(width, theorem.id.size());
  }
  for (const std::string& id : check.theorems) width = std::max(width, id.size());
  for (const auto& [key, value] : check.expect) width = std::max(width, ("expect-" + key).size());
  return width;
}

int run(Options& options) {
  if (!options.language.empty()) {
    print(stdout, subject_template(options.language));
    return holds;
  }
  if (options.subject.empty()) {
    return refuse(
        "there is no SUBJECT to check; see headproof check --help, or start from "
        "headproof check --template python");
  }
  if (const Status ready = complete(options); !ready) return refuse(ready.error().message);
  const EndsDescendants at_last;
  const auto opened = open_subject(options.subject, options.open);
  if (!opened) return refuse(on_one_line(opened.error().message));
  if (const Status heeded = idle_option(options); !heeded) return refuse(heeded.error().message);

  std::FILE* const text_stream = options.json.to_stdout() ? stderr : stdout;
  const bool colour = isatty(fileno(text_stream)) != 0 && std::getenv("NO_COLOR") == nullptr;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  constexpr const char* erase_line = "\r\033[K";
  const auto tell = [&](const std::string& text) {
    if (terminal) print(stderr, erase_line);
    print(text_stream, text);
    std::fflush(text_stream);
  };
  if (terminal) {
    options.check.progress = [&](std::string_view id, double share) {
      print(stderr, fmt::format("{}{:3.0f} %  {} ...", erase_line, 100 * share, id));
    };
  }
  const bool identify_only = options.check.identify_only;
  if (!identify_only) {
    options.check.identified = [&](const Report& report) {
      tell(subject_text(report, colour) + "\n");
    };
    options.check.ended = [&, width = id_width(options.check)](const TheoremReport& theorem) {
      tell(theorem_line(theorem, width, colour));
    };
  }
  const Report report = opened->attention ? check(*opened->attention, options.check)
                                          : check(*opened->head, options.check);
  tell(identify_only ? report_text(report, colour, true)
                     : faults_text(report, colour) + end_text(report));

  OutputFiles files;
  const std::string json = options.json.wanted() ? report_json(report) : "";
  std::vector<std::pair<std::string, std::string>> wanted;
  if (options.json.wanted() && !options.json.to_stdout())
    wanted.emplace_back(options.json.file, json);
  if (!options.junit.empty()) wanted.emplace_back(options.junit, report_junit(report));
  if (!options.html.empty()) wanted.emplace_back(options.html, report_html(report));
  for (const auto& [file, bytes] : wanted) {
    if (const Status added = files.add(file, bytes); !added) return refuse(added.error().message);
  }
  if (const Status done = files.commit(); !done) return refuse(done.error().message);
  add_to_step_summary(report);

  if (options.json.to_stdout()) print(stdout, json);
  return report.exit_code();
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "check", "ask any implementation of attention, and name the theorem that it breaks");
  const auto options = std::make_shared<Options>();
  CheckOptions& check = options->check;
  SubjectOptions& open = options->open;
  if (const char* named = std::getenv("HEADPROOF_PYTHON"); named != nullptr && *named != '\0') {
    open.python = named;
  }
  const auto repeated = [verb](const char* name, std::vector<std::string>& list, const char* what) {
    return verb->add_option(name, list, what)->allow_extra_args(false);
  };
  CLI::Option* subject = verb->add_option("SUBJECT", options->subject, "what is asked; see below");
  verb->add_option("--template", options->language,
                   "print a working subject to start from: c, cpp, python or pipe")
      ->check(CLI::IsMember({"c", "cpp", "python", "pipe"}))
      ->excludes(subject);
  repeated("--theorem", check.theorems, "check this one only (may be repeated)");
  CLI::Option* regime =
      repeated("--regime", check.regimes, "inputs of this kind only (may be repeated)");
  verb->add_option("--seed", options->seed, "where the inputs come from")->capture_default_str();
  verb->add_option("--seconds", check.seconds, "the time for all theorems, about")
      ->capture_default_str();
  verb->add_option("--cases", check.cases, "the problems that a theorem is tried on, at most")
      ->capture_default_str();
  verb->add_option("--case", check.case_number, "one of these problems only, counted from 0")
      ->check(CLI::Range(0, 1 << 20));
  verb->add_flag("--identify", check.identify_only,
                 "find out what the subject accepts and follows, and stop there");
  repeated("--expect", options->expect,
           "KEY=VALUE: a convention that has another value is a violation (may be repeated)");
  verb->add_option("--require", options->require,
                   "bitwise: claims about equal bits count as the others do")
      ->check(CLI::IsMember({"bitwise"}));
  verb->add_option("--expected", options->expected_file,
                   "a file of known violations, which don't count: a theorem's id a line, and "
                   "behind a # why");
  verb->add_flag("--strict", check.strict,
                 "a known violation that no longer occurs counts as a violation");
  options->json.add_to(*verb);
  verb->add_option("--junit", options->junit, "a report as JUnit's XML, to this file");
  verb->add_option("--html", options->html, "a page with the counterexamples drawn, to this file");
  options->for_questions = {regime};
  options->for_callables = {
      verb->add_option("--python", open.python, "the Python that runs a callable")
          ->capture_default_str(),
      verb->add_option("--framework", open.framework,
                       "what a callable is handed: numpy, torch or jax")
          ->check(CLI::IsMember({"numpy", "torch", "jax"}))
          ->capture_default_str(),
      verb->add_option("--device", open.device, "where that lies: cpu, cuda, cuda:1, ...")
          ->capture_default_str(),
      verb->add_option("--dtype", options->dtype,
                       "of what a callable is handed: float32, float64, float16 or bfloat16")
          ->check(CLI::IsMember({"float32", "float64", "float16", "bfloat16"}))
          ->capture_default_str()};
  options->for_layout = {
      verb->add_option("--layout", options->layout,
                       "its order: bhsd, [batch, num_heads, seq_len, head_dim], or bshd")
          ->check(CLI::IsMember({"bhsd", "bshd"}))
          ->capture_default_str()};
  options->for_processes = {
      verb->add_option("--first-call-seconds", open.first_call_seconds,
                       "how long the first call of a subject in a process of its own may take: it "
                       "may compile or tune")
          ->capture_default_str(),
      verb->add_option("--call-seconds", open.call_seconds, "how long a later call of one may take")
          ->capture_default_str()};
  verb->footer(
      "A SUBJECT is\n"
      "  ./libmine.so[:symbol]          a shared library with the C interface of subject.h\n"
      "  python:module:function         function(q, k, v, is_causal=True, scale=None)\n"
      "  head:python:module:function    function(x, w_q, w_k, w_v, is_causal=True)\n"
      "  command:'PROGRAM ARGUMENT...'  a program that speaks the protocol of docs/subjects.md\n"
      "  builtin:NAME                   ours: reference, canonical, fused, float64\n"
      "  mutant:NAME                    ours, wrong on purpose\n"
      "  recorded:DIR                   q, k, v, out and maybe A as .npy, and problem.json\n\n"
      "headproof theorems lists theorems and regimes; docs/checker.md says how to read a report.\n"
      "Exit codes: 0 nothing that counts is violated, 1 something is, 2 used wrongly, 3 the\n"
      "subject crashed, took too long or gave no answer.");
  verb->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace headproof::cli
