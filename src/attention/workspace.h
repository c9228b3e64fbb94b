// Memory that outlives a call: first touch of fresh pages is dear, so that they are kept.
#pragma once

#include <cstddef>

namespace headproof {

/// A block of memory, aligned to 64 bytes, that belongs to one task until it goes out of scope and
/// then waits for the next. Large blocks ask for huge pages. The contents are what the last task
/// left.
class Workspace {
 public:
  explicit Workspace(std::size_t bytes);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  template <class Scalar>
  Scalar* as() const {
    return static_cast<Scalar*>(memory_);
  }

 private:
  void* memory_;
  std::size_t bytes_;
};

/// The most bytes that lay in Workspaces at once since `reset_workspace_peak`, beyond those that
/// did at that moment.
std::size_t workspace_peak_bytes();
void reset_workspace_peak();

}  // namespace headproof
