#include "subjects/open.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "subjects/attention_mutants.h"
#include "subjects/library_host.h"
#include "subjects/process_subject.h"
#include "subjects/recorded_subject.h"

namespace headproof {

extern const std::string_view python_server, c_template, cpp_template, python_template,
    pipe_template;

namespace {

/// The words of a command, with quotes and backslashes as a shell reads them, and nothing else of a
/// shell.
Result<std::vector<std::string>> words_of(std::string_view command) {
  std::vector<std::string> words;
  bool inside = false;
  char quote = 0;
  for (std::size_t at = 0; at < command.size(); ++at) {
    char letter = command[at];
    if (quote == 0 && (letter == ' ' || letter == '\t')) {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    if (letter == quote) {
      quote = 0;
      continue;
    }
    if (quote == 0 && (letter == '\'' || letter == '"')) {
      quote = letter;
      continue;
    }
    if (letter == '\\' && quote != '\'' && at + 1 < command.size()) letter = command[++at];
    words.back() += letter;
  }
  if (quote != 0) return Error{std::string("has a ") + quote + " that is not closed"};
  if (words.empty() || words.front().empty()) return Error{"names no program"};
  return words;
}

Result<OpenedSubject> open_python(std::string_view name, std::string_view target, bool whole_head,
                                  const SubjectOptions& options) {
  const std::size_t colon = target.find(':');
  if (colon == target.npos || colon == 0 || colon + 1 == target.size()) {
    return Error{std::string(name) + " must be written python:module:function"};
  }
  const std::string& framework = options.framework;
  if (framework != "numpy" && framework != "torch" && framework != "jax") {
    return Error{"the framework " + framework + " is not known; there are numpy, torch and jax"};
  }
  auto opened = start_subject(
      std::string(name),
      {options.python, "-c", std::string(python_server), whole_head ? "head" : "attention",
       std::string(target), framework, options.device, std::string(name_of(options.dtype)),
       std::string(name_of(options.layout))},
      options);
  if (!opened && opened.error().message.find(": cannot start ") != std::string::npos) {
    return Error{opened.error().message + "; --python names another interpreter"};
  }
  return opened;
}

Result<OpenedSubject> open_command(std::string_view name, std::string_view command,
                                   const SubjectOptions& options) {
  auto words = words_of(command);
  if (!words) return Error{std::string(name) + " " + words.error().message};
  return start_subject(std::string(name), std::move(*words), options);
}

Result<OpenedSubject> open_library(std::string_view name, const SubjectOptions& options) {
  const auto [path, symbol] = library_and_symbol(name);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    if (path.ends_with(':')) {
      return Error{path + " names no symbol behind its colon; without the colon it is " + symbol};
    }
    return Error{"there is no file " + path};
  }
  return start_subject(std::string(name), {options.program, "serve-library", path + ":" + symbol},
                       options);
}

}  // namespace

Result<OpenedSubject> open_subject(std::string_view name, const SubjectOptions& options) {
  std::string_view rest = name;
  const auto begins = [&rest](std::string_view prefix) {
    if (!rest.starts_with(prefix)) return false;
    rest.remove_prefix(prefix.size());
    return true;
  };
  OpenedSubject opened;
  if (begins("builtin:")) {
    opened.attention = builtin_attention(rest);
    if (opened.attention) return opened;
    return Error{"there is no " + std::string(name) +
                 "; there are builtin:reference, canonical, fused and float64"};
  }
  if (begins("recorded:")) {
    if (rest.empty()) return Error{"recorded: names no folder; write recorded:DIR"};
    auto recorded = recorded_subject(rest);
    if (!recorded) return recorded.error();
    opened.attention = std::move(*recorded);
    return opened;
  }
  const bool whole_head = begins("head:");
  if (begins("mutant:")) {  // some heads and attentions have a fault, and so its name, in common
    if (!whole_head) opened.attention = attention_mutant(rest);
    if (!opened.attention) opened.head = mutant_subject(rest);
    if (opened.attention || opened.head) return opened;
    return Error{"there is no " + std::string(name) +
                 "; headproof theorems --markdown lists the mutants at its end"};
  }
  if (begins("python:")) return open_python(name, rest, whole_head, options);
  if (begins("command:")) return open_command(name, rest, options);
  if (!whole_head && (rest.find('/') != rest.npos || rest.find(".so") != rest.npos)) {
    return open_library(name, options);
  }
  return Error{"'" + std::string(name) +
               "' names no subject; write ./libmine.so, python:module:function, "
               "head:python:module:function, command:PROGRAM, builtin:NAME, mutant:NAME or "
               "recorded:DIR"};
}

std::string_view subject_template(std::string_view language) {
  if (language == "c") return c_template;
  if (language == "cpp") return cpp_template;
  if (language == "python") return python_template;
  if (language == "pipe") return pipe_template;
  return {};
}

}  // namespace headproof
