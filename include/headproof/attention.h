// Scaled dot-product attention: its definition, and the gradients of the definition.
#pragma once

#include <complex>
#include <functional>
#include <optional>
#include <variant>

#include "headproof/result.h"
#include "headproof/tensor.h"

namespace headproof {

/// Which keys a query may see. The corner is always named: with `top_left` query i sees keys
/// 0 .. i, with `bottom_right` keys 0 .. key_length - seq_len_q + i (none when that is negative).
enum class Causal { none, top_left, bottom_right };

/// True (may attend) or false for each query and key, or a number that is added to each logit,
/// where -infinity forbids; [batch, num_heads, seq_len_q, seq_len_k], and an axis of size 1 stands
/// for all. `std::monostate`: no mask.
using Mask =
    std::variant<std::monostate, View<const bool, 4>, View<const float, 4>, View<const double, 4>>;

/// What is asked for besides q, k and v. A key is seen when everything here allows it.
struct AttentionOptions {
  Causal causal = Causal::none;
  /// Multiplies q k^T; 1 / sqrt(head_dim) when absent.
  std::optional<double> scale = std::nullopt;
  /// The position of query 0 among the keys, for `causal` and windows; query i stands at
  /// query_offset + i. When absent: 0, or key_length - seq_len_q for `bottom_right`, which takes
  /// no other.
  std::optional<Index> query_offset = std::nullopt;
  /// A sliding window: of the keys up to its own position a query sees the last `window`, its own
  /// included; at least 1.
  std::optional<Index> window = std::nullopt;
  /// A query sees at most this many keys beyond its own position; at least 0.
  std::optional<Index> window_right = std::nullopt;
  /// Scores become softcap * tanh(scores / softcap), before the mask; none when 0.
  double softcap = 0;
  Mask mask = {};
  /// [batch] or empty: keys before first_key[b] are padding (default 0), as are keys from
  /// key_length[b] on (default seq_len_k); 0 <= first_key <= key_length <= seq_len_k. Padding is
  /// never read.
  View<const Index, 1> first_key = {}, key_length = {};
  /// Called now and then with the share of the work that is done, in 0 .. 1, by one thread at a
  /// time; false stops the call, which then returns an error.
  std::function<bool(double)> progress = nullptr;
};

/// Every stage of softmax(mask(scale q k^T)) v, in the order in which they are made.
template <class Scalar>
struct AttentionStages {
  Tensor<Scalar, 4> scores;  ///< [batch, num_heads, seq_len_q, seq_len_k], scale * q k^T
  Tensor<Scalar, 4> logits;  ///< the same shape; what the softmax sees: -inf where masked
  Tensor<Scalar, 4> A;       ///< the same shape; exactly 0 where masked
  Tensor<Scalar, 3> lse;     ///< [batch, num_heads, seq_len_q], ln of the row's sum of exp(logit)
  Tensor<Scalar, 4> out;     ///< [batch, num_heads, seq_len_q, value_dim]
};

/// What attention gives without its stages.
template <class Scalar>
struct AttentionOutput {
  Tensor<Scalar, 4> out;  ///< [batch, num_heads, seq_len_q, value_dim]
  Tensor<Scalar, 3> lse;  ///< [batch, num_heads, seq_len_q]
};

/// d loss / d q, k, v, in the shapes of q, k, v.
template <class Scalar>
struct AttentionGradients {
  Tensor<Scalar, 4> d_q, d_k, d_v;
};

/// Why these shapes and options make no attention problem; nothing when they do.
/// q [batch, num_heads, seq_len_q, head_dim], k [batch, num_kv_heads, seq_len_k, head_dim],
/// v [batch, num_kv_heads, seq_len_k, value_dim]; num_kv_heads divides num_heads, and query head h
/// reads key/value head h / (num_heads / num_kv_heads).
std::optional<Error> attention_error(const std::array<Index, 4>& q, const std::array<Index, 4>& k,
                                     const std::array<Index, 4>& v,
                                     const AttentionOptions& options = {});

/// Attention, fast and in little memory: softmax(mask(softcap(scale q k^T))) v and the rows' lse,
/// with bits that depend on the problem alone, not on threads, batch, strides or instruction set
/// (docs/kernel.md). The error names what is wrong with shapes or options. Scalar: float or double.
/// What masks and empty rows mean is said at attention_reference.
template <class Scalar>
Result<AttentionOutput<Scalar>> attention(View<const Scalar, 4> q, View<const Scalar, 4> k,
                                          View<const Scalar, 4> v,
                                          const AttentionOptions& options = {});

/// The same into memory of the caller: out [batch, num_heads, seq_len_q, value_dim] and, unless its
/// data is null, lse [batch, num_heads, seq_len_q]. They must not overlap each other or an input.
/// After an error of shapes or options they are as before; after a stop by `progress` they hold no
/// result.
template <class Scalar>
Status attention_into(View<const Scalar, 4> q, View<const Scalar, 4> k, View<const Scalar, 4> v,
                      const AttentionOptions& options, View<Scalar, 4> out, View<Scalar, 3> lse);

/// The gradients of sum(d_out * out), fast and in little memory, with bits that depend on the
/// problem alone. out and lse are what `attention` gave for the same q, k, v and options; d_out has
/// out's shape. Errors as with `attention`. Scalar: float or double.
template <class Scalar>
Result<AttentionGradients<Scalar>> attention_backward(
    View<const Scalar, 4> q, View<const Scalar, 4> k, View<const Scalar, 4> v,
    View<const Scalar, 4> out, View<const Scalar, 3> lse, View<const Scalar, 4> d_out,
    const AttentionOptions& options = {});

/// The same into memory of the caller, in the shapes of q, k and v.
template <class Scalar>
Status attention_backward_into(View<const Scalar, 4> q, View<const Scalar, 4> k,
                               View<const Scalar, 4> v, View<const Scalar, 4> out,
                               View<const Scalar, 3> lse, View<const Scalar, 4> d_out,
                               const AttentionOptions& options, View<Scalar, 4> d_q,
                               View<Scalar, 4> d_k, View<Scalar, 4> d_v);

/// The definition of attention, every stage kept; precondition: `attention_error` finds nothing.
/// Softcap and mask are found in `logits`; `scores` are those of all keys but padding, where they
/// are 0. `progress` is not called. Nothing computed from a masked entry reaches a result. A row
/// without an allowed key has weights 0, out 0 and lse -inf; a logit that is NaN or +inf, or all of
/// them -inf by their own value, makes its row NaN and no other. Scalar: float, double, long
/// double, or std::complex<double> for complex-step derivatives (the maximum is then that of the
/// real parts).
template <class Scalar>
AttentionStages<Scalar> attention_reference(View<const Scalar, 4> q, View<const Scalar, 4> k,
                                            View<const Scalar, 4> v,
                                            const AttentionOptions& options = {});

/// The gradients of sum(d_out * out), from the stages of the forward pass; d_out has out's shape.
template <class Scalar>
AttentionGradients<Scalar> attention_reference_backward(
    const AttentionStages<Scalar>& forward, View<const Scalar, 4> q, View<const Scalar, 4> k,
    View<const Scalar, 4> v, View<const Scalar, 4> d_out, const AttentionOptions& options = {});

}  // namespace headproof
