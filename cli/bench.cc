// headproof bench: how fast attention is here, and how fast it could be.

#include "speed/bench.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "command.h"
#include "headproof/files.h"
#include "speed/machine.h"

namespace headproof::cli {
namespace {

struct Options {
  std::vector<std::string> works;
  std::string threads;
  double seconds = BenchOptions().seconds;
  JsonOption json;
};

/// The numbers of threads that are asked for, or 1 and all.
Result<std::vector<int>> parse_threads(std::string_view list) {
  const int all = this_machine().cores;
  if (list.empty()) return all == 1 ? std::vector<int>{1} : std::vector<int>{1, all};
  std::vector<int> numbers;
  const char* const end = list.data() + list.size();
  for (const char* at = list.data();; ++at) {
    int number = 0;
    const auto [stop, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 1 || number > all || (stop != end && *stop != ',')) {
      return Error{fmt::format(
          "--threads {} is no list, with commas, of whole numbers from 1 to {}, the threads here",
          list, all)};
    }
    numbers.push_back(number);
    if (stop == end) return numbers;
    at = stop;
  }
}

/// A time in the unit that suits it.
std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.3f} us", seconds * 1e6);
}

std::string memory_text(double bytes) {
  constexpr double kibibyte = 1024, mebibyte = kibibyte * kibibyte;
  return bytes >= mebibyte ? fmt::format("{:.1f} MiB", bytes / mebibyte)
                           : fmt::format("{:.1f} KiB", bytes / kibibyte);
}

std::string text(const std::vector<Measurement>& measurements) {
  const Machine machine = this_machine();
  std::string text = fmt::format("{}, {} cores, {}; headproof {}, {}\n", machine.cpu, machine.cores,
                                 machine.instruction_set, HEADPROOF_VERSION, machine.compiler);
  for (const Peak& peak : peaks_of(measurements)) {
    text += fmt::format("{} thread{}: peak {:.1f} GFLOP/s, reads {:.1f} GB/s\n", peak.threads,
                        peak.threads == 1 ? "" : "s", peak.flops / 1e9, peak.bandwidth / 1e9);
  }
  text += fmt::format("\n{:<30} {:>7} {:>11} {:>8} {:>7} {:>6} {:>9} {:>12}\n", "work", "threads",
                      "median time", "GFLOP/s", "of peak", "GB/s", "of memory", "extra memory");
  for (const Measurement& row : measurements) {
    text += fmt::format("{:<30} {:>7} {:>11} {:>8.1f} {:>6.1f}% {:>6.2f} {:>8.1f}% {:>12}\n",
                        row.work, row.peak.threads, time_text(row.seconds), row.flops / 1e9,
                        100 * row.share_of_peak(), row.bandwidth / 1e9,
                        100 * row.share_of_bandwidth(), memory_text(row.extra_bytes));
  }
  return text;
}

std::string json(const std::vector<Measurement>& measurements) {
  const Machine machine = this_machine();
  nlohmann::json peaks = nlohmann::json::array(), rows = nlohmann::json::array();
  for (const Peak& peak : peaks_of(measurements)) {
    peaks.push_back({{"threads", peak.threads},
                     {"gflops", peak.flops / 1e9},
                     {"gbytes_per_s", peak.bandwidth / 1e9}});
  }
  for (const Measurement& row : measurements) {
    rows.push_back({{"work", row.work},
                    {"threads", row.peak.threads},
                    {"seconds", row.seconds},
                    {"best_seconds", row.best_seconds},
                    {"samples", row.samples},
                    {"gflops", row.flops / 1e9},
                    {"peak_gflops", row.peak.flops / 1e9},
                    {"share_of_peak", row.share_of_peak()},
                    {"gbytes_per_s", row.bandwidth / 1e9},
                    {"peak_gbytes_per_s", row.peak.bandwidth / 1e9},
                    {"share_of_bandwidth", row.share_of_bandwidth()},
                    {"extra_bytes", static_cast<std::int64_t>(row.extra_bytes)}});
  }
  return nlohmann::json{{"schema_version", 1},
                        {"command", "bench"},
                        {"machine",
                         {{"cpu", machine.cpu},
                          {"cores", machine.cores},
                          {"instruction_set", machine.instruction_set},
                          {"compiler", machine.compiler},
                          {"version", HEADPROOF_VERSION},
                          {"peaks", peaks}}},
                        {"rows", rows}}
             .dump(2) +
         "\n";
}

int run(const Options& options) {
  const auto threads = parse_threads(options.threads);
  if (!threads) return refuse(threads.error().message);
  if (!(options.seconds > 0 && options.seconds <= 3600)) {
    return refuse(fmt::format("--seconds {} is not above 0 and at most 3600", options.seconds));
  }
  BenchOptions bench{options.works.empty() ? default_works : options.works, *threads,
                     options.seconds};
  const bool terminal = isatty(STDERR_FILENO) != 0;
  constexpr const char* erase_line = "\r\033[K";
  if (terminal) {
    bench.progress = [&](const std::string& work) { print(stderr, erase_line + work + " ..."); };
  }
  const auto measurements = measure(bench);
  if (terminal) print(stderr, erase_line);
  if (!measurements) return refuse(measurements.error().message);

  if (options.json.wanted() && !options.json.to_stdout()) {
    OutputFiles files;
    Status written = files.add(options.json.file, json(*measurements));
    if (written) written = files.commit();
    if (!written) return refuse(written.error().message);
  }
  print(options.json.to_stdout() ? stderr : stdout, text(*measurements));
  if (options.json.to_stdout()) print(stdout, json(*measurements));
  return holds;
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("bench", "how fast attention is here, and could be");
  const auto options = std::make_shared<Options>();
  std::string defaults;
  for (const std::string& work : default_works) defaults += "\n  " + work;
  verb->add_option("WORK", options->works, "what to measure, such as 'prefill 1x12x4096x64'");
  verb->add_option("--threads", options->threads,
                   "numbers of threads, with commas; 1 and all by default");
  verb->add_option("--seconds", options->seconds,
                   "for each work and number of threads; three samples are taken at least")
      ->capture_default_str();
  options->json.add_to(*verb);
  verb->footer(
      "Works, float32:\n" + std::string(work_forms) +
      "\n\nA flop is a multiplication or an addition that the result needs: two for each visible\n"
      "pair and channel in each product of matrices, of which forward has 2 and forward+backward\n"
      "7. The bytes are those of the arrays that go in and out, of decode those of the cached "
      "keys\n"
      "and values. The peaks, of multiply-adds on registers and of reading memory that no cache\n"
      "holds, are measured in turns with the work, and all numbers are medians over the turns.\n"
      "Extra memory is the most that is in use at once beyond what goes in and out.\n\n"
      "Without a WORK these are measured:" +
      defaults);
  verb->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace headproof::cli
