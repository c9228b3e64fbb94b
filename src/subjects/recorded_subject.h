// Attention that was computed elsewhere and kept in files.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "headproof/attention_subject.h"
#include "headproof/result.h"

namespace headproof {

/// What problem.json says.
struct RecordedOptions {
  Causal causal = Causal::none;
  std::optional<double> scale;
  Dtype dtype = Dtype::float32;
};
/// The error is the rest of a sentence that begins with the file's name.
Result<RecordedOptions> parse_recorded_options(std::string_view json);

/// A folder with q, k, v, out and perhaps A as .npy and with problem.json: a subject that answers
/// this one question. The error names the file and what is wrong with it.
Result<std::unique_ptr<AttentionSubject>> recorded_subject(const std::filesystem::path& folder);

}  // namespace headproof
