// Work outside of the GIL that Ctrl-C can stop.
#pragma once

#include <nanobind/nanobind.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "attention/parallel.h"
#include "headproof/attention.h"

namespace headproof::python {

/// Looks for signals now and then, in the thread that called; attention's `progress`.
class Signals {
 public:
  /// The callback for options; false once a signal's handler has raised.
  auto progress() {
    return [this](double) { return go_on(); };
  }
  /// Raises what the handler has raised.
  void raise() const {
    if (raised_) throw nanobind::python_error();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds pause{50};

  bool go_on() {
    if (std::this_thread::get_id() != caller_ || Clock::now() < next_) return true;
    const nanobind::gil_scoped_acquire gil;
    raised_ = raised_ || PyErr_CheckSignals() != 0;
    next_ = Clock::now() + pause;
    return !raised_;
  }

  const std::thread::id caller_ = std::this_thread::get_id();
  Clock::time_point next_ = Clock::now() + pause;
  bool raised_ = false;
};

/// Returns draw(), which uses a Generator, computed without the GIL. One lock for all of them, so
/// that threads may share one.
template <class Draw>
auto draw_outside(const Draw& draw) {
  static std::mutex mutex;
  const nanobind::gil_scoped_release outside;
  const std::lock_guard lock(mutex);
  return draw();
}

/// Runs work() -> Status without the GIL, on at most so many threads (0: as many as there are), and
/// raises what went wrong.
template <class Work>
void run_outside(int threads, const Signals& signals, const Work& work) {
  Status done = std::monostate();
  {
    const nanobind::gil_scoped_release outside;
    const int at_hand = static_cast<int>(threads_at_hand());
    if (threads > 0 && at_hand > 1) {
      // oneTBB warns on stderr of more threads than there are.
      tbb::task_arena arena(std::min(threads, at_hand));
      arena.execute([&] { done = work(); });
    } else {
      done = work();
    }
  }
  signals.raise();
  if (!done) throw nanobind::value_error(done.error().message.c_str());
}

}  // namespace headproof::python
