// Files that appear whole or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "headproof/result.h"

namespace headproof {

/// All bytes of a file; the error says "cannot read FILE: why".
Result<std::string> read_file(const std::filesystem::path& file);

/// Writes a set of files so that all of them appear or none does: each is written beside its final
/// place under a temporary name, and only `commit` renames them. What is not committed is removed.
class OutputFiles {
 public:
  OutputFiles() = default;
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;
  ~OutputFiles();

  /// Writes `bytes` for `file`, creating its folder when that is missing; the error says
  /// "cannot write FILE: why".
  Status add(const std::filesystem::path& file, std::string_view bytes);

  /// Lets every added file appear under its name, replacing one that stood there.
  Status commit();

 private:
  struct Staged {
    std::filesystem::path temporary, final;
  };
  std::vector<Staged> staged_;
  std::vector<std::filesystem::path> new_folders_;
};

}  // namespace headproof
