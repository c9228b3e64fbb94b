// An attention in C++ that headproof can check. Put your own into `attention`:
//
//   c++ -std=c++20 -O2 -shared -fPIC subject.cpp -o libmine.so
//   headproof check ./libmine.so
//
// It needs headproof/subject.h alone; -I names the folder that holds headproof/.
#include <headproof/subject.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

namespace {

/// The row of q, k, v or out at batch b, head h and position i; dense, since no strides are
/// offered.
template <class Tensor>
auto* row(const Tensor& tensor, std::int64_t b, std::int64_t h, std::int64_t i) {
  using Float = decltype(tensor.data);
  const auto offset = b * tensor.strides[0] + h * tensor.strides[1] + i * tensor.strides[2];
  if constexpr (std::is_same_v<Float, void*>) {
    return static_cast<float*>(tensor.data) + offset;
  } else {
    return static_cast<const float*>(tensor.data) + offset;
  }
}

/// One row of out, in one pass over the keys 0 .. keys - 1: the sums are rescaled whenever a score
/// is above all before it.
void attend(const headproof_problem& p, std::int64_t b, std::int64_t h, std::int64_t i,
            std::int64_t keys, float scale) {
  const std::int64_t kv = h / (p.num_heads / p.num_kv_heads);
  const float* q = row(p.q, b, h, i);
  float largest = -INFINITY, sum = 0;
  std::vector<float> total(static_cast<std::size_t>(p.value_dim));
  for (std::int64_t j = 0; j < keys; ++j) {
    const float *k = row(p.k, b, kv, j), *v = row(p.v, b, kv, j);
    float score = 0;
    for (std::int64_t c = 0; c < p.head_dim; ++c) score += q[c] * k[c];
    score *= scale;
    const float before = j == 0 ? 0 : std::exp(largest - std::fmax(largest, score));
    largest = std::fmax(largest, score);
    const float weight = std::exp(score - largest);
    sum = sum * before + weight;
    for (std::size_t c = 0; c < total.size(); ++c) {
      total[c] = total[c] * before + weight * v[c];
    }
  }
  float* out = row(p.out, b, h, i);
  for (std::size_t c = 0; c < total.size(); ++c) out[c] = keys > 0 ? total[c] / sum : 0;
}

int attention(const headproof_problem* problem, char* error, std::size_t error_size) try {
  const headproof_problem& p = *problem;
  const double scale = p.has_scale != 0 ? p.scale : 1 / std::sqrt(static_cast<double>(p.head_dim));
  for (std::int64_t b = 0; b < p.batch; ++b) {
    for (std::int64_t h = 0; h < p.num_heads; ++h) {
      for (std::int64_t i = 0; i < p.seq_len_q; ++i) {
        attend(p, b, h, i, p.causal == HEADPROOF_CAUSAL_NONE ? p.seq_len_k : i + 1,
               static_cast<float>(scale));
      }
    }
  }
  return HEADPROOF_DONE;
} catch (const std::exception& exception) {  // none may cross the border to C
  if (error_size > 0) std::snprintf(error, error_size, "%s", exception.what());
  return HEADPROOF_FAILED;
}

headproof_subject make() {
  headproof_subject subject{};
  subject.abi_version = HEADPROOF_ABI_VERSION;
  subject.struct_size = sizeof subject;
  subject.name = "mine";
  subject.dtype = HEADPROOF_FLOAT32;
  subject.layout = HEADPROOF_BHSD;
  // What it does; the checker asks for nothing else.
  subject.features = HEADPROOF_OFFERS_CAUSAL | HEADPROOF_OFFERS_NON_CAUSAL |
                     HEADPROOF_OFFERS_VALUE_DIM | HEADPROOF_OFFERS_ZERO_SIZES |
                     HEADPROOF_OFFERS_BATCHES | HEADPROOF_OFFERS_HEADS |
                     HEADPROOF_OFFERS_GROUPED_HEADS | HEADPROOF_OFFERS_SCALE;
  subject.attention = attention;
  return subject;
}

}  // namespace

extern "C" const headproof_subject headproof_subject = make();
