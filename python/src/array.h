// Arrays of Python: read in place, whoever made them, and results of the caller's kind.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "headproof/tensor.h"

namespace headproof::python {

namespace nb = nanobind;

/// Raises `ValueError` or `TypeError` with one sentence.
[[noreturn]] void raise_value_error(const std::string& sentence);
[[noreturn]] void raise_type_error(const std::string& sentence);

/// "builtins.list"
std::string kind_of(nb::handle object);

enum class Element { float16, bfloat16, float32, float64, boolean, int32, int64, other };

/// "float32"; not for `other`.
const char* name_of(Element element);

/// Whose arrays these are. What is none of the three is answered with NumPy's.
enum class Maker { numpy, torch, jax };

inline constexpr int most_axes = 16;

/// Sizes or strides of an array.
struct Axes {
  int rank = 0;
  std::array<Index, most_axes> sizes{};

  Index operator[](int axis) const { return sizes[static_cast<std::size_t>(axis)]; }
  Index& operator[](int axis) { return sizes[static_cast<std::size_t>(axis)]; }
  Index count() const;
  /// Whether `count` is at most 2^48, more than any memory holds: views that repeat elements can
  /// have sizes whose product is none.
  bool is_countable() const;
  std::string text() const;  ///< "[2, 3]"
  bool operator==(const Axes& other) const {
    return rank == other.rank &&
           std::equal(sizes.begin(), sizes.begin() + rank, other.sizes.begin());
  }
};

/// Looks NumPy up, before anything else here is used: while the module is imported, when no other
/// thread can be about to do the same.
void prepare_arrays();

/// An array that a caller handed over, in its own memory and with its own strides: by the buffer
/// protocol, else by DLPack. It stays exported while this lives, which needs the GIL to end.
class Input {
 public:
  /// `name` is the argument's, for errors: no array, not on the CPU, too many axes or elements,
  /// bytes in another order, numbers that lie unaligned, a tensor that requires grad.
  Input(const char* name, nb::handle object);
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  ~Input();

  const char* name() const { return name_; }
  Element element() const { return element_; }
  Maker maker() const { return maker_; }
  nb::handle object() const { return object_; }
  /// What the caller's library calls the elements: "float32".
  std::string element_name() const;
  const Axes& shape() const { return shape_; }
  const Axes& strides() const { return strides_; }  ///< in elements
  const void* data() const { return data_; }

  /// Replaces 16-bit numbers by floats in memory of its own; needs no GIL.
  void widen();
  /// The elements in row-major order, integers widened.
  std::vector<Index> integers() const;

 private:
  bool take_buffer();
  void take_dlpack();
  void check() const;

  const char* name_;
  nb::handle object_;
  Maker maker_ = Maker::numpy;
  Element element_ = Element::other;
  std::string other_name_;
  const void* data_ = nullptr;
  Axes shape_, strides_;
  bool big_endian_ = false, odd_strides_ = false;
  Py_buffer buffer_{};
  nb::object viewed_;           // what `buffer_` is of, where that is not the object itself
  nb::ndarray<nb::ro> tensor_;  // what came by DLPack
  std::vector<float> widened_;
};

/// A dense row-major array for a result, made by the library whose arrays came in.
class Output {
 public:
  /// `like` says whose array it is to be, and for NumPy's bfloat16 which dtype is meant.
  Output(const Input& like, Element element, const Axes& shape);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output();

  const Axes& shape() const { return shape_; }
  /// Where the numbers go: floats where the elements are 16 bits wide.
  void* numbers() const { return narrowed_.empty() ? data_ : const_cast<float*>(narrowed_.data()); }
  /// Rounds the floats to 16 bits where the elements are so; needs no GIL.
  void finish();
  /// The array for the caller, once the numbers are there.
  nb::object take();

 private:
  Maker maker_;
  Element element_;
  Axes shape_;
  void* data_ = nullptr;
  std::vector<float> narrowed_;
  nb::object array_;  // NumPy's, or what owns the memory
  Py_buffer buffer_{};
};

/// A dense NumPy array of its own for a tensor of the library's.
nb::object to_numpy(const void* data, Element element, const Axes& shape);
template <class T, std::size_t Rank>
nb::object to_numpy(const Tensor<T, Rank>& tensor) {
  Axes shape;
  shape.rank = static_cast<int>(Rank);
  std::copy(tensor.shape().begin(), tensor.shape().end(), shape.sizes.begin());
  constexpr Element element = std::is_same_v<T, float>    ? Element::float32
                              : std::is_same_v<T, double> ? Element::float64
                                                          : Element::int64;
  return to_numpy(tensor.data(), element, shape);
}

/// The array as a view of `Rank` axes; raises when it has not these or not this type.
template <class T, std::size_t Rank>
View<const T, Rank> view_of(const Input& input, const char* shape_text) {
  constexpr Element element = std::is_same_v<T, float> ? Element::float32 : Element::float64;
  if (input.shape().rank != static_cast<int>(Rank)) {
    raise_value_error(std::string(input.name()) + " has shape " + input.shape().text() +
                      "; it must be " + shape_text);
  }
  if (input.element() != element) {
    raise_type_error(std::string(input.name()) + " holds " + input.element_name() +
                     "; it must hold " + (element == Element::float32 ? "float32" : "float64"));
  }
  View<const T, Rank> view;
  view.data = static_cast<const T*>(input.data());
  std::copy_n(input.shape().sizes.begin(), Rank, view.shape.begin());
  std::copy_n(input.strides().sizes.begin(), Rank, view.strides.begin());
  return view;
}

}  // namespace headproof::python
