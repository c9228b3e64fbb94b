// headproof VERB: sets up the verbs and turns what goes wrong into one sentence and an exit code.

#include <fmt/core.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>

#include "command.h"

namespace headproof::cli {
namespace {

std::string instruction_sets() {
  std::string names;
#if defined(__x86_64__)
  names = "SSE2";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) names += ", AVX2 with FMA";
  if (__builtin_cpu_supports("avx512f")) names += ", AVX-512";
#elif defined(__aarch64__)
  names = "NEON";
#else
  names = "scalar";
#endif
  return names;
}

std::string version_text() {
  return fmt::format(
      "headproof {}\nbuilt with {} {}, {}\ninstruction sets here: {}\nthreads here: {}",
      HEADPROOF_VERSION,
#if defined(__clang__)
      "clang", __clang_version__,
#else
      "g++", __VERSION__,
#endif
#if defined(NDEBUG)
      "optimised",
#else
      "with assertions",
#endif
      instruction_sets(), std::thread::hardware_concurrency());
}

/// An unset variable of the shell makes an empty argument; taken for an absent one it would, for
/// example, write the files of `--out "$folder"` into the folder that happens to be the current
/// one.
std::string not_empty(const std::string& argument) {
  return argument.empty() ? "an empty argument names nothing" : "";
}

}  // namespace

void print(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
}

int refuse(std::string_view sentence) {
  print(stderr, fmt::format("headproof: {}\n", sentence));
  return used_wrongly;
}

Result<std::uint64_t> parse_seed(const std::string& text) {
  const char* end = text.data() + text.size();
  std::uint64_t positive = 0;
  if (const auto [stop, error] = std::from_chars(text.data(), end, positive);
      error == std::errc() && stop == end) {
    return positive;
  }
  std::int64_t negative = 0;
  if (const auto [stop, error] = std::from_chars(text.data(), end, negative);
      error == std::errc() && stop == end) {
    return static_cast<std::uint64_t>(negative);
  }
  return Error{fmt::format("--seed {} is no whole number from -2^63 to 2^64 - 1", text)};
}

void JsonOption::add_to(CLI::App& verb) {
  option = verb.add_option("--json", file, "a report as JSON, to FILE or (none given) to stdout")
               ->type_name("[FILE]")
               ->expected(0, 1);
}

}  // namespace headproof::cli

int main(int argc, char** argv) {
  using namespace headproof::cli;
  // A file that grows past the shell's limit is then an error of `write`, which has its sentence.
  std::signal(SIGXFSZ, SIG_IGN);
  int exit_code = holds;
  try {
    CLI::App app("A causal self-attention head whose mathematics runs.", "headproof");
    app.set_version_flag("--version", version_text());
    app.require_subcommand(0, 1);
    app.failure_message([](const CLI::App* at, const CLI::Error& error) {
      const auto verbs = at->get_subcommands();
      const std::string verb = verbs.empty() ? "" : verbs.front()->get_name() + " ";
      return fmt::format("headproof: {}; see headproof {}--help\n", error.what(), verb);
    });
    add_lecture(app, exit_code);
    add_theorems(app, exit_code);
    add_attend(app, exit_code);
    add_conform(app, exit_code);
    add_bench(app, exit_code);
    add_check(app, exit_code);
    add_serve_library(app, exit_code);
    for (CLI::App* verb : app.get_subcommands({})) {
      for (CLI::Option* option : verb->get_options()) option->check(not_empty);
    }
    if (argc == 1) print(stdout, app.help());
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      exit_code = app.exit(error) == 0 ? holds : used_wrongly;
    }
  } catch (const std::bad_alloc&) {
    print(stderr, "headproof: there is not enough memory for this problem\n");
    return failed;
  } catch (const std::exception& error) {
    print(stderr, fmt::format("headproof: {}\n", error.what()));
    return failed;
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return refuse("cannot write to the standard output: it is full or closed");
  }
  return exit_code;
}
