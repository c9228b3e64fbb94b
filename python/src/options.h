// The options of attention as Python gives them.
#pragma once

#include <optional>
#include <vector>

#include "frame.h"
#include "headproof/attention.h"

namespace headproof::python {

/// What is said beside query, key and value; names and meaning are those of attention.h, and
/// attn_mask, is_causal and enable_gqa those of PyTorch.
struct Options {
  nb::handle attn_mask, is_causal, scale, causal, query_offset, window, window_right, softcap,
      first_key, key_length, threads;
};

/// Integers from an array or a list, empty where none is given; `wanted` is their number.
std::vector<Index> read_lengths(const char* name, nb::handle given, int axes, Index wanted);

/// The same, read: what a call is handed.
class ReadOptions {
 public:
  /// Raises where an option cannot be what it is. `seq_len_q` and `seq_len_k` are for the mask.
  ReadOptions(const Options& options, const Frame& frame, Index seq_len_q, Index seq_len_k);

  /// Makes floats of a mask of 16-bit numbers; needs no GIL.
  void widen() {
    if (mask_) mask_->widen();
  }
  AttentionOptions of_call(const Frame& frame, Index call) const;
  int threads() const { return threads_; }  ///< 0: as many as there are

 private:
  AttentionOptions common_;
  std::optional<Input> mask_;
  std::vector<Index> first_key_, key_length_;
  int threads_ = 0;
};

}  // namespace headproof::python
