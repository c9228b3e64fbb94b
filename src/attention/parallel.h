// Work shared out to threads.
#pragma once

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <string>

#include "attention/float_mode.h"
#include "headproof/result.h"
#include "headproof/tensor.h"

// The thread sanitizer does not see how oneTBB's threads wait for each other, and would not see a
// race among its tasks for the false alarms; those of the standard library it does.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HEADPROOF_SEES_THREADS 1
#include <future>
#include <vector>
#endif
#endif

namespace headproof {

/// Multiply-adds below which a forward pass is over before other threads are awake.
inline constexpr double forward_serial_work = 1 << 18;

/// Threads that work may be shared out to. A child of fork has none of its parent's, and oneTBB
/// would wait for them.
inline Index threads_at_hand() {
  static const pid_t first = getpid();
  return getpid() == first ? tbb::this_task_arena::max_concurrency() : 1;
}

/// Calls task(state, i) for i = 0 .. count - 1, each once, in this order but for what runs at the
/// same time; `make_state()` makes what a thread keeps from task to task. Each task runs in the
/// standard floating-point mode, which the caller has set.
template <class MakeState, class Task>
void share_out(Index count, bool parallel, const MakeState& make_state, const Task& task) {
  const Index threads = parallel ? std::min(count, threads_at_hand()) : 1;
  std::atomic<Index> next = 0;
  const auto work = [&](Index) {
    const StandardFloatMode mode;
    const auto state = make_state();
    for (Index i = next++; i < count; i = next++) task(state, i);
  };
  if (threads <= 1) {
    const auto state = make_state();
    for (Index i = 0; i < count; ++i) task(state, i);
  } else {
#if HEADPROOF_SEES_THREADS
    // As with oneTBB, what a task throws comes out here when all threads have ended.
    std::vector<std::future<void>> others;
    for (Index n = 1; n < threads; ++n) {
      others.push_back(std::async(std::launch::async, work, n));
    }
    work(0);
    for (std::future<void>& other : others) other.get();
#else
    tbb::parallel_for(Index{0}, threads, work, tbb::simple_partitioner());
#endif
  }
}

/// Tells the caller's callback how far the work is, and whether to go on.
class Progress {
 public:
  Progress(const std::function<bool(double)>& callback, double total)
      : callback_(callback), total_(total) {}

  /// Whether the work was stopped.
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  /// Whether `work` was done, or an error which says that the callback stopped it.
  Status status(const char* work) const {
    if (!stopped()) return std::monostate();
    return Error{std::string(work) + " was stopped by its progress callback"};
  }

  /// This much more of the total is done.
  void add(double work) {
    if (!callback_) return;
    const std::lock_guard lock(mutex_);
    done_ += work;
    if (!stopped() && !callback_(std::min(done_ / total_, 1.0))) stopped_ = true;
  }

 private:
  const std::function<bool(double)>& callback_;
  const double total_;
  double done_ = 0;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
};

}  // namespace headproof
