// What the verbs share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "headproof/result.h"

namespace headproof::cli {

/// 0 holds, 1 violated, 2 used wrongly, 3 a subject or an input failed.
enum ExitCode { holds = 0, violated = 1, used_wrongly = 2, failed = 3 };

/// Writes a text. A stream that is full or closed stays silent here: what stdout did not take is
/// reported once, when the program ends, and for stderr there is nowhere to report it.
void print(std::FILE* stream, std::string_view text);

/// Prints one sentence to stderr; returns `used_wrongly`.
int refuse(std::string_view sentence);

/// -2^63 .. 2^64 - 1, negative numbers modulo 2^64.
Result<std::uint64_t> parse_seed(const std::string& text);

/// Where `--json [FILE]` sends a report: nowhere, to a file, or (no FILE) to stdout.
struct JsonOption {
  CLI::Option* option = nullptr;
  std::string file;
  void add_to(CLI::App& verb);
  bool wanted() const { return option->count() > 0; }
  /// A FILE that names the standard output is not replaced by a new file as others are.
  bool to_stdout() const {
    return wanted() && (file.empty() || file == "-" || file == "/dev/stdout");
  }
};

/// Each verb adds itself and sets `exit_code` when it ran.
void add_lecture(CLI::App& app, int& exit_code);
void add_theorems(CLI::App& app, int& exit_code);
void add_attend(CLI::App& app, int& exit_code);
void add_conform(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_check(CLI::App& app, int& exit_code);
void add_serve_library(CLI::App& app, int& exit_code);

}  // namespace headproof::cli
