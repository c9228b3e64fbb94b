// What the tests of this room draw and compare.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <ostream>

#include "headproof/attention.h"
#include "headproof/random.h"

namespace headproof {

/// Normal numbers; the same in float and in double.
template <class Scalar>
Tensor<Scalar, 4> draw(std::array<Index, 4> shape, std::uint64_t seed) {
  Generator generator(seed);
  Tensor<float, 1> values({View<float, 4>(nullptr, shape).size()});
  generator.normal(values.view());
  Tensor<Scalar, 4> tensor(shape);
  std::copy(values.begin(), values.end(), tensor.begin());
  return tensor;
}

/// Equal bits, where any NaN equals any NaN.
template <class Scalar>
bool same(Scalar a, Scalar b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

template <class Scalar, std::size_t Rank>
bool same(const Tensor<Scalar, Rank>& a, const Tensor<Scalar, Rank>& b) {
  return a.shape() == b.shape() &&
         std::equal(a.begin(), a.end(), b.begin(), [](Scalar x, Scalar y) { return same(x, y); });
}

template <class Scalar>
bool same(const AttentionOutput<Scalar>& a, const AttentionOutput<Scalar>& b) {
  return same(a.out, b.out) && same(a.lse, b.lse);
}

template <class Scalar>
bool same(const AttentionGradients<Scalar>& a, const AttentionGradients<Scalar>& b) {
  return same(a.d_q, b.d_q) && same(a.d_k, b.d_k) && same(a.d_v, b.d_v);
}

/// Sizes of a problem.
struct Shape {
  Index batch, num_heads, num_kv_heads, seq_len_q, seq_len_k, head_dim, value_dim;
};

inline std::ostream& operator<<(std::ostream& stream, const Shape& s) {
  return stream << s.batch << " sequences, " << s.num_heads << " heads over " << s.num_kv_heads
                << ", " << s.seq_len_q << " queries, " << s.seq_len_k << " keys, head_dim "
                << s.head_dim << ", value_dim " << s.value_dim;
}

}  // namespace headproof
