// Scaled dot-product attention: its definition, and the gradients of the definition.
#pragma once

#include <complex>
#include <optional>

#include "headproof/result.h"
#include "headproof/tensor.h"

namespace headproof {

/// Which keys a query may see. The corner is always named: with `top_left` query i sees keys
/// 0 .. i, with `bottom_right` keys 0 .. seq_len_k - seq_len_q + i (none when that is negative).
enum class Causal { none, top_left, bottom_right };

/// What is asked for besides q, k and v.
struct AttentionOptions {
  Causal causal = Causal::none;
  /// Multiplies q k^T; 1 / sqrt(head_dim) when absent.
  std::optional<double> scale;
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
std::optional<Error> attention_shape_error(const std::array<Index, 4>& q,
                                           const std::array<Index, 4>& k,
                                           const std::array<Index, 4>& v);

/// Attention, fast and in little memory: softmax(mask(scale q k^T)) v and the rows' lse, with bits
/// that depend on the problem alone, not on threads, batch, strides or instruction set. The error
/// names what is wrong with the shapes. Scalar: float or double. What masks and empty rows mean is
/// said at attention_reference.
template <class Scalar>
Result<AttentionOutput<Scalar>> attention(View<const Scalar, 4> q, View<const Scalar, 4> k,
                                          View<const Scalar, 4> v,
                                          const AttentionOptions& options = {});

/// The definition of attention, every stage kept; precondition: the shapes are right
/// (`attention_shape_error`). Nothing computed from a masked entry reaches a result. A row without
/// an allowed key has weights 0, out 0 and lse -inf; a logit that is NaN or +inf, or all of them
/// -inf by their own value, makes its row NaN and no other.
/// Scalar: float, double, long double, or std::complex<double> for complex-step derivatives (the
/// maximum is then that of the real parts).
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
