// A conformance case of the ONNX operator Attention, as a folder holds it.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "arrays.h"

namespace headproof::cli {

/// The operator's attributes with their defaults. `softmax_precision` is checked and then left
/// alone: it asks for no less than the precision of the inputs, in which everything is computed.
struct OnnxAttributes {
  bool is_causal = false;
  std::optional<double> scale;
  double softcap = 0;
  Index q_num_heads = 0, kv_num_heads = 0;  ///< 0: absent
  Index qk_matmul_output_mode = 0;
  Index left_window_size = -1, right_window_size = -1;  ///< -1: unbounded
};

/// Inputs and expected outputs by the operator's names for them: Q, K, V, attn_mask, past_key,
/// past_value, nonpad_kv_seqlen; Y, present_key, present_value, qk_matmul_output.
struct OnnxCase {
  OnnxAttributes attributes;
  std::map<std::string, FileArray> inputs, outputs;
};

/// Reads case.json (`opset` 23 to 25, `attributes`, `input_slots` and `output_slots`, where an
/// empty slot is an absent tensor) and a .npy file for each tensor. The error names the file and
/// what in it is wrong; an attribute that is unknown is an error.
Result<OnnxCase> read_onnx_case(const std::filesystem::path& folder);

}  // namespace headproof::cli
