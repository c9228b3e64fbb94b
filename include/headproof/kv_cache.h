// Keys and values of tokens that were seen before, kept in the kernel's own layout for decoding.
#pragma once

#include <memory>
#include <vector>

#include "headproof/attention.h"

namespace headproof {

/// The cache of one attention layer. Attention with it has, bit for bit, the rows that attention
/// over all keys at once would have, whether they came one at a time or in chunks of any size.
/// Scalar: float or double.
template <class Scalar>
class KvCache {
 public:
  /// `first_key` [batch], or nothing: tokens of sequence b before first_key[b] are padding, which
  /// is not kept. Precondition: no number is negative, and first_key has `batch` elements.
  KvCache(Index batch, Index num_kv_heads, Index head_dim, Index value_dim,
          std::vector<Index> first_key = {});
  ~KvCache();
  KvCache(KvCache&&) noexcept;
  KvCache& operator=(KvCache&&) noexcept;

  /// Adds tokens: k [batch, num_kv_heads, new, head_dim], v [batch, num_kv_heads, new, value_dim].
  /// The error names the shape that does not fit, or more tokens than memory can count; the cache
  /// is then as before.
  Status append(View<const Scalar, 4> k, View<const Scalar, 4> v);

  /// How many tokens it holds of each sequence, padding included.
  Index size() const;

  /// Forgets tokens from the end on until `size` are left; none when there are no more.
  void truncate(Index size);

  /// Makes room for `size` tokens, so that append moves nothing until then. Precondition: they fit
  /// in memory.
  void reserve(Index size);

  /// What `attention` gives for q [batch, num_heads, seq_len_q, head_dim] and all keys and values
  /// that were added. The queries are the last tokens unless the options place them elsewhere:
  /// `causal` is usually bottom_right. `options.first_key` must be empty: the cache knows it.
  Result<AttentionOutput<Scalar>> attend(View<const Scalar, 4> q,
                                         const AttentionOptions& options) const;

  /// The same into memory of the caller; see attention_into.
  Status attend_into(View<const Scalar, 4> q, const AttentionOptions& options, View<Scalar, 4> out,
                     View<Scalar, 3> lse) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headproof
