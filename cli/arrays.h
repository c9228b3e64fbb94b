// What attend and conform share: arrays from files, and who computes.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "headproof/array.h"
#include "headproof/attention.h"

namespace headproof::cli {

/// An array, and NumPy's code of the elements that its file holds: "f2", "b1".
struct FileArray {
  Array array;
  std::string element;
};

/// Reads a .npy file; its array fits this machine's memory.
Result<FileArray> read_array(const std::string& file);

/// Why an array of this shape is too large for this machine; nothing when it fits. Every array is
/// held three times at least, as bytes, array and tensor, or as scores, logits and A. An axis
/// without elements counts as one with one: loops also run over what [2^50, 0] does not hold.
std::optional<Error> memory_error(const std::string& name, const std::vector<Index>& shape);

std::string shape_text(const std::vector<Index>& shape);

/// A mask for attention that owns its elements.
struct OwnedMask {
  std::array<Index, 4> shape{1, 1, 1, 1};
  std::variant<std::unique_ptr<bool[]>, std::unique_ptr<float[]>, std::unique_ptr<double[]>> values;

  Mask view() const;
};

/// The boolean or floating-point array of a file as a mask: axes of size 1 are put before its own
/// until there are four. A mask with fewer columns than `columns` forbids those that it lacks.
Result<OwnedMask> as_mask(const FileArray& file, const std::string& name, Index columns = 0);

/// The implementations by name.
inline const std::vector<std::string> implementations = {"reference", "canonical", "fused"};

/// What the implementation of this name gives.
template <class Scalar>
Result<AttentionOutput<Scalar>> attend_with(std::string_view implementation,
                                            View<const Scalar, 4> q, View<const Scalar, 4> k,
                                            View<const Scalar, 4> v,
                                            const AttentionOptions& options);

}  // namespace headproof::cli
