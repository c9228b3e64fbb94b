#include "attention/workspace.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace headproof {
namespace {

constexpr std::size_t huge_page = std::size_t{1} << 21;

std::align_val_t alignment_of(std::size_t bytes) {
  return std::align_val_t{bytes >= huge_page ? huge_page : 64};
}

/// Blocks that wait. Sizes are powers of two, so that a block fits many calls.
class Pool {
 public:
  Memory take(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::find_if(blocks_.begin(), blocks_.end(),
                                      [&](const Memory& block) { return block.bytes() == bytes; });
      if (found != blocks_.end()) {
        std::swap(*found, blocks_.back());
        Memory block = std::move(blocks_.back());
        blocks_.pop_back();
        count(bytes);
        return block;
      }
    }
    Memory block(bytes);
    const std::lock_guard lock(mutex_);
    count(bytes);
    return block;
  }

  void give_back(Memory block) {
    const std::lock_guard lock(mutex_);
    bytes_in_use_ -= block.bytes();
    blocks_.push_back(std::move(block));
  }

  std::size_t peak_bytes() {
    const std::lock_guard lock(mutex_);
    return most_in_use_ - in_use_at_reset_;
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    in_use_at_reset_ = most_in_use_ = bytes_in_use_;
  }

 private:
  void count(std::size_t taken) {
    bytes_in_use_ += taken;
    most_in_use_ = std::max(most_in_use_, bytes_in_use_);
  }

  std::mutex mutex_;
  std::vector<Memory> blocks_;
  std::size_t bytes_in_use_ = 0, most_in_use_ = 0, in_use_at_reset_ = 0;
};

// Never destroyed: tasks may still give blocks back while the program ends.
Pool& pool() {
  static Pool& instance = *new Pool;
  return instance;
}

}  // namespace

Memory::Memory(std::size_t bytes)
    : bytes_(bytes), start_(::operator new(bytes, alignment_of(bytes))) {
  if (bytes >= huge_page) (void)madvise(start_, bytes, MADV_HUGEPAGE);
}

Memory::~Memory() { ::operator delete(start_, alignment_of(bytes_)); }

Memory::Memory(Memory&& other) noexcept
    : bytes_(other.bytes_), start_(std::exchange(other.start_, nullptr)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(start_, other.start_);
  return *this;
}

Workspace::Workspace(std::size_t bytes) {
  if (bytes > 0) memory_ = pool().take(std::bit_ceil(std::max<std::size_t>(bytes, 4096)));
}

Workspace::~Workspace() {
  if (memory_) pool().give_back(std::move(*memory_));
}

std::size_t workspace_peak_bytes() { return pool().peak_bytes(); }

void reset_workspace_peak() { pool().reset_peak(); }

}  // namespace headproof
