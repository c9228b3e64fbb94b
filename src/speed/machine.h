// What this machine can do at most: the measures that the speed of a work is held against.
#pragma once

#include <cstddef>
#include <string>

#include "attention/workspace.h"

namespace headproof {

/// The machine and the build, as a report names them.
struct Machine {
  std::string cpu;              ///< as the system calls it
  int cores;                    ///< what the system lets this process use
  std::string instruction_set;  ///< the widest that both the CPU has and the kernels are made for
  std::string compiler;
};
Machine this_machine();

/// Floating-point operations a second when `threads` threads do nothing but fused multiply-adds on
/// registers, each of them two operations, with the instructions of `instruction_set`. One
/// measurement of a few milliseconds; others that run at the same time make it smaller.
double measure_flops(int threads);

/// Memory much larger than the caches, to be read.
class ReadBandwidth {
 public:
  ReadBandwidth();
  /// Bytes a second when `threads` threads read memory that no cache holds. One measurement of some
  /// ten milliseconds: the next part of the memory, after the end its beginning.
  double measure(int threads);

 private:
  std::size_t bytes_, next_ = 0;
  Workspace memory_;
};

}  // namespace headproof
