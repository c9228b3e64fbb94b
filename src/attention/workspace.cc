#include "attention/workspace.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <new>
#include <vector>

namespace headproof {
namespace {

struct Block {
  void* memory;
  std::size_t bytes;
};

constexpr std::size_t huge_page = std::size_t{1} << 21;

/// Blocks that wait. Sizes are powers of two, so that a block fits many calls.
class Pool {
 public:
  Block take(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      bytes_in_use_ += bytes;
      most_in_use_ = std::max(most_in_use_, bytes_in_use_);
      const auto found = std::find_if(blocks_.begin(), blocks_.end(),
                                      [&](const Block& block) { return block.bytes == bytes; });
      if (found != blocks_.end()) {
        const Block block = *found;
        *found = blocks_.back();
        blocks_.pop_back();
        return block;
      }
    }
    const std::size_t alignment = bytes >= huge_page ? huge_page : 64;
    void* memory = ::operator new (bytes, std::align_val_t{alignment});
    if (bytes >= huge_page) (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return {memory, bytes};
  }

  void give_back(Block block) {
    const std::lock_guard lock(mutex_);
    bytes_in_use_ -= block.bytes;
    blocks_.push_back(block);
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
  std::mutex mutex_;
  std::vector<Block> blocks_;
  std::size_t bytes_in_use_ = 0, most_in_use_ = 0, in_use_at_reset_ = 0;
};

// Never destroyed: tasks may still give blocks back while the program ends.
Pool& pool() {
  static Pool& instance = *new Pool;
  return instance;
}

}  // namespace

Workspace::Workspace(std::size_t bytes)
    : bytes_(std::bit_ceil(std::max<std::size_t>(bytes, 4096))) {
  memory_ = pool().take(bytes_).memory;
}

Workspace::~Workspace() { pool().give_back({memory_, bytes_}); }

std::size_t workspace_peak_bytes() { return pool().peak_bytes(); }

void reset_workspace_peak() { pool().reset_peak(); }

}  // namespace headproof
