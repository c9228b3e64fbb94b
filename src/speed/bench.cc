#include "speed/bench.h"

#include <tbb/global_control.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>

#include "attention/workspace.h"
#include "speed/machine.h"

namespace headproof {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The samples of one work with one number of threads.
class Samples {
 public:
  Samples(int threads, const std::function<void()>& run) : threads_(threads), run_(run) {
    const Limit limit(*this);
    constexpr double long_enough = 5e-3;  // beside which reading a clock is nothing
    for (double seconds = time(1); seconds < long_enough; seconds = time(repeats_)) repeats_ *= 2;
  }

  void take(ReadBandwidth& read) {
    // Until oneTBB's threads have stopped to look for work, on processors that are wanted here.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    bandwidths_.push_back(read.measure(threads_));
    flops_.push_back(measure_flops(threads_));
    const Limit limit(*this);
    reset_workspace_peak();
    run_();
    extra_bytes_ = std::max(extra_bytes_, static_cast<double>(workspace_peak_bytes()));
    seconds_.push_back(time(repeats_) / repeats_);
  }

  Measurement result(const std::string& name, const Work& work) const {
    const double seconds = median(seconds_);
    return {.work = name,
            .peak = {threads_, median(flops_), median(bandwidths_)},
            .seconds = seconds,
            .best_seconds = *std::min_element(seconds_.begin(), seconds_.end()),
            .samples = static_cast<int>(seconds_.size()),
            .flops = work.flops() / seconds,
            .bandwidth = work.bytes() / seconds,
            .extra_bytes = extra_bytes_};
  }

 private:
  struct Limit : tbb::global_control {
    explicit Limit(const Samples& samples)
        : tbb::global_control(max_allowed_parallelism, static_cast<std::size_t>(samples.threads_)) {
    }
  };

  double time(int repeats) const {
    const auto start = Clock::now();
    for (int i = 0; i < repeats; ++i) run_();
    return seconds_since(start);
  }

  int threads_, repeats_ = 1;
  std::function<void()> run_;
  std::vector<double> seconds_, flops_, bandwidths_;
  double extra_bytes_ = 0;
};

}  // namespace

const std::vector<std::string> default_works = {
    "prefill 1x12x1024x64", "prefill 1x12x4096x64", "prefill 1x1x16384x64", "prefill 1x32x2048x128",
    "forward+backward 1x12x4096x64", "call 4x1x8x16", "head 4x8x32->16", "decode 32x128x4096",
    "decode 32x128x32768",
    // Awkward sizes, each beside its round neighbours.
    "prefill 1x12x1000x64", "prefill 1x12x4097x64", "prefill 1x12x2048x32", "prefill 1x12x2048x40",
    "prefill 1x12x2048x64", "prefill 1x12x2048x80", "prefill 1x12x2048x96", "prefill 1x12x2048x100",
    "prefill 1x12x2048x128", "prefill 1x12x2048x64/128", "prefill 1x7x2048x64",
    "prefill 1x7/1x2048x64"};

Result<std::vector<Measurement>> measure(const BenchOptions& options) {
  std::vector<Work> works;
  for (const std::string& name : options.works) {
    const auto work = parse_work(name);
    if (!work) return work.error();
    works.push_back(*work);
  }
  ReadBandwidth read;
  std::vector<Measurement> measurements;
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (options.progress) options.progress(options.works[i]);
    const auto run = prepare(works[i]);
    if (!run) return Error{"\"" + options.works[i] + "\": " + run.error().message};
    std::vector<Samples> samples;
    for (const int threads : options.threads) samples.emplace_back(threads, *run);
    const double seconds = options.seconds * static_cast<double>(samples.size());
    const auto start = Clock::now();
    for (int turn = 0; turn < 3 || seconds_since(start) < seconds; ++turn) {
      for (Samples& each : samples) each.take(read);
    }
    for (const Samples& each : samples) {
      measurements.push_back(each.result(options.works[i], works[i]));
    }
  }
  return measurements;
}

std::vector<Peak> peaks_of(const std::vector<Measurement>& measurements) {
  std::map<int, std::vector<double>> flops, bandwidths;
  for (const Measurement& each : measurements) {
    flops[each.peak.threads].push_back(each.peak.flops);
    bandwidths[each.peak.threads].push_back(each.peak.bandwidth);
  }
  std::vector<Peak> peaks;
  for (const auto& [threads, values] : flops) {
    peaks.push_back({threads, median(values), median(bandwidths[threads])});
  }
  return peaks;
}

}  // namespace headproof
