// headproof theorems [ID]: the lecture's results and the checker's theorems as text, Markdown or
// JSON.

#include "headproof/theorems.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "command.h"
#include "headproof/check.h"
#include "headproof/files.h"
#include "prose/lines.h"
#include "prose/math.h"
#include "theorems/attention_theorem.h"

namespace headproof::cli {
namespace {

/// A theorem's text with the names under which it is shown and kept.
struct Part {
  const char *name, *key;
  std::string text;
};

/// A result of the lecture, or a theorem that only the checker has.
struct Entry {
  std::string_view id, title, statement;
  std::vector<Part> parts;
  std::string_view broken_by;  ///< a mutant; empty where none is named
};

std::string with_commas(const auto& list) {
  std::string text;
  for (const auto& name : list) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

std::string claim_text(Claim claim) {
  switch (claim) {
    case Claim::exact:
      return "Exact: there is no tolerance, and a violation counts.";
    case Claim::bitwise:
      return "Bitwise: bits are compared, and a difference counts with --require bitwise only.";
    case Claim::bounded:
      break;
  }
  return "Bounded: an error beyond the bound is a violation and counts.";
}

std::vector<Entry> all_entries() {
  std::vector<Entry> entries;
  for (const Theorem& theorem : theorems()) {
    entries.push_back({theorem.id,
                       theorem.title,
                       theorem.statement,
                       {{"Statement", "statement", std::string(theorem.statement)},
                        {"Proof", "proof", std::string(theorem.proof)},
                        {"How it is executed", "execution", std::string(theorem.execution)},
                        {"Bound", "bound", std::string(theorem.bound)},
                        {"Source", "source", std::string(theorem.source)}},
                       theorem.breaks});
  }
  for (const AttentionTheorem& theorem : attention_theorems()) {
    if (find_theorem(theorem.id) != nullptr) continue;
    Entry entry{theorem.id, theorem.title, theorem.statement, {}, ""};
    entry.parts = {{"Statement", "statement", std::string(theorem.statement)},
                   {"Bound", "bound", std::string(theorem.bound)},
                   {"Claim", "claim", claim_text(theorem.claim)}};
    if (!theorem.needs.empty()) {
      std::vector<std::string_view> names;
      for (Feature feature : theorem.needs) names.push_back(name_of(feature));
      entry.parts.push_back({"Needs", "needs", "`" + with_commas(names) + "`"});
    }
    if (!theorem.regimes.empty()) {
      entry.parts.push_back({"Regimes", "regimes", with_commas(theorem.regimes)});
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string full_text(const Entry& entry) {
  std::string text = fmt::format("{}  {}\n", entry.id, math_to_text(entry.title));
  for (const Part& part : entry.parts) {
    text += fmt::format("\n{}\n{}", part.name, wrapped(math_to_text(part.text), "  "));
  }
  if (entry.broken_by.empty()) return text;
  const auto mutant = mutant_subject(entry.broken_by);
  return text + fmt::format("\nBroken, for example, by\n  mutant:{}\n", mutant->name());
}

std::string list_text(const std::vector<Entry>& entries) {
  std::size_t width = 0;
  for (const Entry& entry : entries) width = std::max(width, entry.id.size());
  std::string text;
  for (const Entry& entry : entries) {
    text += padded(entry.id, width + 1) + math_to_text(entry.title) + "\n" +
            wrapped(math_to_text(entry.statement), std::string(width + 1, ' '));
  }
  text += "\nRegimes, the kinds of inputs that check draws:\n";
  for (const Regime& regime : regimes()) {
    const std::string lines = wrapped(regime.why, std::string(width + 1, ' '));
    text += padded(regime.name, width + 1) + lines.substr(width + 1);
  }
  return text;
}

std::string markdown(const std::vector<Entry>& entries) {
  std::string text =
      "# Theorems\n\nThe results that headproof executes, printed by `headproof theorems "
      "--markdown` from the registry that runs them: first the lecture's, then those that "
      "`headproof "
      "check` asks of any attention beside them. A mutant is a head that is wrong on purpose; the "
      "one named here proves that the check can fail.\n";
  for (const Entry& entry : entries) {
    text += fmt::format("\n## {}: {}\n", entry.id, entry.title);
    for (const Part& part : entry.parts)
      text += fmt::format("\n**{}.** {}\n", part.name, part.text);
    if (!entry.broken_by.empty()) {
      text += fmt::format("\n**Broken, for example, by** `mutant:{}`.\n", entry.broken_by);
    }
  }
  text +=
      "\n## Regimes\n\nThe kinds of inputs that `headproof check` draws.\n\n| regime | why "
      "|\n|---|---|\n";
  for (const Regime& regime : regimes()) {
    text += fmt::format("| {} | {} |\n", regime.name, regime.why);
  }
  text += "\n## Mutants\n\n| mutant | what is wrong |\n|---|---|\n";
  for (const MutantInfo& mutant : mutants()) {
    text += fmt::format("| `{}` | {} |\n", mutant.name, mutant.what);
  }
  return text;
}

std::string json(const std::vector<Entry>& entries) {
  nlohmann::json list = nlohmann::json::array(), kinds = nlohmann::json::array();
  for (const Entry& entry : entries) {
    nlohmann::json shown = {
        {"id", entry.id}, {"title", math_to_text(entry.title)}, {"statement_tex", entry.statement}};
    for (const Part& part : entry.parts) shown[part.key] = math_to_text(part.text);
    if (!entry.broken_by.empty()) shown["broken_by"] = entry.broken_by;
    list.push_back(std::move(shown));
  }
  for (const Regime& regime : regimes()) {
    kinds.push_back({{"name", regime.name}, {"why", regime.why}});
  }
  return nlohmann::json{
             {"schema_version", 1}, {"command", "theorems"}, {"theorems", list}, {"regimes", kinds}}
             .dump(2) +
         "\n";
}

struct Options {
  std::string id;
  bool markdown = false;
  JsonOption json;
};

int run(const Options& options) {
  std::vector<Entry> shown = all_entries();
  if (!options.id.empty()) {
    std::string ids;
    for (const Entry& entry : shown) ids += fmt::format(" {}", entry.id);
    std::erase_if(shown, [&](const Entry& entry) { return entry.id != options.id; });
    if (shown.empty()) {
      return refuse(fmt::format("there is no theorem {}; there are{}", options.id, ids));
    }
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
  print(stdout, options.markdown      ? markdown(shown)
                : !options.id.empty() ? full_text(shown.front())
                                      : list_text(shown));
  return holds;
}

}  // namespace

void add_theorems(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "theorems", "list the theorems and the kinds of inputs, or show one whole");
  const auto options = std::make_shared<Options>();
  CLI::Option* id =
      verb->add_option("ID", options->id, "a theorem, such as prop-3.1 or num-accuracy");
  options->json.add_to(*verb);
  verb->add_flag("--markdown", options->markdown, "all of them whole, as Markdown")
      ->excludes(id)
      ->excludes(options->json.option);
  verb->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace headproof::cli
