// How long works take, beside what the machine can do at most in the same moments.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "headproof/result.h"
#include "speed/work.h"

namespace headproof {

/// The works that are measured when nobody names others.
extern const std::vector<std::string> default_works;

/// What is typical for a machine with this many threads.
struct Peak {
  int threads;
  double flops;      ///< a second, multiply-adds on registers
  double bandwidth;  ///< bytes a second, read
};

/// One work with one number of threads.
struct Measurement {
  std::string work;
  Peak peak;            ///< while this work was measured
  double seconds;       ///< the median of the samples
  double best_seconds;  ///< the shortest of them
  int samples;
  double flops;        ///< a second
  double bandwidth;    ///< bytes a second, of Work::bytes
  double extra_bytes;  ///< the most memory in use at once beyond inputs and outputs

  double share_of_peak() const { return flops / peak.flops; }
  double share_of_bandwidth() const { return bandwidth / peak.bandwidth; }
};

struct BenchOptions {
  std::vector<std::string> works;
  std::vector<int> threads;
  double seconds = 3;  ///< for each work and number of threads; at least three samples are taken
  std::function<void(const std::string&)> progress = nullptr;  ///< gets what is done next
};

/// Measures all works. A sample of each of these is taken in turns, so that what disturbs the
/// machine disturbs all alike: for each number of threads the peaks, and the work once untimed and
/// then timed, as often in a row as some milliseconds take. Numbers are medians over the turns.
/// The error quotes the work that is none, or that cannot be done.
Result<std::vector<Measurement>> measure(const BenchOptions& options);

/// The medians over all measurements with as many threads, for each number of threads.
std::vector<Peak> peaks_of(const std::vector<Measurement>& measurements);

}  // namespace headproof
