// Arrays as files know them: the number of axes and the type of the elements are found at run time.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <variant>
#include <vector>

#include "headproof/result.h"
#include "headproof/tensor.h"

namespace headproof {

/// A dense row-major array whose rank and element type are known at run time only.
/// float16 and bfloat16 files are widened to float, integer and boolean ones to int64.
struct Array {
  std::vector<Index> shape;
  std::variant<std::vector<float>, std::vector<double>, std::vector<Index>> values;

  Array() = default;
  template <class T, std::size_t Rank>
  Array(const Tensor<T, Rank>& tensor)  // NOLINT(google-explicit-constructor)
      : shape(tensor.shape().begin(), tensor.shape().end()),
        values(std::vector<T>(tensor.begin(), tensor.end())) {}

  bool operator==(const Array&) const = default;
};

/// `array` as a tensor of `Rank` axes; the error says so when its rank or its element type is
/// another one.
template <class T, std::size_t Rank>
Result<Tensor<T, Rank>> to_tensor(const Array& array) {
  if (array.shape.size() != Rank) {
    return Error{"expected an array of rank " + std::to_string(Rank) + ", not " +
                 std::to_string(array.shape.size())};
  }
  const auto* values = std::get_if<std::vector<T>>(&array.values);
  if (values == nullptr) {
    const std::array<std::string, 3> names{"float32", "float64", "integer"};
    const std::size_t expected = decltype(Array::values)(std::vector<T>()).index();
    return Error{"expected " + names[expected] + " elements, not " + names[array.values.index()]};
  }
  std::array<Index, Rank> shape{};
  for (std::size_t axis = 0; axis < Rank; ++axis) shape[axis] = array.shape[axis];
  Tensor<T, Rank> tensor(shape);
  std::copy(values->begin(), values->end(), tensor.begin());
  return tensor;
}

}  // namespace headproof
