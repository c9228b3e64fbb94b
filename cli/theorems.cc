// headproof theorems [ID]: the registry as text, Markdown or JSON.

#include "headproof/theorems.h"

#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "command.h"
#include "headproof/files.h"
#include "prose/lines.h"
#include "prose/math.h"

namespace headproof::cli {
namespace {

/// A theorem's texts with the names under which they are shown, in their order.
struct Part {
  const char* name;
  std::string_view text;
};

std::vector<Part> parts_of(const Theorem& theorem) {
  return {{"Statement", theorem.statement},
          {"Proof", theorem.proof},
          {"How it is executed", theorem.execution},
          {"Bound", theorem.bound},
          {"Source", theorem.source}};
}

std::string full_text(const Theorem& theorem) {
  std::string text = fmt::format("{}  {}\n", theorem.id, math_to_text(theorem.title));
  for (const Part& part : parts_of(theorem)) {
    text += fmt::format("\n{}\n{}", part.name, wrapped(math_to_text(part.text), "  "));
  }
  const auto mutant = mutant_subject(theorem.breaks);
  return text + fmt::format("\nBroken, for example, by\n  mutant:{}\n", mutant->name());
}

std::string markdown() {
  std::string text =
      "# Theorems\n\nThe results that headproof executes, printed by `headproof theorems "
      "--markdown` from the registry that runs them. A mutant is a head that is wrong on purpose; "
      "the one named here proves that the check can fail.\n";
  for (const Theorem& theorem : theorems()) {
    text += fmt::format("\n## {}: {}\n", theorem.id, theorem.title);
    for (const Part& part : parts_of(theorem)) {
      text += fmt::format("\n**{}.** {}\n", part.name, part.text);
    }
    text += fmt::format("\n**Broken, for example, by** `mutant:{}`.\n", theorem.breaks);
  }
  text += "\n## Mutants\n\n| mutant | what is wrong |\n|---|---|\n";
  for (const MutantInfo& mutant : mutants()) {
    text += fmt::format("| `{}` | {} |\n", mutant.name, mutant.what);
  }
  return text;
}

std::string json(const std::vector<const Theorem*>& shown) {
  nlohmann::json list = nlohmann::json::array();
  for (const Theorem* theorem : shown) {
    nlohmann::json entry = {{"id", theorem->id},
                            {"title", math_to_text(theorem->title)},
                            {"broken_by", theorem->breaks}};
    entry["statement"] = math_to_text(theorem->statement);
    entry["statement_tex"] = theorem->statement;
    entry["proof"] = math_to_text(theorem->proof);
    entry["execution"] = math_to_text(theorem->execution);
    entry["bound"] = math_to_text(theorem->bound);
    entry["source"] = theorem->source;
    list.push_back(std::move(entry));
  }
  return nlohmann::json{{"schema_version", 1}, {"command", "theorems"}, {"theorems", list}}.dump(
             2) +
         "\n";
}

struct Options {
  std::string id;
  bool markdown = false;
  JsonOption json;
};

int run(const Options& options) {
  std::vector<const Theorem*> shown;
  if (!options.id.empty()) {
    shown.push_back(find_theorem(options.id));
    if (shown.front() == nullptr) {
      std::string ids;
      for (const Theorem& theorem : theorems()) ids += fmt::format(" {}", theorem.id);
      return refuse(fmt::format("there is no theorem {}; there are{}", options.id, ids));
    }
  } else {
    for (const Theorem& theorem : theorems()) shown.push_back(&theorem);
  }
  if (options.json.wanted()) {
    if (options.json.to_stdout()) {
      print(stdout, json(shown));
      return holds;
    }
    OutputFiles files;
    Status written = files.add(options.json.file, json(shown));
    if (written) written = files.commit();
    return written ? holds : refuse(written.error().message);
  }
  if (options.markdown) {
    print(stdout, markdown());
  } else if (!options.id.empty()) {
    print(stdout, full_text(*shown.front()));
  } else {
    for (const Theorem* theorem : shown) {
      print(stdout, fmt::format("{:<10} {}\n{}", theorem->id, math_to_text(theorem->title),
                                wrapped(math_to_text(theorem->statement), "           ")));
    }
  }
  return holds;
}

}  // namespace

void add_theorems(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("theorems", "list the results, or show one whole");
  const auto options = std::make_shared<Options>();
  CLI::Option* id = verb->add_option("ID", options->id, "a result, such as prop-3.1");
  options->json.add_to(*verb);
  verb->add_flag("--markdown", options->markdown, "all of them whole, as Markdown")
      ->excludes(id)
      ->excludes(options->json.option);
  verb->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace headproof::cli
