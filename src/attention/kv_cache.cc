#include "headproof/kv_cache.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "attention/check.h"
#include "attention/fused.h"
#include "attention/workspace.h"

namespace headproof {

/// Of each head [blocks][head_dim][key_block] keys and [blocks * key_block][value_width] values.
template <class Scalar>
struct KvCache<Scalar>::State {
  Index batch, num_kv_heads, head_dim, value_dim, value_width;
  std::vector<Index> first_key;
  Index size = 0;
  Index blocks = 0;  ///< that there is room for, in each head
  std::optional<Memory> memory = std::nullopt;

  Index keys_size() const { return blocks * head_dim * key_block; }
  Index values_size() const { return blocks * key_block * value_width; }
  Index elements() const { return batch * num_kv_heads * (keys_size() + values_size()); }
  Scalar* keys(Index b, Index h) const {
    return memory->template as<Scalar>() + (b * num_kv_heads + h) * (keys_size() + values_size());
  }
  Scalar* values(Index b, Index h) const { return keys(b, h) + keys_size(); }

  void make_room(Index tokens) {
    const Index wanted = blocks_of(tokens);
    if (wanted <= blocks) return;
    State larger{batch, num_kv_heads, head_dim, value_dim, value_width, {}, size, wanted};
    larger.memory.emplace(static_cast<std::size_t>(larger.elements()) * sizeof(Scalar));
    if (memory) {
      for (Index b = 0; b < batch; ++b) {
        for (Index h = 0; h < num_kv_heads; ++h) {
          std::copy_n(keys(b, h), keys_size(), larger.keys(b, h));
          std::copy_n(values(b, h), values_size(), larger.values(b, h));
        }
      }
    }
    memory = std::move(larger.memory);
    blocks = wanted;
  }
};

template <class Scalar>
KvCache<Scalar>::KvCache(Index batch, Index num_kv_heads, Index head_dim, Index value_dim,
                         std::vector<Index> first_key)
    : state_(new State{batch, num_kv_heads, head_dim, value_dim, width_of<Scalar>(value_dim),
                       std::move(first_key)}) {
  state_->first_key.resize(static_cast<std::size_t>(batch));
}

template <class Scalar>
KvCache<Scalar>::~KvCache() = default;
template <class Scalar>
KvCache<Scalar>::KvCache(KvCache&&) noexcept = default;
template <class Scalar>
KvCache<Scalar>& KvCache<Scalar>::operator=(KvCache&&) noexcept = default;

template <class Scalar>
Index KvCache<Scalar>::size() const {
  return state_->size;
}

template <class Scalar>
void KvCache<Scalar>::truncate(Index size) {
  state_->size = std::clamp<Index>(size, 0, state_->size);
}

template <class Scalar>
void KvCache<Scalar>::reserve(Index size) {
  state_->make_room(size);
}

template <class Scalar>
Status KvCache<Scalar>::append(View<const Scalar, 4> k, View<const Scalar, 4> v) {
  State& s = *state_;
  const Index added = k.shape[2];
  for (const auto& error : {shape_error({"k", k}, {s.batch, s.num_kv_heads, added, s.head_dim}),
                            shape_error({"v", v}, {s.batch, s.num_kv_heads, added, s.value_dim}),
                            data_error({"k", k}), data_error({"v", v})}) {
    if (error) return *error;
  }
  // Half as much again as is asked for below, in bytes, must not overflow.
  const double bytes = 1.5 * static_cast<double>(sizeof(Scalar)) *
                       static_cast<double>(s.batch * s.num_kv_heads) *
                       static_cast<double>(s.head_dim + s.value_width) *
                       (static_cast<double>(s.size) + static_cast<double>(added) + key_block);
  if (bytes > 0x1p62) return Error{"the cache has no room for " + std::to_string(added) + " more"};
  // Growing by halves keeps the moving of what is there to a few copies in all.
  const Index room = s.blocks * key_block;
  if (s.size + added > room) s.make_room(std::max(s.size + added, room + room / 2));
  for (Index b = 0; b < s.batch; ++b) {
    const Index first = s.first_key[static_cast<std::size_t>(b)];
    for (Index h = 0; h < s.num_kv_heads; ++h) {
      for (Index t = std::max<Index>(0, first - s.size); t < added; ++t) {
        const Index place = s.size + t - first;
        Scalar* key = s.keys(b, h) + place / key_block * key_block * s.head_dim + place % key_block;
        for (Index c = 0; c < s.head_dim; ++c) key[c * key_block] = k(b, h, t, c);
        Scalar* value = s.values(b, h) + place * s.value_width;
        for (Index c = 0; c < s.value_dim; ++c) value[c] = v(b, h, t, c);
        std::fill(value + s.value_dim, value + s.value_width, Scalar(0));
      }
    }
  }
  s.size += added;
  return std::monostate();
}

template <class Scalar>
Status KvCache<Scalar>::attend_into(View<const Scalar, 4> q, const AttentionOptions& options,
                                    View<Scalar, 4> out, View<Scalar, 3> lse) const {
  const State& s = *state_;
  if (options.first_key.size() != 0) {
    return Error{"first_key belongs to the cache, which is given it when it is made"};
  }
  AttentionOptions of_cache = options;
  std::vector<Index> first_key = s.first_key;
  for (Index& first : first_key) first = std::min(first, s.size);
  of_cache.first_key = {first_key.data(), {s.batch}};
  const std::array<Index, 4> k_shape = {s.batch, s.num_kv_heads, s.size, s.head_dim};
  const std::array<Index, 4> v_shape = {s.batch, s.num_kv_heads, s.size, s.value_dim};
  if (auto error = attention_error(q.shape, k_shape, v_shape, of_cache)) return *error;
  if (auto error = output_error<Scalar>({{"q", q}}, of_cache, q, s.value_dim, out, lse)) {
    return *error;
  }
  const auto source = [&](Index b, Index h, KeyRange keys, KeysAndValues<Scalar>& kv) {
    kv = {.keys = {nullptr, {keys.end - keys.begin, s.head_dim}},
          .values = {nullptr, {keys.end - keys.begin, s.value_dim}}};
    if (keys.begin < keys.end) {
      kv.panels = s.keys(b, h);
      kv.rows = s.values(b, h);
      kv.rows_stride = s.value_width;
    }
  };
  return attention_fused<Scalar>(q, s.num_kv_heads, s.size, std::cref(source), of_cache, out, lse);
}

template <class Scalar>
Result<AttentionOutput<Scalar>> KvCache<Scalar>::attend(View<const Scalar, 4> q,
                                                        const AttentionOptions& options) const {
  AttentionOutput<Scalar> result{
      Tensor<Scalar, 4>({q.shape[0], q.shape[1], q.shape[2], state_->value_dim}),
      Tensor<Scalar, 3>({q.shape[0], q.shape[1], q.shape[2]})};
  const Status done = attend_into(q, options, result.out.view(), result.lse.view());
  if (!done) return done.error();
  return result;
}

template class KvCache<float>;
template class KvCache<double>;

}  // namespace headproof
