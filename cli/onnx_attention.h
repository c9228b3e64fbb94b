// The ONNX operator Attention, opset 23 to 25, by any of the implementations.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "onnx_case.h"

namespace headproof::cli {

/// The outputs that the case expects, as the implementation makes them: an implementation gives out
/// and lse, and its stages are seen through them. With one key alone a row's lse is its logit, and
/// with the columns of the identity as values out is the weights. float16 is widened at the door;
/// outputs that the case holds in float16 are rounded to it. The error says which input does not
/// fit.
Result<std::map<std::string, Array>> onnx_attention(const OnnxCase& problem,
                                                    std::string_view implementation);

}  // namespace headproof::cli
