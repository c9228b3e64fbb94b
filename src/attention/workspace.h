// Memory with few pages; and memory that outlives a call, because first touch of fresh pages is
// dear.
#pragma once

#include <cstddef>
#include <optional>

namespace headproof {

/// Memory aligned to 64 bytes; where it is large, it asks for huge pages.
class Memory {
 public:
  explicit Memory(std::size_t bytes);
  ~Memory();
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;

  std::size_t bytes() const { return bytes_; }
  template <class Scalar>
  Scalar* as() const {
    return static_cast<Scalar*>(start_);
  }

 private:
  std::size_t bytes_;
  void* start_;
};

/// A block of memory that belongs to one task until it goes out of scope and
/// then waits for the next; none when it has no bytes. The contents are what the last task left.
class Workspace {
 public:
  explicit Workspace(std::size_t bytes);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  template <class Scalar>
  Scalar* as() const {
    return memory_ ? memory_->as<Scalar>() : nullptr;
  }

 private:
  std::optional<Memory> memory_;
};

/// The most bytes that lay in Workspaces at once since `reset_workspace_peak`, beyond those that
/// did at that moment.
std::size_t workspace_peak_bytes();
void reset_workspace_peak();

}  // namespace headproof
