// Works whose speed can be measured, and their names.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "headproof/result.h"
#include "headproof/tensor.h"

namespace headproof {

enum class WorkKind { prefill, forward_backward, call, head, decode };

/// float32 attention of one size. Causal; `decode` is one query against keys that lie in a cache.
struct Work {
  WorkKind kind;
  Index batch = 1, num_heads = 1, num_kv_heads = 1;
  Index seq_len = 1;    ///< for `decode` how many keys are cached
  Index model_dim = 0;  ///< of `head` only
  Index head_dim = 1, value_dim = 1;

  /// Multiplications and additions that the result needs, those of masked pairs not among them: two
  /// for each visible pair and channel in each product, 2 products forward and 7 with the backward
  /// pass; a head has its three projections besides. The softmax is not counted.
  double flops() const;
  /// Bytes of the arrays that go in and those that come out, each once; for `decode` those of the
  /// cached keys and values.
  double bytes() const;
};

/// The forms of names, for a help text, one on a line.
extern const char* const work_forms;

/// A work from its name. The error quotes the name and says what is wrong with it.
Result<Work> parse_work(std::string_view name);

/// A function that does the work once, with inputs of its own: random numbers, the same each time.
/// The work has been done once when it is returned; the error says why it cannot be done.
Result<std::function<void()>> prepare(const Work& work);

}  // namespace headproof
