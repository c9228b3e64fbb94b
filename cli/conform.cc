// headproof conform: conformance cases of the ONNX operator Attention.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "command.h"
#include "headproof/files.h"
#include "onnx_attention.h"
#include "prose/lines.h"

namespace headproof::cli {
namespace {

struct Options {
  std::string folder, subject, implementation = implementations.front();
  JsonOption json;
};

/// How a case went. `unread`: it could not be read or makes no problem, which says nothing about
/// the implementation.
struct CaseResult {
  std::string name;
  enum Outcome { passed, failed, unread } outcome = passed;
  double largest_error = 0;
  std::string why;
};

constexpr const char* outcome_names[] = {"passed", "failed", "could not be read"};

/// How far an output may be from the one that the standard's own implementation made:
/// absolute + relative * |expected|, as the standard's own tests have it.
struct Tolerance {
  double relative, absolute;
};

Tolerance tolerance_of(const FileArray& expected) {
  return expected.element == "f2" ? Tolerance{1e-2, 1e-3} : Tolerance{1e-3, 1e-5};
}

std::string place_text(Index position, const std::vector<Index>& shape) {
  std::vector<Index> at(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    at[axis] = position % shape[axis];
    position /= shape[axis];
  }
  return shape_text(at);
}

double element(const Array& array, std::size_t position) {
  return std::visit([&](const auto& values) { return static_cast<double>(values[position]); },
                    array.values);
}

std::size_t size_of(const Array& array) {
  return std::visit([](const auto& values) { return values.size(); }, array.values);
}

/// Compares an output with the expected one; the first element that is too far away is named.
void compare(const std::string& name, const Array& found, const FileArray& expected,
             CaseResult& result) {
  const auto fail = [&](const std::string& why) {
    if (result.outcome == CaseResult::passed) result.why = why;
    result.outcome = CaseResult::failed;
  };
  if (found.shape != expected.array.shape) {
    return fail(fmt::format("{} has shape {}, and {} was expected", name, shape_text(found.shape),
                            shape_text(expected.array.shape)));
  }
  const Tolerance tolerance = tolerance_of(expected);
  for (std::size_t i = 0; i < size_of(found); ++i) {
    const double is = element(found, i), should_be = element(expected.array, i);
    if (is == should_be || (std::isnan(is) && std::isnan(should_be))) continue;
    const double error = std::fabs(is - should_be);
    const double allowed = tolerance.absolute + tolerance.relative * std::fabs(should_be);
    const bool finite = std::isfinite(error);
    result.largest_error =
        std::max(result.largest_error, finite ? error : std::numeric_limits<double>::infinity());
    if (!finite || error > allowed) {
      fail(fmt::format("{}{} is {}, and {} was expected", name,
                       place_text(static_cast<Index>(i), found.shape), is, should_be));
    }
  }
}

CaseResult run_case(const std::filesystem::path& folder, std::string_view implementation) {
  CaseResult result;
  // The name of "DIR/" and "." is that of the folder, not the empty one behind the slash.
  result.name = std::filesystem::weakly_canonical(folder).filename().string();
  const auto unread = [&](const Error& error) {
    result.outcome = CaseResult::unread;
    result.why = error.message;
    return result;
  };
  const auto problem = read_onnx_case(folder);
  if (!problem) return unread(problem.error());
  const auto outputs = onnx_attention(*problem, implementation);
  if (!outputs) return unread(outputs.error());
  for (const auto& [name, expected] : problem->outputs) {
    compare(name, outputs->at(name), expected, result);
  }
  return result;
}

/// The folders of the cases in `folder`, in the order of their names, or `folder` itself.
Result<std::vector<std::filesystem::path>> find_cases(const std::filesystem::path& folder) {
  const auto is_case = [](const std::filesystem::path& path) {
    return std::filesystem::exists(path / "case.json");
  };
  if (is_case(folder)) return std::vector{folder};
  std::error_code problem;
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem)) {
    const bool hidden = entry.path().filename().string().starts_with('.');
    if (entry.is_directory() && !hidden) folders.push_back(entry.path());
  }
  if (problem) return Error{fmt::format("cannot read {}: {}", folder.string(), problem.message())};
  if (std::none_of(folders.begin(), folders.end(), is_case)) {
    return Error{
        fmt::format("{} holds no case: no case.json in it or in a folder of it", folder.string())};
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::string line_of(const CaseResult& result) {
  std::string line = fmt::format("{}  {}", result.name, outcome_names[result.outcome]);
  if (result.outcome != CaseResult::unread) {
    line += fmt::format(", largest error {:.2g}", result.largest_error);
  }
  return on_one_line(line + (result.why.empty() ? "" : ": " + result.why)) + "\n";
}

int count(const std::vector<CaseResult>& results, CaseResult::Outcome outcome) {
  return static_cast<int>(
      std::count_if(results.begin(), results.end(),
                    [outcome](const CaseResult& result) { return result.outcome == outcome; }));
}

std::string json_of(const std::vector<CaseResult>& results, const std::string& implementation) {
  nlohmann::json cases = nlohmann::json::array();
  for (const CaseResult& result : results) {
    nlohmann::json entry = {{"name", result.name}, {"outcome", outcome_names[result.outcome]}};
    // An infinite error, of a number that should be finite or the other way round, becomes null.
    if (result.outcome != CaseResult::unread) entry["largest_error"] = result.largest_error;
    if (!result.why.empty()) entry["why"] = result.why;
    cases.push_back(std::move(entry));
  }
  const nlohmann::json report = {{"schema_version", 1},
                                 {"command", "conform"},
                                 {"implementation", implementation},
                                 {"passed", count(results, CaseResult::passed)},
                                 {"failed", count(results, CaseResult::failed)},
                                 {"unread", count(results, CaseResult::unread)},
                                 {"cases", std::move(cases)}};
  return report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int run(const Options& options) {
  const std::string& implementation =
      options.subject.empty() ? options.implementation : options.subject;
  const auto folders = find_cases(options.folder);
  if (!folders) return refuse(folders.error().message);
  std::FILE* const text = options.json.to_stdout() ? stderr : stdout;
  std::vector<CaseResult> results;
  for (const auto& folder : *folders) {
    results.push_back(run_case(folder, implementation));
    print(text, line_of(results.back()));
  }
  const int failures = count(results, CaseResult::failed);
  const int unread = count(results, CaseResult::unread);
  if (unread > 0) print(text, fmt::format("{} could not be read\n", unread));
  print(text, fmt::format("{} passed, {} failed\n", count(results, CaseResult::passed), failures));
  if (options.json.to_stdout()) {
    print(stdout, json_of(results, implementation));
  } else if (options.json.wanted()) {
    OutputFiles files;
    Status written = files.add(options.json.file, json_of(results, implementation));
    if (written) written = files.commit();
    if (!written) return refuse(written.error().message);
  }
  return unread > 0 ? failed : failures > 0 ? violated : holds;
}

}  // namespace

void add_conform(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "conform",
      "run conformance cases of the ONNX operator Attention (opset 23 to 25) and compare: float16 "
      "within 1e-3 + 1e-2 * |expected|, others within 1e-5 + 1e-3 * |expected|. What "
      "qk_matmul_output shows is taken from out and lse, which all implementations give.");
  const auto options = std::make_shared<Options>();
  verb->add_option("DIR", options->folder,
                   "a folder of cases, or one: case.json and a .npy file for each tensor")
      ->required();
  CLI::Option* subject =
      verb->add_option("SUBJECT", options->subject, "what is asked; short for --implementation")
          ->check(CLI::IsMember(implementations));
  verb->add_option("--implementation", options->implementation,
                   "what is asked: the definition, or (the same bits both) the canonical order in "
                   "plain and in fast code")
      ->check(CLI::IsMember(implementations))
      ->excludes(subject)
      ->capture_default_str();
  options->json.add_to(*verb);
  verb->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace headproof::cli
