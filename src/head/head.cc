#include "headproof/head.h"

#include <cmath>
#include <string>
#include <type_traits>
#include <utility>

#include "attention/workspace.h"
#include "head/product.h"

namespace headproof {
namespace {

// Attention takes [batch, num_heads, seq_len, dim]; a head has one.
template <class Scalar>
View<const Scalar, 4> one_head(const Tensor<Scalar, 3>& tensor) {
  return tensor.view().with_axis(1);
}

AttentionOptions options_for(bool causal) {
  return {.causal = causal ? Causal::top_left : Causal::none, .scale = std::nullopt};
}

template <class Scalar>
Tensor<Scalar, 3> drop_head_axis(const Tensor<Scalar, 4>& tensor) {
  Tensor<Scalar, 3> dropped({tensor.shape()[0], tensor.shape()[2], tensor.shape()[3]});
  std::copy(tensor.begin(), tensor.end(), dropped.begin());
  return dropped;
}

/// [batch, seq_len, dim] as one matrix of rows; by way of `copy` where the strides have no such
/// view.
template <class Scalar>
View<const Scalar, 2> rows_of(View<const Scalar, 3> x, Tensor<Scalar, 3>& copy) {
  if (x.shape[0] != 1 && x.strides[0] != x.shape[1] * x.strides[1]) {
    copy = Tensor<Scalar, 3>(x);
    x = copy;
  }
  return {x.data, {x.shape[0] * x.shape[1], x.shape[2]}, {x.strides[1], x.strides[2]}};
}

/// `product` for the scalars that the kernel does not have too.
template <class Scalar>
void any_product(View<const Scalar, 2> a, View<const Scalar, 2> b, View<Scalar, 2> c, bool add) {
  if constexpr (std::is_floating_point_v<Scalar>) {
    product(a, b, c, add);
  } else {
    for (Index i = 0; i < c.shape[0]; ++i) {
      for (Index j = 0; j < c.shape[1]; ++j) {
        Scalar sum = add ? c(i, j) : Scalar(0);
        for (Index k = 0; k < a.shape[1]; ++k) sum += a(i, k) * b(k, j);
        c(i, j) = sum;
      }
    }
  }
}

/// out = w x: d_x += d_out w and d_w = d_out^T x.
template <class Scalar>
void project_backward(View<const Scalar, 3> d_out, View<const Scalar, 3> x, View<const Scalar, 2> w,
                      Tensor<Scalar, 3>& d_x, Tensor<Scalar, 2>& d_w) {
  Tensor<Scalar, 3> d_out_copy, x_copy;
  const auto d_out_rows = rows_of(d_out, d_out_copy);
  const auto x_rows = rows_of(x, x_copy);
  any_product<Scalar>(d_out_rows, w, {d_x.data(), x_rows.shape}, true);
  any_product<Scalar>(d_out_rows.transposed(0, 1), x_rows, d_w.view(), false);
}

}  // namespace

template <class Scalar>
Tensor<Scalar, 3> project(View<const Scalar, 3> x, View<const Scalar, 2> w) {
  Tensor<Scalar, 3> out({x.shape[0], x.shape[1], w.shape[0]}), x_copy;
  const auto x_rows = rows_of(x, x_copy);
  any_product<Scalar>(x_rows, w.transposed(0, 1), {out.data(), {x_rows.shape[0], w.shape[0]}},
                      false);
  return out;
}

HeadWeights draw_head_weights(Index model_dim, Index head_dim, Generator& generator) {
  HeadWeights weights;
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(model_dim)));
  for (Tensor<float, 2>* w : {&weights.key, &weights.query, &weights.value}) {
    *w = Tensor<float, 2>({head_dim, model_dim});
    generator.uniform({w->data(), {w->size()}}, -bound, bound);
  }
  return weights;
}

NamedArrays to_named_arrays(const HeadWeights& weights) {
  return {{"key.weight", weights.key},
          {"query.weight", weights.query},
          {"value.weight", weights.value}};
}

Result<HeadWeights> head_weights_from(const NamedArrays& arrays) {
  HeadWeights weights;
  const std::pair<const char*, Tensor<float, 2>*> wanted[] = {{"key.weight", &weights.key},
                                                              {"query.weight", &weights.query},
                                                              {"value.weight", &weights.value}};
  for (const auto& [name, tensor] : wanted) {
    const auto found = arrays.find(name);
    if (found == arrays.end()) {
      return Error{std::string("there is no tensor ") + name +
                   "; a head has key.weight, query.weight and value.weight"};
    }
    auto converted = to_tensor<float, 2>(found->second);
    if (!converted) {
      return Error{std::string(name) +
                   " must be float32 of shape [head_dim, model_dim]: " + converted.error().message};
    }
    *tensor = std::move(*converted);
    if (tensor->shape() != weights.key.shape()) {
      return Error{std::string(name) + " has another shape than key.weight"};
    }
  }
  for (const auto& [name, array] : arrays) {
    if (name != "tril" && name != "key.weight" && name != "query.weight" &&
        name != "value.weight") {
      return Error{"unknown tensor " + name +
                   "; a head has key.weight, query.weight and value.weight"};
    }
  }
  return weights;
}

template <class Scalar>
HeadStages<Scalar> head_forward(View<const Scalar, 3> x, View<const Scalar, 2> w_q,
                                View<const Scalar, 2> w_k, View<const Scalar, 2> w_v, bool causal) {
  HeadStages<Scalar> stages;
  stages.q = project(x, w_q);
  stages.k = project(x, w_k);
  stages.v = project(x, w_v);
  stages.attention = attention_reference(one_head(stages.q), one_head(stages.k), one_head(stages.v),
                                         options_for(causal));
  return stages;
}

template <class Scalar>
HeadGradients<Scalar> head_backward(const HeadStages<Scalar>& forward, View<const Scalar, 3> x,
                                    View<const Scalar, 2> w_q, View<const Scalar, 2> w_k,
                                    View<const Scalar, 2> w_v, View<const Scalar, 3> d_out,
                                    bool causal) {
  // out = attention(q, k, v)
  const auto d =
      attention_reference_backward(forward.attention, one_head(forward.q), one_head(forward.k),
                                   one_head(forward.v), d_out.with_axis(1), options_for(causal));
  HeadGradients<Scalar> gradients;
  gradients.d_x = Tensor<Scalar, 3>(x.shape);
  gradients.d_w_q = Tensor<Scalar, 2>(w_q.shape);
  gradients.d_w_k = Tensor<Scalar, 2>(w_k.shape);
  gradients.d_w_v = Tensor<Scalar, 2>(w_v.shape);
  // q = w_q x; k = w_k x; v = w_v x
  const auto d_q = drop_head_axis(d.d_q);
  const auto d_k = drop_head_axis(d.d_k);
  const auto d_v = drop_head_axis(d.d_v);
  project_backward<Scalar>(d_v, x, w_v, gradients.d_x, gradients.d_w_v);
  project_backward<Scalar>(d_k, x, w_k, gradients.d_x, gradients.d_w_k);
  project_backward<Scalar>(d_q, x, w_q, gradients.d_x, gradients.d_w_q);
  return gradients;
}

Head::Head(Index model_dim, Index head_dim, Index max_seq_len, Generator& generator, bool causal)
    : Head(draw_head_weights(model_dim, head_dim, generator), max_seq_len, causal) {}

Head::Head(HeadWeights weights, Index max_seq_len, bool causal)
    : weights_(std::move(weights)), max_seq_len_(max_seq_len), causal_(causal) {
  const Index model_dim = weights_.model_dim(), head_dim = weights_.head_dim();
  qkv_weights_ = Tensor<float, 2>({model_dim, 3 * head_dim});
  Index column = 0;
  for (const Tensor<float, 2>* w : {&weights_.query, &weights_.key, &weights_.value}) {
    for (Index o = 0; o < head_dim; ++o, ++column) {
      for (Index m = 0; m < model_dim; ++m) qkv_weights_(m, column) = (*w)(o, m);
    }
  }
}

std::optional<Error> Head::input_error(View<const float, 3> x) const {
  if (x.shape[1] > max_seq_len_) {
    return Error{"x has " + std::to_string(x.shape[1]) +
                 " positions, and this head takes at most " + std::to_string(max_seq_len_) +
                 " (max_seq_len)"};
  }
  if (x.shape[2] != weights_.model_dim()) {
    return Error{"x is " + std::to_string(x.shape[2]) + " wide, and this head takes vectors of " +
                 std::to_string(weights_.model_dim()) + " (model_dim)"};
  }
  return std::nullopt;
}

Result<Tensor<float, 3>> Head::operator()(View<const float, 3> x) {
  if (auto error = input_error(x)) return *error;
  const auto stages = head_forward<float>(x, weights_.query, weights_.key, weights_.value, causal_);
  A_ = drop_head_axis(stages.attention.A);
  return drop_head_axis(stages.attention.out);
}

Result<Tensor<float, 3>> Head::out(View<const float, 3> x) const {
  if (auto error = input_error(x)) return *error;
  const Index batch = x.shape[0], seq_len = x.shape[1], head_dim = weights_.head_dim();
  Tensor<float, 3> out({batch, seq_len, head_dim}), x_copy;
  const auto x_rows = rows_of(x, x_copy);
  const Index width = 3 * head_dim;
  const Workspace space(static_cast<std::size_t>(x_rows.shape[0] * width) * sizeof(float));
  float* const qkv = space.as<float>();
  product<float>(x_rows, qkv_weights_, {qkv, {x_rows.shape[0], width}});
  const auto part = [&](Index n) {
    const float* const first = x_rows.shape[0] == 0 ? nullptr : qkv + n * head_dim;
    return View<const float, 4>(first, {batch, 1, seq_len, head_dim},
                                {seq_len * width, 0, width, 1});
  };
  const Status status = attention_into<float>(part(0), part(1), part(2), options_for(causal_),
                                              out.view().with_axis(1), {});
  if (!status) return status.error();
  return out;
}

Tensor<float, 3> Embedding::operator()(View<const Index, 1> ids) const {
  Tensor<float, 3> out({1, ids.size(), table_.shape()[1]});
  for (Index t = 0; t < ids.size(); ++t) {
    const auto row = table_[ids(t)];
    std::copy(row.data, row.data + row.size(), out[0][t].data);
  }
  return out;
}

#define HEADPROOF_INSTANTIATE(Scalar)                                                           \
  template Tensor<Scalar, 3> project(View<const Scalar, 3>, View<const Scalar, 2>);             \
  template HeadStages<Scalar> head_forward(View<const Scalar, 3>, View<const Scalar, 2>,        \
                                           View<const Scalar, 2>, View<const Scalar, 2>, bool); \
  template HeadGradients<Scalar> head_backward(                                                 \
      const HeadStages<Scalar>&, View<const Scalar, 3>, View<const Scalar, 2>,                  \
      View<const Scalar, 2>, View<const Scalar, 2>, View<const Scalar, 3>, bool);
HEADPROOF_INSTANTIATE(float)
HEADPROOF_INSTANTIATE(double)
HEADPROOF_INSTANTIATE(std::complex<double>)
#undef HEADPROOF_INSTANTIATE

}  // namespace headproof
