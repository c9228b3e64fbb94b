// What the verbs share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace headproof::cli {

/// 0 holds, 1 violated, 2 used wrongly, 3 a subject or an input failed.
enum ExitCode { holds = 0, violated = 1, used_wrongly = 2, failed = 3 };

/// Prints one sentence to stderr; returns `used_wrongly`.
int refuse(std::string_view sentence);

/// Where `--json [FILE]` sends a report: nowhere, to a file, or (no FILE) to stdout.
struct JsonOption {
  CLI::Option* option = nullptr;
  std::string file;
  void add_to(CLI::App& verb);
  bool wanted() const { return option->count() > 0; }
  bool to_stdout() const { return wanted() && file.empty(); }
};

/// Each verb adds itself and sets `exit_code` when it ran.
void add_lecture(CLI::App& app, int& exit_code);
void add_theorems(CLI::App& app, int& exit_code);
void add_attend(CLI::App& app, int& exit_code);

}  // namespace headproof::cli
