#include "onnx_attention.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace headproof::cli {
namespace {

/// The float16 next to `x`, ties to even, as a float: a multiple of the spacing of its binade,
/// 2^-24 below 2^-14, infinite beyond 65504.
float rounded_to_half(float x) {
  if (!std::isfinite(x) || x == 0) return x;
  const float spacing = std::ldexp(1.0F, std::max(std::ilogb(x), -14) - 10);
  const float rounded = std::nearbyint(x / spacing) * spacing;
  if (std::fabs(rounded) <= 65504) return rounded;
  return std::copysign(std::numeric_limits<float>::infinity(), x);
}

/// The inputs with four axes, keys and values with the past before them.
template <class Scalar>
struct Problem {
  Tensor<Scalar, 4> q, k, v;
  AttentionOptions options;       ///< what all sequences of the batch have in common
  std::vector<Index> lengths;     ///< of the sequences, or empty
  Index past = 0;                 ///< keys that came before the queries
  std::optional<OwnedMask> mask;  ///< what options.mask views
};

/// [batch, num_heads, seq_len, dim] of an input that is it, or [batch, seq_len, num_heads * dim].
template <class Scalar>
Result<Tensor<Scalar, 4>> with_heads(const OnnxCase& problem, const std::string& name,
                                     Index num_heads) {
  const Array& array = problem.inputs.at(name).array;
  const std::string described = name + " with shape " + shape_text(array.shape);
  const auto* values = std::get_if<std::vector<Scalar>>(&array.values);
  if (values == nullptr) return Error{name + " must have the element type of Q, a floating one"};
  if (array.shape.size() == 4) {
    if (num_heads != 0 && array.shape[1] != num_heads) {
      return Error{fmt::format("{} has not the {} heads of the attributes", described, num_heads)};
    }
    return to_tensor<Scalar, 4>(array);
  }
  if (array.shape.size() != 3) return Error{described + " must have 3 or 4 axes"};
  const Index batch = array.shape[0], seq_len = array.shape[1], width = array.shape[2];
  if (num_heads == 0) return Error{described + " needs the attributes q_num_heads, kv_num_heads"};
  if (width % num_heads != 0) {
    return Error{fmt::format("{} cannot be split into {} heads", described, num_heads)};
  }
  const Index dim = width / num_heads;
  const View<const Scalar, 4> in_place(values->data(), {batch, seq_len, num_heads, dim});
  return Tensor<Scalar, 4>(in_place.transposed(1, 2));
}

/// The past, if there is one, and then the present along the axis of keys.
template <class Scalar>
Result<Tensor<Scalar, 4>> after_past(const OnnxCase& problem, const std::string& past_name,
                                     Tensor<Scalar, 4> present) {
  const auto found = problem.inputs.find(past_name);
  if (found == problem.inputs.end()) return present;
  auto past = to_tensor<Scalar, 4>(found->second.array);
  if (!past) return Error{past_name + ": " + past.error().message};
  auto shape = present.shape();
  for (const std::size_t axis : {0U, 1U, 3U}) {
    if (past->shape()[axis] != shape[axis]) {
      return Error{fmt::format(
          "{} has shape {}, which does not fit the {} heads of {} of the keys "
          "or values that follow it, in batches of {}",
          past_name, shape_text(found->second.array.shape), shape[1], shape[3], shape[0])};
    }
  }
  const Index past_len = past->shape()[2];
  shape[2] += past_len;
  Tensor<Scalar, 4> all(shape);
  for (Index b = 0; b < shape[0]; ++b) {
    for (Index h = 0; h < shape[1]; ++h) {
      auto* place = all.data() + (b * shape[1] + h) * shape[2] * shape[3];
      const auto append = [&place](View<const Scalar, 2> rows) {
        rows.for_each([&place](const Scalar& value) { *place++ = value; });
      };
      append(std::as_const(*past)[b][h]);
      append(std::as_const(present)[b][h]);
    }
  }
  return all;
}

/// nonpad_kv_seqlen, or nothing when it is absent.
Result<std::vector<Index>> read_lengths(const OnnxCase& problem, Index batch, Index seq_len_k) {
  const auto found = problem.inputs.find("nonpad_kv_seqlen");
  if (found == problem.inputs.end()) return std::vector<Index>();
  const Array& array = found->second.array;
  const auto* lengths = std::get_if<std::vector<Index>>(&array.values);
  if (lengths == nullptr || array.shape != std::vector<Index>{batch}) {
    return Error{fmt::format("nonpad_kv_seqlen must hold integers of shape [{}], and has shape {}",
                             batch, shape_text(array.shape))};
  }
  for (const Index length : *lengths) {
    if (length < 0 || length > seq_len_k) {
      return Error{
          fmt::format("nonpad_kv_seqlen holds {}; it must be from 0 to the number of keys, {}",
                      length, seq_len_k)};
    }
  }
  return *lengths;
}

template <class Scalar>
Result<Problem<Scalar>> as_problem(const OnnxCase& onnx) {
  const auto has = [&](const char* name) { return onnx.inputs.count(name) > 0; };
  if (has("past_key") != has("past_value")) return Error{"past_key and past_value go together"};
  if (has("past_key") && has("nonpad_kv_seqlen")) {
    return Error{"past_key and nonpad_kv_seqlen both say where the cache ends; one of them may"};
  }
  const auto& attributes = onnx.attributes;
  auto q = with_heads<Scalar>(onnx, "Q", attributes.q_num_heads);
  if (!q) return q.error();
  auto new_k = with_heads<Scalar>(onnx, "K", attributes.kv_num_heads);
  if (!new_k) return new_k.error();
  auto new_v = with_heads<Scalar>(onnx, "V", attributes.kv_num_heads);
  if (!new_v) return new_v.error();
  const Index new_keys = new_k->shape()[2];
  auto k = after_past<Scalar>(onnx, "past_key", std::move(*new_k));
  if (!k) return k.error();
  auto v = after_past<Scalar>(onnx, "past_value", std::move(*new_v));
  if (!v) return v.error();

  Problem<Scalar> problem{std::move(*q), std::move(*k), std::move(*v), {}, {}, 0, {}};
  problem.past = problem.k.shape()[2] - new_keys;
  auto lengths = read_lengths(onnx, problem.k.shape()[0], problem.k.shape()[2]);
  if (!lengths) return lengths.error();
  problem.lengths = std::move(*lengths);
  AttentionOptions& options = problem.options;
  if (attributes.is_causal) options.causal = Causal::top_left;  // with the offset of each sequence
  options.scale = attributes.scale;
  options.softcap = attributes.softcap;
  // ONNX counts the keys beside the query's own; a window counts that one too.
  if (attributes.left_window_size >= 0) options.window = attributes.left_window_size + 1;
  if (attributes.right_window_size >= 0) options.window_right = attributes.right_window_size;
  if (has("attn_mask")) {
    auto mask = as_mask(onnx.inputs.at("attn_mask"), "attn_mask", problem.k.shape()[2]);
    if (!mask) return mask.error();
    problem.mask = std::move(*mask);
    options.mask = problem.mask->view();
  }
  const auto &q_shape = problem.q.shape(), &k_shape = problem.k.shape();
  if (auto error = attention_error(q_shape, k_shape, problem.v.shape(), options)) return *error;
  if (auto error = memory_error("A", {q_shape[0], q_shape[1], q_shape[2], k_shape[2]})) {
    return *error;
  }
  return problem;
}

/// One position of an axis, which stays as an axis of size 1.
template <class T>
View<T, 4> only(View<T, 4> view, std::size_t axis, Index position) {
  view.data += position * view.strides[axis];
  view.shape[axis] = 1;
  return view;
}

/// The same of a mask, one position of which may stand for all.
Mask only(const Mask& mask, std::size_t axis, Index position) {
  return std::visit(
      [&](const auto& view) -> Mask {
        if constexpr (!std::is_same_v<decltype(view), const std::monostate&>) {
          if (view.shape[axis] != 1) return only(view, axis, position);
        }
        return view;
      },
      mask);
}

/// The options of one sequence of the batch.
template <class Scalar>
AttentionOptions options_of(const Problem<Scalar>& problem, Index b) {
  AttentionOptions options = problem.options;
  options.mask = only(options.mask, 0, b);
  options.query_offset = problem.past;
  if (!problem.lengths.empty()) {
    options.key_length = {&problem.lengths[static_cast<std::size_t>(b)], {1}};
    options.query_offset = options.key_length(0) - problem.q.shape()[2];
  }
  return options;
}

/// The logits of one sequence, one key after the other: a row that sees one key has its logit as
/// lse. (One that is infinite by its own value shows as NaN.)
template <class Scalar>
Result<Tensor<Scalar, 4>> logits_by_lse(std::string_view implementation, View<const Scalar, 4> q,
                                        View<const Scalar, 4> k, const AttentionOptions& options) {
  Tensor<Scalar, 4> logits({1, q.shape[1], q.shape[2], k.shape[2]});
  for (Index j = 0; j < k.shape[2]; ++j) {
    AttentionOptions of_key = options;
    of_key.query_offset = options.query_offset.value_or(0) - j;
    of_key.mask = only(options.mask, 3, j);
    const Index length = options.key_length.size() == 0 || j < options.key_length(0) ? 1 : 0;
    of_key.key_length = {&length, {1}};
    const auto key = only(k, 2, j);
    const auto seen = attend_with<Scalar>(implementation, q, key, key, of_key);
    if (!seen) return seen.error();
    const Scalar* lse = seen->lse.data();
    only(logits.view(), 3, j).for_each([&lse](Scalar& logit) { logit = *lse++; });
  }
  return logits;
}

/// The weights of one sequence: what comes out where each key's value is a row of the identity.
template <class Scalar>
Result<Tensor<Scalar, 4>> weights_by_identity(std::string_view implementation,
                                              View<const Scalar, 4> q, View<const Scalar, 4> k,
                                              const AttentionOptions& options) {
  const Index seq_len_k = k.shape[2];
  Tensor<Scalar, 2> identity({seq_len_k, seq_len_k});
  for (Index j = 0; j < seq_len_k; ++j) identity(j, j) = 1;
  const View<const Scalar, 4> values(identity.data(), {1, k.shape[1], seq_len_k, seq_len_k},
                                     {0, 0, seq_len_k, 1});
  auto seen = attend_with<Scalar>(implementation, q, k, values, options);
  if (!seen) return seen.error();
  return std::move(seen->out);
}

/// What `qk_matmul_output` means in this mode: 0 scaled scores, 1 after the softcap, 2 after the
/// mask, 3 the weights.
template <class Scalar>
Result<Tensor<Scalar, 4>> stage_of(Index mode, std::string_view implementation,
                                   View<const Scalar, 4> q, View<const Scalar, 4> k,
                                   const AttentionOptions& options) {
  if (mode == 3) return weights_by_identity(implementation, q, k, options);
  if (mode == 2) return logits_by_lse(implementation, q, k, options);
  return logits_by_lse(implementation, q, k,
                       {.scale = options.scale, .softcap = mode == 1 ? options.softcap : 0});
}

template <class Scalar>
Result<std::map<std::string, Array>> run(const OnnxCase& onnx, std::string_view implementation) {
  const auto problem = as_problem<Scalar>(onnx);
  if (!problem) return problem.error();
  const auto [batch, num_heads, seq_len_q, head_dim] = problem->q.shape();
  const Index seq_len_k = problem->k.shape()[2], value_dim = problem->v.shape()[3];
  const bool staged = onnx.outputs.count("qk_matmul_output") > 0;
  Tensor<Scalar, 4> out({batch, num_heads, seq_len_q, value_dim});
  Tensor<Scalar, 4> stage({staged ? batch : 0, num_heads, seq_len_q, seq_len_k});
  for (Index b = 0; b < batch; ++b) {
    const auto sequence = [b](const Tensor<Scalar, 4>& all) { return only(all.view(), 0, b); };
    const auto append = [b](const Tensor<Scalar, 4>& from, Tensor<Scalar, 4>& to) {
      std::copy(from.begin(), from.end(), to.begin() + b * from.size());
    };
    const auto q = sequence(problem->q), k = sequence(problem->k), v = sequence(problem->v);
    const AttentionOptions options = options_of(*problem, b);
    const auto seen = attend_with<Scalar>(implementation, q, k, v, options);
    if (!seen) return seen.error();
    append(seen->out, out);
    if (!staged) continue;
    const auto of_sequence =
        stage_of<Scalar>(onnx.attributes.qk_matmul_output_mode, implementation, q, k, options);
    if (!of_sequence) return of_sequence.error();
    append(*of_sequence, stage);
  }
  std::map<std::string, Array> outputs = {{"Y", out},
                                          {"present_key", problem->k},
                                          {"present_value", problem->v},
                                          {"qk_matmul_output", stage}};
  if (onnx.inputs.at("Q").array.shape.size() == 3) {
    outputs["Y"] = Tensor<Scalar, 4>(std::as_const(out).view().transposed(1, 2));
    outputs["Y"].shape = {batch, seq_len_q, num_heads * value_dim};
  }
  return outputs;
}

}  // namespace

Result<std::map<std::string, Array>> onnx_attention(const OnnxCase& problem,
                                                    std::string_view implementation) {
  const auto& q = problem.inputs.at("Q").array.values;
  auto outputs = std::holds_alternative<std::vector<double>>(q)
                     ? run<double>(problem, implementation)
                     : run<float>(problem, implementation);
  if (!outputs) return outputs;
  for (const auto& [name, expected] : problem.outputs) {
    auto* floats = std::get_if<std::vector<float>>(&outputs->at(name).values);
    if (expected.element == "f2" && floats != nullptr) {
      std::transform(floats->begin(), floats->end(), floats->begin(), rounded_to_half);
    }
  }
  return outputs;
}

}  // namespace headproof::cli
