// Memory that a library is handed: numbers of its dtype, between zones that it must not touch.
#pragma once

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "headproof/tensor.h"

namespace headproof {

/// The bytes of a number of an enum headproof_dtype.
Index size_of(int dtype);
/// Writes a number as that dtype; `value` is one that the dtype represents, so that nothing is
/// rounded.
void store(double value, int dtype, unsigned char* place);
double load(int dtype, const unsigned char* place);

/// Whether the heads of each batch element are equal, so that inputs that lie strided hold them
/// once, as a stride of 0.
bool heads_are_equal(const Tensor<float, 4>& tensor);

/// Memory for a tensor between guard zones. Everything is NaN until it is written: numbers that a
/// subject leaves out, and those that it reads beyond the ends, show.
class Guarded {
 public:
  /// A tensor of that shape, [batch, heads, rows, channels]; `heads_inside`: in memory
  /// [batch, rows, heads, channels]; `gap`: so many numbers behind each row are no part of it;
  /// `apart`: nor is one behind each channel, and the last channel comes first; `one_head`: all
  /// heads are the same memory.
  Guarded(std::string name, const std::array<Index, 4>& shape, int dtype, bool heads_inside,
          Index gap, bool apart = false, bool one_head = false);

  void* data() { return bytes_.data() + zone_ + offset_; }
  const std::array<Index, 4>& strides() const { return strides_; }

  template <class T>
  void fill(const Tensor<T, 4>& tensor) {
    auto from = tensor.begin();
    for_each([&](unsigned char* place) { store(static_cast<double>(*from++), dtype_, place); });
    before_ = {bytes_.begin(), bytes_.end()};
  }

  Tensor<double, 4> tensor() {
    Tensor<double, 4> tensor(shape_);
    auto to = tensor.begin();
    for_each([&](const unsigned char* place) { *to++ = load(dtype_, place); });
    return tensor;
  }

  /// Whether what `fill` wrote has changed.
  bool changed() const { return std::memcmp(before_.data(), bytes_.data(), bytes_.size()) != 0; }

  /// What was written beyond the ends, as a sentence.
  std::optional<std::string> trespass() const;

 private:
  static constexpr unsigned char blank = 0xFF;

  template <class Visit>
  void for_each(Visit&& visit) {
    const Index element = size_of(dtype_);
    std::array<Index, 4> strides = strides_;
    for (Index& stride : strides) stride *= element;
    const View<unsigned char, 4> view(static_cast<unsigned char*>(data()), shape_, strides);
    view.for_each([&](unsigned char& first) { visit(&first); });
  }

  std::array<Index, 4> shape_, strides_{};
  int dtype_;
  std::string name_;
  Index zone_ = 0, size_ = 0, offset_ = 0;
  std::vector<unsigned char, AlignedAllocator<unsigned char>> bytes_;
  std::vector<unsigned char> before_;
};

}  // namespace headproof
