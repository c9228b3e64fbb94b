// What the checker may ask of an implementation of attention, and what it accepts.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "headproof/attention.h"
#include "headproof/tensor.h"

namespace headproof {

/// What a subject computes with. Inputs are float32 numbers that the dtype represents; answers are
/// widened to double, which keeps every bit.
enum class Dtype { float32, float64, float16, bfloat16 };
std::string_view name_of(Dtype dtype);
std::optional<Dtype> dtype_of(std::string_view name);

/// The order of axes in the subject's own memory: [batch, num_heads, seq_len, head_dim] or
/// [batch, seq_len, num_heads, head_dim].
enum class Layout { bhsd, bshd };
std::string_view name_of(Layout layout);
std::optional<Layout> layout_of(std::string_view name);

/// What a subject may offer beyond out = attention(q, k, v). In the names that users see,
/// underscores stand for spaces ("non_causal").
enum class Feature {
  causal,         ///< the causal mask
  non_causal,     ///< no mask
  rectangular,    ///< seq_len_q != seq_len_k
  value_dim,      ///< value_dim != head_dim
  zero_sizes,     ///< sizes of 0
  batches,        ///< a batch of more than 1
  heads,          ///< more than one head
  grouped_heads,  ///< num_kv_heads < num_heads
  scale,          ///< a scale of the caller's
  query_offset,   ///< a position of query 0 among the keys
  window,         ///< a sliding window of keys up to the query's own
  softcap,
  mask,        ///< a boolean mask
  bias,        ///< an additive mask
  key_length,  ///< padding behind each sequence's keys
  lse,         ///< the rows' logarithms of sums
  weights,     ///< A
  backward,    ///< d_q, d_k, d_v
  threads,     ///< a number of threads of the caller's
  strides,     ///< inputs that are not dense
  decode       ///< a path of its own for one query after the other, with a cache
};
inline constexpr int feature_count = static_cast<int>(Feature::decode) + 1;
std::string_view name_of(Feature feature);
std::optional<Feature> feature_of(std::string_view name);

class Features {
 public:
  Features() = default;
  Features(std::initializer_list<Feature> list) {
    for (Feature feature : list) set(feature, true);
  }
  bool has(Feature feature) const { return (bits_ >> static_cast<int>(feature) & 1U) != 0; }
  void set(Feature feature, bool on) {
    const std::uint32_t bit = 1U << static_cast<int>(feature);
    bits_ = on ? bits_ | bit : bits_ & ~bit;
  }
  static Features all();

 private:
  std::uint32_t bits_ = 0;
};

/// What a subject accepts. Questions stay inside it.
struct Domain {
  Dtype dtype = Dtype::float32;
  Layout layout = Layout::bhsd;
  Features features;
  std::vector<Index> head_dims;  ///< the allowed ones; empty: any
  Index length_multiple = 1;     ///< seq_len_q and seq_len_k are multiples of it
  Index max_length = 1 << 20;
};

/// One question: the tensors and options of attention.h, owned.
struct AttentionProblem {
  Tensor<float, 4> q;  ///< [batch, num_heads, seq_len_q, head_dim]
  Tensor<float, 4> k;  ///< [batch, num_kv_heads, seq_len_k, head_dim]
  Tensor<float, 4> v;  ///< [batch, num_kv_heads, seq_len_k, value_dim]
  Causal causal = Causal::top_left;
  std::optional<double> scale;
  std::optional<Index> query_offset, window;
  double softcap = 0;
  std::optional<Tensor<bool, 4>> mask;   ///< true: may attend; axes of size 1 stand for all
  std::optional<Tensor<float, 4>> bias;  ///< added to the logits; at most one of mask and bias
  std::vector<Index> key_length;         ///< [batch] or empty

  int threads = 0;  ///< 0: the subject's own choice
  /// How q, k and v lie in memory: dense, or with unused numbers between rows and heads and axes
  /// in another order. What the memory between them holds is NaN. Heads that are all equal are the
  /// same memory, a stride of 0.
  bool strided = false;
  bool strided_channels = false;  ///< where strided: channels too, back to front and apart
  /// Ask the subject's own path for decoding: the queries are the last tokens, one call each.
  bool decode = false;

  bool want_lse = false, want_weights = false;
  std::optional<Tensor<float, 4>> d_out;  ///< out's shape; asks for d_q, d_k and d_v

  Index batch() const { return q.shape()[0]; }
  Index num_heads() const { return q.shape()[1]; }
  Index num_kv_heads() const { return k.shape()[1]; }
  Index seq_len_q() const { return q.shape()[2]; }
  Index seq_len_k() const { return k.shape()[2]; }
  Index head_dim() const { return q.shape()[3]; }
  Index value_dim() const { return v.shape()[3]; }

  /// The options as attention.h has them; views into this problem.
  AttentionOptions options() const;
};

/// What came out, widened.
struct AttentionAnswer {
  Tensor<double, 4> out;                          ///< [batch, num_heads, seq_len_q, value_dim]
  std::optional<Tensor<double, 3>> lse = {};      ///< where it was wanted
  std::optional<Tensor<double, 4>> weights = {};  ///< where they were wanted
  std::optional<AttentionGradients<double>> gradients = {};
  bool inputs_changed = false;  ///< q, k, v or the mask were written to
};

/// Why there is no answer, in one sentence.
struct Refusal {
  enum class Kind {
    unsupported,  ///< the subject says that it does not do this
    failed,       ///< it raised an error, or gave something that is no answer
    crashed,      ///< its process ended, or it wrote where it must not
    timed_out
  };
  Kind kind = Kind::failed;
  std::string why;
};

using AttentionReply = std::variant<AttentionAnswer, Refusal>;

/// An implementation of (q, k, v) -> out, however it works.
class AttentionSubject {
 public:
  virtual ~AttentionSubject() = default;
  virtual std::string name() const = 0;
  /// What it declares to accept. The checker asks before it relies on it, and narrows it.
  virtual Domain domain() const = 0;
  virtual AttentionReply attend(const AttentionProblem& problem) = 0;
  /// The one question that it can answer; nothing for a subject that may be asked anything.
  virtual std::optional<AttentionProblem> only_problem() const { return std::nullopt; }
};

/// "reference", "canonical", "fused" or "float64" (the definition, computed in double); null for
/// another name.
std::unique_ptr<AttentionSubject> builtin_attention(std::string_view name);

/// A function of the caller's, in this process.
std::unique_ptr<AttentionSubject> function_attention(
    std::string name, Domain domain,
    std::function<AttentionReply(const AttentionProblem& problem)> function);

}  // namespace headproof
