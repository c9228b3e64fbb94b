// The loops are compiled once for each instruction set, the same ones as in attention/tile.cc.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "speed/machine.cc"
#define HWY_BROKEN_EMU128 1
#define HWY_DISABLED_TARGETS ~(HWY_SCALAR | HWY_AVX2 | HWY_AVX3 | HWY_NEON)

#include "speed/machine.h"

#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>
#include <vector>

HWY_BEFORE_NAMESPACE();
namespace headproof {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using V = hn::Vec<Floats>;
constexpr Floats d;
/// Enough independent sums to hide the latency of an addition, few enough for the registers.
constexpr int sums = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SCALAR ? 12 : 24;

float Fold(const V* sum, int count) {
  V total = sum[0];
  for (int i = 1; i < count; ++i) total = hn::Add(total, sum[i]);
  return hn::GetLane(total);
}

/// `rounds` rounds of multiply-adds; `flops` becomes the number of operations.
float MultiplyAdd(std::int64_t rounds, double& flops) {
  constexpr int repeats = 4;  // The loop's own counting takes the place of some multiply-adds.
  V sum[sums];
  HWY_UNROLL(24)
  for (int i = 0; i < sums; ++i) sum[i] = hn::Set(d, static_cast<float>(i));
  // Every sum tends to 1, so that no number overflows or becomes subnormal.
  const V factor = hn::Set(d, 0.5F), term = hn::Set(d, 0.5F);
  for (std::int64_t round = 0; round < rounds; ++round) {
    HWY_UNROLL(4)
    for (int repeat = 0; repeat < repeats; ++repeat) {
      HWY_UNROLL(24)
      for (int i = 0; i < sums; ++i) sum[i] = hn::MulAdd(sum[i], factor, term);
    }
  }
  flops = 2.0 * repeats * sums * static_cast<double>(rounds) * static_cast<double>(hn::Lanes(d));
  return Fold(sum, sums);
}

/// Reads `count` numbers, a multiple of 4096, as four streams: processors fetch ahead in each page
/// for itself.
float Read(const float* numbers, std::size_t count) {
  constexpr int streams = 4, vectors = 4;
  const std::size_t part = count / streams, step = vectors * hn::Lanes(d);
  V sum[streams * vectors];
  for (V& each : sum) each = hn::Zero(d);
  for (std::size_t i = 0; i < part; i += step) {
    HWY_UNROLL(16)
    for (int n = 0; n < streams * vectors; ++n) {
      const std::size_t stream = static_cast<std::size_t>(n / vectors);
      const std::size_t vector = static_cast<std::size_t>(n % vectors);
      sum[n] = hn::Add(sum[n], hn::Load(d, numbers + stream * part + i + vector * hn::Lanes(d)));
    }
  }
  return Fold(sum, streams * vectors);
}

const char* InstructionSet() {
  switch (HWY_TARGET) {
    case HWY_AVX3:
      return "AVX-512";
    case HWY_AVX2:
      return "AVX2";
    case HWY_NEON:
      return "NEON";
    default:
      return "scalar";
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headproof
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headproof {
namespace {

HWY_EXPORT(MultiplyAdd);
HWY_EXPORT(Read);
HWY_EXPORT(InstructionSet);

using Clock = std::chrono::steady_clock;

/// Runs function(0) .. function(threads - 1), each in a thread of its own, all from one moment on;
/// the seconds until the last is done. Nobody sleeps until then: a thread that is woken may be put
/// on the processor of the one that wakes it, and both would share it for a while.
template <class Function>
double seconds_together(int threads, const Function& function) {
  const auto count = static_cast<std::size_t>(threads);
  std::vector<Clock::time_point> begins(count), ends(count);
  std::atomic<int> missing = threads;
  std::vector<std::jthread> others;
  const auto run = [&](std::size_t thread) {
    --missing;
    while (missing > 0) std::this_thread::yield();
    begins[thread] = Clock::now();
    function(thread);
    ends[thread] = Clock::now();
  };
  for (std::size_t thread = 1; thread < count; ++thread) others.emplace_back(run, thread);
  run(0);
  others.clear();
  return std::chrono::duration<double>(*std::max_element(ends.begin(), ends.end()) -
                                       *std::min_element(begins.begin(), begins.end()))
      .count();
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(": ") + 2);
  }
  return "unknown";
}

constexpr std::size_t mebibyte = std::size_t{1} << 20;
constexpr std::size_t read_at_once = 256 * mebibyte;

/// At least twice the last cache, so that what was read a round ago has left it; but no more than
/// an eighth of the memory.
std::size_t read_memory_bytes() {
#ifdef _SC_LEVEL3_CACHE_SIZE
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#else
  const long cache = 0;
#endif
  const std::size_t memory = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                             static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
  const std::size_t wanted = 2 * static_cast<std::size_t>(std::max(cache, 0L));
  return std::max(std::min(wanted, memory / 8), read_at_once) / read_at_once * read_at_once;
}

}  // namespace

Machine this_machine() {
#if defined(__clang__)
  const std::string compiler = "clang " __clang_version__;
#else
  const std::string compiler = "g++ " __VERSION__;
#endif
  return {cpu_name(), static_cast<int>(std::thread::hardware_concurrency()),
          HWY_DYNAMIC_DISPATCH(InstructionSet)(), compiler};
}

double measure_flops(int threads) {
  constexpr std::int64_t rounds = 250'000;
  std::vector<double> flops(static_cast<std::size_t>(threads));
  std::vector<float> results(flops.size());
  const double seconds = seconds_together(threads, [&](std::size_t thread) {
    results[thread] = HWY_DYNAMIC_DISPATCH(MultiplyAdd)(rounds, flops[thread]);
  });
  return flops[0] * threads / seconds;
}

ReadBandwidth::ReadBandwidth() : bytes_(read_memory_bytes()), memory_(bytes_) {
  std::fill_n(memory_.as<float>(), bytes_ / sizeof(float), 1.0F);
}

double ReadBandwidth::measure(int threads) {
  const auto count = static_cast<std::size_t>(threads);
  const std::size_t each = read_at_once / sizeof(float) / count / 4096 * 4096;
  const float* const first = memory_.as<float>() + next_ / sizeof(float);
  std::vector<float> results(count);
  const double seconds = seconds_together(threads, [&](std::size_t thread) {
    results[thread] = HWY_DYNAMIC_DISPATCH(Read)(first + thread * each, each);
  });
  next_ = (next_ + read_at_once) % bytes_;
  return static_cast<double>(each * count * sizeof(float)) / seconds;
}

}  // namespace headproof
#endif
