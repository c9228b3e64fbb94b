// The head of the lecture: three projections without bias, and attention between them.
#pragma once

#include <optional>

#include "headproof/attention.h"
#include "headproof/random.h"
#include "headproof/result.h"
#include "headproof/safetensors.h"
#include "headproof/tensor.h"

namespace headproof {

/// out[b, t, :] = w x[b, t, :], the linear map without bias: x [batch, seq_len, in], w [out, in].
/// Each element is one sum over the inputs in ascending order; in float and double a chain of fused
/// multiply-adds from +0, whose bits depend on that row of x and on w alone.
template <class Scalar>
Tensor<Scalar, 3> project(View<const Scalar, 3> x, View<const Scalar, 2> w);

/// The parameters of a head, each [head_dim, model_dim]. The causal mask is not one of them: it is
/// a rule, j <= i, not storage.
struct HeadWeights {
  Tensor<float, 2> key, query, value;

  Index head_dim() const { return key.shape()[0]; }
  Index model_dim() const { return key.shape()[1]; }
};

/// Draws the weights of a head, key first, then query, then value, as torch.nn.Linear does:
/// uniform in (-1/sqrt(model_dim), 1/sqrt(model_dim)).
HeadWeights draw_head_weights(Index model_dim, Index head_dim, Generator& generator);

/// The weights under the names `key.weight`, `query.weight`, `value.weight`.
NamedArrays to_named_arrays(const HeadWeights& weights);

/// The weights from these names; a stored mask `tril` is tolerated and ignored. The error names the
/// tensor that is missing, unknown or of a shape that does not fit the others.
Result<HeadWeights> head_weights_from(const NamedArrays& arrays);

/// Everything that the head computes on the way, heads axis dropped.
template <class Scalar>
struct HeadStages {
  Tensor<Scalar, 3> q, k, v;          ///< [batch, seq_len, head_dim]
  AttentionStages<Scalar> attention;  ///< with num_heads = 1
};

/// The head as a function of everything it depends on: x [batch, seq_len, model_dim], weights
/// [head_dim, model_dim]; causal masks with j <= i.
template <class Scalar>
HeadStages<Scalar> head_forward(View<const Scalar, 3> x, View<const Scalar, 2> w_q,
                                View<const Scalar, 2> w_k, View<const Scalar, 2> w_v, bool causal);

/// d loss / d x and d weights.
template <class Scalar>
struct HeadGradients {
  Tensor<Scalar, 3> d_x;
  Tensor<Scalar, 2> d_w_q, d_w_k, d_w_v;
};

/// The vector-Jacobian product of the head: the gradients of sum(d_out * out),
/// d_out [batch, seq_len, head_dim]. Each element of d_x is one chain over the channels of value,
/// then of key, then of query; each of d_w one chain over the rows of x; all ascending.
template <class Scalar>
HeadGradients<Scalar> head_backward(const HeadStages<Scalar>& forward, View<const Scalar, 3> x,
                                    View<const Scalar, 2> w_q, View<const Scalar, 2> w_k,
                                    View<const Scalar, 2> w_v, View<const Scalar, 3> d_out,
                                    bool causal);

/// A causal self-attention head with its weights: out = softmax(mask(q k^T / sqrt(head_dim))) v.
class Head {
 public:
  /// Draws the weights from `generator`.
  Head(Index model_dim, Index head_dim, Index max_seq_len, Generator& generator,
       bool causal = true);
  Head(HeadWeights weights, Index max_seq_len, bool causal = true);

  /// x [batch, seq_len, model_dim] -> out [batch, seq_len, head_dim]; keeps A. An error when
  /// seq_len is above max_seq_len or the width of x is not model_dim.
  Result<Tensor<float, 3>> operator()(View<const float, 3> x);

  /// out alone, fast and in little memory; leaves A() as it is. Errors are those of operator(), the
  /// bits those of `attention` (docs/kernel.md).
  Result<Tensor<float, 3>> out(View<const float, 3> x) const;

  /// The attention matrices of the last call, [batch, seq_len, seq_len].
  const Tensor<float, 3>& A() const { return A_; }
  const HeadWeights& weights() const { return weights_; }
  Tensor<float, 3> query(View<const float, 3> x) const { return project<float>(x, weights_.query); }
  Tensor<float, 3> key(View<const float, 3> x) const { return project<float>(x, weights_.key); }
  Tensor<float, 3> value(View<const float, 3> x) const { return project<float>(x, weights_.value); }
  bool causal() const { return causal_; }

 private:
  std::optional<Error> input_error(View<const float, 3> x) const;

  HeadWeights weights_;
  Tensor<float, 2> qkv_weights_;  // query, key, value, each transposed: [model_dim, 3 head_dim]
  Index max_seq_len_;
  bool causal_;
  Tensor<float, 3> A_;
};

/// A table of vectors, one row an id: standard normal, as torch.nn.Embedding draws it.
class Embedding {
 public:
  Embedding(Index count, Index dim, Generator& generator) : table_(generator.randn(count, dim)) {}

  /// ids -> [1, ids, dim]; precondition: every id is in 0 .. count - 1.
  Tensor<float, 3> operator()(View<const Index, 1> ids) const;
  const Tensor<float, 2>& table() const { return table_; }

 private:
  Tensor<float, 2> table_;
};

}  // namespace headproof
