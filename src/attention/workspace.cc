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
    blocks_.push_back(block);
  }

 private:
  std::mutex mutex_;
  std::vector<Block> blocks_;
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

}  // namespace headproof
