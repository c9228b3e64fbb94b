// headproof attend: attention of .npy files.

#include <fmt/core.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "arrays.h"
#include "command.h"
#include "headproof/attention.h"
#include "headproof/files.h"
#include "headproof/head.h"
#include "headproof/npy.h"

namespace headproof::cli {
namespace {

struct Options {
  std::string q, k, v, x, weights, d_out, out;
  std::string causal = "none", implementation = implementations.front();
  std::string mask, first_key, key_length;
  std::optional<double> scale;
  double softcap = 0;
  std::optional<Index> query_offset, window, window_right;
  bool A = false, lse = false;
};

std::string_view type_of(const Array& array) {
  return std::array{"float32", "float64", "integers"}[array.values.index()];
}

/// Rank 2 [seq_len, dim], 3 [batch, seq_len, dim] or 4 [batch, num_heads, seq_len, dim], as rank 4.
template <class Scalar>
Result<Tensor<Scalar, 4>> as_rank_4(Array array, const std::string& file) {
  const std::string shape = shape_text(array.shape);
  switch (array.shape.size()) {
    case 2:
      array.shape.insert(array.shape.begin(), {1, 1});
      break;
    case 3:
      array.shape.insert(array.shape.begin() + 1, 1);
      break;
    case 4:
      break;
    default:
      return Error{
          fmt::format("{} has shape {}; attend takes [seq_len, dim], [batch, seq_len, dim] "
                      "or [batch, num_heads, seq_len, dim]",
                      file, shape)};
  }
  auto tensor = to_tensor<Scalar, 4>(array);
  if (!tensor) return Error{file + ": " + tensor.error().message};
  return tensor;
}

/// A result as the rank that came in: the axes that as_rank_4 put there leave again.
Array with_rank(Array array, std::size_t rank) {
  if (rank == 2) array.shape.erase(array.shape.begin(), array.shape.begin() + 2);
  if (rank == 3) array.shape.erase(array.shape.begin() + 1);
  return array;
}

struct Inputs {
  Array q, k, v;
  std::string q_name, k_name, v_name;
};

Result<Inputs> project_inputs(const Options& options) {
  const auto arrays = read_safetensors(options.weights);
  if (!arrays) return arrays.error();
  const auto weights = head_weights_from(*arrays);
  if (!weights) return Error{options.weights + ": " + weights.error().message};
  if (weights->key.size() == 0) return Error{options.weights + ": the weights have no elements"};
  const auto file = read_array(options.x);
  if (!file) return file.error();
  Array x = file->array;
  const auto rank = x.shape.size();
  if (rank == 2) x.shape.insert(x.shape.begin(), 1);
  const auto tensor = to_tensor<float, 3>(x);
  if (!tensor || tensor->shape()[2] != weights->model_dim()) {
    return Error{
        fmt::format("{} must be float32 of shape [seq_len, {}] or [batch, seq_len, {}] for "
                    "these weights",
                    options.x, weights->model_dim(), weights->model_dim())};
  }
  const auto projected = [&](const Tensor<float, 2>& w) {
    Array array = project<float>(*tensor, w);
    if (rank == 2) array.shape.erase(array.shape.begin());
    return array;
  };
  return Inputs{projected(weights->query), projected(weights->key), projected(weights->value),
                options.x + " as q",       options.x + " as k",     options.x + " as v"};
}

Result<Inputs> read_inputs(const Options& options) {
  if (!options.x.empty()) return project_inputs(options);
  Inputs inputs{{}, {}, {}, options.q, options.k, options.v};
  for (const auto& [file, array] :
       {std::pair{&options.q, &inputs.q}, {&options.k, &inputs.k}, {&options.v, &inputs.v}}) {
    auto read = read_array(*file);
    if (!read) return read.error();
    *array = std::move(read->array);
    if (std::holds_alternative<std::vector<Index>>(array->values)) {
      return Error{*file + " holds integers; attend takes float16, float32 or float64"};
    }
    if (array->values.index() != inputs.q.values.index()) {
      return Error{fmt::format("{} holds {}, and {} {}; attend takes one type", *file,
                               type_of(*array), options.q, type_of(inputs.q))};
    }
    if (array->shape.size() != inputs.q.shape.size()) {
      return Error{fmt::format("{} has shape {}, and {} {}; attend takes as many axes of each",
                               *file, shape_text(array->shape), options.q,
                               shape_text(inputs.q.shape))};
    }
  }
  return inputs;
}

/// What the options view, read from files.
struct OptionFiles {
  std::optional<OwnedMask> mask;
  std::vector<Index> first_key, key_length;
};

Result<OptionFiles> read_option_files(const Options& options, std::size_t rank) {
  OptionFiles files;
  if (!options.mask.empty()) {
    auto file = read_array(options.mask);
    if (!file) return file.error();
    // Without an axis of heads in q there is none in a mask of as many axes.
    auto& shape = file->array.shape;
    if (rank == 3 && shape.size() == 3) shape.insert(shape.begin() + 1, 1);
    auto mask = as_mask(*file, options.mask);
    if (!mask) return mask.error();
    files.mask = std::move(*mask);
  }
  for (const auto& [name, numbers] : {std::pair{&options.first_key, &files.first_key},
                                      {&options.key_length, &files.key_length}}) {
    if (name->empty()) continue;
    const auto file = read_array(*name);
    if (!file) return file.error();
    const auto* integers = std::get_if<std::vector<Index>>(&file->array.values);
    if (integers == nullptr || file->array.shape.size() != 1 || integers->empty()) {
      return Error{fmt::format("{} must hold an integer for each sequence, shape [batch]", *name)};
    }
    *numbers = *integers;
  }
  return files;
}

AttentionOptions attention_options(const Options& options, const OptionFiles& files) {
  const auto view = [](const std::vector<Index>& numbers) {
    return View<const Index, 1>(numbers.data(), {static_cast<Index>(numbers.size())});
  };
  return {.causal = options.causal == "top_left"       ? Causal::top_left
                    : options.causal == "bottom_right" ? Causal::bottom_right
                                                       : Causal::none,
          .scale = options.scale,
          .query_offset = options.query_offset,
          .window = options.window,
          .window_right = options.window_right,
          .softcap = options.softcap,
          .mask = files.mask ? files.mask->view() : Mask(),
          .first_key = view(files.first_key),
          .key_length = view(files.key_length)};
}

template <class Scalar>
Result<std::vector<std::pair<std::string, Array>>> attend(const Options& options,
                                                          const Inputs& inputs) {
  const auto q = as_rank_4<Scalar>(inputs.q, inputs.q_name);
  if (!q) return q.error();
  const auto k = as_rank_4<Scalar>(inputs.k, inputs.k_name);
  if (!k) return k.error();
  const auto v = as_rank_4<Scalar>(inputs.v, inputs.v_name);
  if (!v) return v.error();
  const auto files = read_option_files(options, inputs.q.shape.size());
  if (!files) return files.error();
  const AttentionOptions how = attention_options(options, *files);
  if (auto error = attention_error(q->shape(), k->shape(), v->shape(), how)) return *error;
  const auto [batch, num_heads, seq_len_q, head_dim] = q->shape();
  const bool keeps_stages = options.implementation == "reference";
  if (keeps_stages) {
    if (auto error = memory_error("A", {batch, num_heads, seq_len_q, k->shape()[2]})) return *error;
  } else if (options.A) {
    return Error{"--A needs --implementation reference, which alone keeps A"};
  } else if (!options.d_out.empty() && options.implementation != "fused") {
    return Error{"--d-out needs --implementation reference or fused"};
  }
  if (auto error = memory_error("out", {batch, num_heads, seq_len_q, v->shape()[3]})) return *error;

  AttentionStages<Scalar> stages;  // of the reference
  AttentionOutput<Scalar> output;
  if (keeps_stages) {
    stages = attention_reference<Scalar>(*q, *k, *v, how);
    output = {stages.out, stages.lse};
  } else {
    auto seen = attend_with<Scalar>(options.implementation, *q, *k, *v, how);
    if (!seen) return seen.error();
    output = std::move(*seen);
  }
  const std::size_t rank = inputs.q.shape.size();
  std::vector<std::pair<std::string, Array>> results = {{"out", with_rank(output.out, rank)}};
  if (options.A) results.emplace_back("A", with_rank(stages.A, rank));
  if (options.lse) {
    Array lse = output.lse;  // [batch, num_heads, seq_len]: one axis less than the others
    if (rank == 2) lse.shape = {lse.shape[2]};
    if (rank == 3) lse.shape = {lse.shape[0], lse.shape[2]};
    results.emplace_back("lse", std::move(lse));
  }
  if (!options.d_out.empty()) {
    const auto file = read_array(options.d_out);
    if (!file) return file.error();
    const auto d_out = as_rank_4<Scalar>(file->array, options.d_out);
    if (!d_out) return d_out.error();
    if (file->array.shape != results.front().second.shape) {
      return Error{fmt::format("{} has shape {}, and out has {}", options.d_out,
                               shape_text(file->array.shape),
                               shape_text(results.front().second.shape))};
    }
    const Result<AttentionGradients<Scalar>> gradients =
        keeps_stages ? attention_reference_backward<Scalar>(stages, *q, *k, *v, *d_out, how)
                     : attention_backward<Scalar>(*q, *k, *v, output.out, output.lse, *d_out, how);
    if (!gradients) return gradients.error();
    results.emplace_back("d_q", with_rank(gradients->d_q, rank));
    results.emplace_back("d_k", with_rank(gradients->d_k, rank));
    results.emplace_back("d_v", with_rank(gradients->d_v, rank));
  }
  return results;
}

int run(const Options& options) {
  const auto given = [](const std::string& file) { return file.empty() ? 0 : 1; };
  const int of_attention = given(options.q) + given(options.k) + given(options.v);
  const int of_head = given(options.x) + given(options.weights);
  if (!(of_attention == 3 && of_head == 0) && !(of_attention == 0 && of_head == 2)) {
    return refuse("attend takes --q, --k and --v, or --x and --weights");
  }
  const auto inputs = read_inputs(options);
  if (!inputs) return refuse(inputs.error().message);
  const auto results = std::holds_alternative<std::vector<double>>(inputs->q.values)
                           ? attend<double>(options, *inputs)
                           : attend<float>(options, *inputs);
  if (!results) return refuse(results.error().message);

  OutputFiles files;
  std::string report;
  for (const auto& [name, array] : *results) {
    const auto file = std::filesystem::path(options.out) / (name + ".npy");
    if (const Status added = files.add(file, format_npy(array)); !added) {
      return refuse(added.error().message);
    }
    report += fmt::format("{}  {}\n", file.string(), shape_text(array.shape));
  }
  if (const Status done = files.commit(); !done) return refuse(done.error().message);
  print(stdout, report);
  return holds;
}

}  // namespace

void add_attend(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("attend", "attention of .npy files, written as .npy files");
  const auto options = std::make_shared<Options>();
  verb->add_option("--q", options->q,
                   "queries: [seq_len, dim], [batch, seq_len, dim] or "
                   "[batch, num_heads, seq_len, dim]");
  verb->add_option("--k", options->k, "keys, with as many axes");
  verb->add_option("--v", options->v, "values, with as many axes");
  verb->add_option("--x", options->x,
                   "instead of q, k and v: the input of a head, float32, "
                   "[seq_len, model_dim] or [batch, seq_len, model_dim]");
  verb->add_option("--weights", options->weights,
                   "its weights, .safetensors with key.weight, query.weight and value.weight");
  verb->add_option("--causal", options->causal, "the corner of the causal mask")
      ->check(CLI::IsMember({"none", "top_left", "bottom_right"}))
      ->capture_default_str();
  verb->add_option("--scale", options->scale, "multiplies q k^T; 1 / sqrt(head_dim) by default");
  verb->add_option("--softcap", options->softcap,
                   "makes scores softcap * tanh(scores / softcap); none by default");
  verb->add_option("--mask", options->mask,
                   "boolean (true = may attend) or added to the logits (-inf forbids): "
                   "[seq_len_q, seq_len_k], or with the axes of q before these; an axis of size 1 "
                   "stands for all");
  verb->add_option("--query-offset", options->query_offset,
                   "the position of query 0 among the keys, for --causal top_left and windows");
  verb->add_option("--window", options->window,
                   "of the keys up to its own position a query sees the last so many, its own "
                   "included");
  verb->add_option("--window-right", options->window_right,
                   "a query sees at most so many keys beyond its own position");
  verb->add_option("--first-key", options->first_key,
                   "integers [batch]: keys of a sequence before this one are padding");
  verb->add_option("--key-length", options->key_length,
                   "integers [batch]: keys of a sequence from this one on are padding");
  verb->add_option("--implementation", options->implementation,
                   "what computes: the definition, or (the same bits both) the canonical order "
                   "in plain and in fast code")
      ->check(CLI::IsMember(implementations))
      ->capture_default_str();
  verb->add_option("--out", options->out, "the folder for out.npy and what else is asked for")
      ->required();
  verb->add_flag("--A", options->A, "write A.npy too");
  verb->add_flag("--lse", options->lse, "write lse.npy too");
  verb->add_option("--d-out", options->d_out,
                   "gradient of out; writes d_q.npy, d_k.npy and d_v.npy");
  verb->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace headproof::cli
