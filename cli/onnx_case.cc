#include "onnx_case.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "headproof/files.h"

namespace headproof::cli {
namespace {

using nlohmann::json;

const std::vector<std::string> input_names = {
    "Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"};
const std::vector<std::string> output_names = {"Y", "present_key", "present_value",
                                               "qk_matmul_output"};

/// A JSON value as one line of an error, without what would act on a terminal.
std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  constexpr std::size_t longest = 60;
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  return text;
}

/// Takes one attribute; the error is the rest of a sentence.
std::optional<std::string> take(OnnxAttributes& attributes, const std::string& name,
                                const json& value) {
  const auto number = [&](double& place, double lowest) -> std::optional<std::string> {
    if (value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() >= lowest) {
      place = value.get<double>();
      return std::nullopt;
    }
    return fmt::format("is {}; it must be a finite number{}", shown(value),
                       lowest == 0 ? " from 0 on" : "");
  };
  const auto whole = [&](Index& place, Index lowest, Index highest) -> std::optional<std::string> {
    const bool fits = value.is_number_unsigned()
                          ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(highest)
                          : value.is_number_integer() && value.get<Index>() <= highest;
    if (fits && value.get<Index>() >= lowest) {
      place = value.get<Index>();
      return std::nullopt;
    }
    return fmt::format("is {}; it must be a whole number from {} to {}", shown(value), lowest,
                       highest);
  };
  constexpr Index many = Index{1} << 40;
  if (name == "scale") return number(attributes.scale.emplace(), -HUGE_VAL);
  if (name == "softcap") return number(attributes.softcap, 0);
  if (name == "q_num_heads") return whole(attributes.q_num_heads, 1, many);
  if (name == "kv_num_heads") return whole(attributes.kv_num_heads, 1, many);
  if (name == "qk_matmul_output_mode") return whole(attributes.qk_matmul_output_mode, 0, 3);
  if (name == "left_window_size") return whole(attributes.left_window_size, -1, many);
  if (name == "right_window_size") return whole(attributes.right_window_size, -1, many);
  Index code = 0;
  if (name == "is_causal") {
    const auto why = whole(code, 0, 1);
    attributes.is_causal = code == 1;
    return why;
  }
  if (name == "softmax_precision") {
    // ONNX's codes of float, float16, double and bfloat16.
    if (const auto why = whole(code, 1, 16)) return why;
    if (code == 1 || code == 10 || code == 11 || code == 16) return std::nullopt;
    return fmt::format("is {}; it must be 1, 10, 11 or 16", code);
  }
  return "is no attribute of Attention that is known here";
}

/// The tensors of the slots in use, from the files that bear their names.
Result<std::map<std::string, FileArray>> read_slots(const std::filesystem::path& folder,
                                                    const json& document, const char* key,
                                                    const std::vector<std::string>& names) {
  const auto refuse = [&](const std::string& why) {
    return Error{fmt::format("{}: {} {}", (folder / "case.json").string(), key, why)};
  };
  const auto slots = document.find(key);
  if (slots == document.end() || !slots->is_array() || slots->size() > names.size()) {
    return refuse(fmt::format("must be a list of at most {} names", names.size()));
  }
  std::map<std::string, FileArray> tensors;
  for (std::size_t slot = 0; slot < slots->size(); ++slot) {
    const json& name = (*slots)[slot];
    if (name == "") continue;
    if (name != names[slot]) {
      return refuse(
          fmt::format("has {} in slot {}, the place of {}", shown(name), slot, names[slot]));
    }
    auto tensor = read_array((folder / (names[slot] + ".npy")).string());
    if (!tensor) return tensor.error();
    tensors.emplace(names[slot], std::move(*tensor));
  }
  return tensors;
}

}  // namespace

Result<OnnxCase> read_onnx_case(const std::filesystem::path& folder) {
  const std::string file = (folder / "case.json").string();
  const auto bytes = read_file(file);
  if (!bytes) return bytes.error();
  const json document = json::parse(*bytes, nullptr, false);
  if (!document.is_object()) return Error{"cannot read " + file + ": it is no JSON object"};
  const json opset = document.value("opset", json());
  if (opset != 23 && opset != 24 && opset != 25) {
    return Error{fmt::format("{}: opset is {}; 23, 24 and 25 are read", file, shown(opset))};
  }
  OnnxCase read;
  const json attributes = document.value("attributes", json());
  if (!attributes.is_object()) return Error{file + ": attributes must be an object"};
  for (const auto& [name, value] : attributes.items()) {
    if (const auto why = take(read.attributes, name, value)) {
      return Error{fmt::format("{}: the attribute {} {}", file, shown(name), *why)};
    }
  }
  auto inputs = read_slots(folder, document, "input_slots", input_names);
  if (!inputs) return inputs.error();
  auto outputs = read_slots(folder, document, "output_slots", output_names);
  if (!outputs) return outputs.error();
  read.inputs = std::move(*inputs);
  read.outputs = std::move(*outputs);
  for (const char* name : {"Q", "K", "V"}) {
    if (read.inputs.count(name) == 0) return Error{fmt::format("{}: {} is absent", file, name)};
  }
  if (read.outputs.empty()) return Error{file + ": no output is expected"};
  return read;
}

}  // namespace headproof::cli
