// headproof's side of peers.py, which loads this library: a problem is described once, and then a
// call is one pointer. Each function returns 0, or 1 when the problem is none.

#include <tbb/global_control.h>

#include <array>
#include <memory>

#include "headproof/attention.h"
#include "headproof/kv_cache.h"

namespace {

using headproof::Index;

/// Mirrored by `Problem` in peers.py. Arrays are dense: q, out and their gradients [batch,
/// num_heads, seq_len, head_dim], k, v and theirs [batch, num_kv_heads, seq_len, head_dim].
struct Problem {
  Index batch, num_heads, num_kv_heads, seq_len, head_dim;
  const float *q, *k, *v, *d_out;
  float *out, *lse, *d_q, *d_k, *d_v;

  template <class T>
  headproof::View<T, 4> queries(T* data) const {
    return {data, {batch, num_heads, seq_len, head_dim}};
  }
  template <class T>
  headproof::View<T, 4> keys(T* data) const {
    return {data, {batch, num_kv_heads, seq_len, head_dim}};
  }
  headproof::View<float, 3> lse_view() const { return {lse, {batch, num_heads, seq_len}}; }
};

headproof::AttentionOptions causal() {
  headproof::AttentionOptions options;
  options.causal = headproof::Causal::top_left;
  return options;
}

}  // namespace

extern "C" {

void headproof_peers_threads(int threads) {
  static std::unique_ptr<tbb::global_control> limit;
  limit.reset();
  limit = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                static_cast<std::size_t>(threads));
}

int headproof_peers_forward(const Problem* p) {
  static const headproof::AttentionOptions options = causal();
  const auto done = headproof::attention_into<float>(p->queries(p->q), p->keys(p->k), p->keys(p->v),
                                                     options, p->queries(p->out), {});
  return done ? 0 : 1;
}

int headproof_peers_gradients(const Problem* p) {
  static const headproof::AttentionOptions options = causal();
  const auto forward = headproof::attention_into<float>(
      p->queries(p->q), p->keys(p->k), p->keys(p->v), options, p->queries(p->out), p->lse_view());
  if (!forward) return 1;
  const auto backward = headproof::attention_backward_into<float>(
      p->queries(p->q), p->keys(p->k), p->keys(p->v), p->queries<const float>(p->out),
      p->lse_view(), p->queries(p->d_out), options, p->queries(p->d_q), p->keys(p->d_k),
      p->keys(p->d_v));
  return backward ? 0 : 1;
}

/// A cache of the problem's keys and values, which lives as long as the program; null on failure.
void* headproof_peers_cache(const Problem* p) {
  auto cache = std::make_unique<headproof::KvCache<float>>(p->batch, p->num_kv_heads, p->head_dim,
                                                           p->head_dim);
  cache->reserve(p->seq_len);
  if (!cache->append(p->keys(p->k), p->keys(p->v))) return nullptr;
  return cache.release();
}

/// One query of each head, q and out [batch, num_heads, 1, head_dim], against all that is cached.
int headproof_peers_decode(const void* cache, const Problem* p) {
  static const headproof::AttentionOptions everything;
  if (cache == nullptr) return 1;
  const std::array<Index, 4> shape = {p->batch, p->num_heads, 1, p->head_dim};
  const auto done = static_cast<const headproof::KvCache<float>*>(cache)->attend_into(
      {p->q, shape}, everything, {p->out, shape}, {});
  return done ? 0 : 1;
}

}  // extern "C"
