// How arrays of 2, 3, 4 or more axes become the kernel's [batch, num_heads, seq_len, dim].
#pragma once

#include "array.h"

namespace headproof::python {

/// Numbers in memory, by sizes and strides.
struct Strided {
  const void* data;
  Axes shape, strides;

  Strided(const Input& input)  // NOLINT(google-explicit-constructor)
      : data(input.data()), shape(input.shape()), strides(input.strides()) {}
  /// Dense and row-major.
  Strided(const void* first, const Axes& sizes);
};

/// The axes of query, key and value before the last two, which broadcast as NumPy's do. Of [...,
/// batch, num_heads, seq_len, dim] those before the batch are gone through call by call. Three axes
/// are [batch, seq_len, dim], or [num_heads, seq_len, dim] where heads are grouped.
class Frame {
 public:
  /// Raises where shapes do not fit, with the names of the arguments. `grouped`: the heads of key
  /// and value, which are as many, divide those of query, and do not broadcast.
  Frame(const Input& query, const Input& key, const Input& value, bool grouped);

  Index calls() const { return calls_; }
  Index batch() const { return size_of(batch_axis_); }
  /// What comes out has these axes and then its last ones.
  const Axes& leading() const { return leading_; }
  Axes with_last(std::initializer_list<Index> last) const;
  /// Whether an axis of the array stands for several, or for one that it lacks.
  bool spreads(const Input& input) const;

  /// Query, key or value in one of the calls, spread over what it broadcasts to.
  template <class T>
  View<const T, 4> input(const Strided& array, Index call) const {
    auto view = seen<const T, 4>(array, call);
    spread(view, 0, size_of(batch_axis_));
    if (!grouped_) spread(view, 1, size_of(heads_axis_));
    return view;
  }
  /// A mask, whose axes of size 1 stay so.
  template <class T>
  View<const T, 4> mask(const Strided& array, Index call) const {
    return seen<const T, 4>(array, call);
  }
  /// A result of all leading axes; Rank - 2 axes follow them.
  template <class T, std::size_t Rank>
  View<T, Rank> output(const Strided& array, Index call) const {
    return seen<T, Rank>(array, call);
  }

 private:
  Index size_of(int axis) const { return axis < 0 ? 1 : leading_[axis]; }

  template <class View>
  static void spread(View& view, std::size_t axis, Index size) {
    if (view.shape[axis] != 1) return;
    view.shape[axis] = size;
    view.strides[axis] = 0;
  }

  template <class T, std::size_t Rank>
  View<T, Rank> seen(const Strided& array, Index call) const {
    constexpr int last = static_cast<int>(Rank) - 2;
    // Axis a of the leading ones is axis a - missing of the array.
    const int missing = leading_.rank - (array.shape.rank - last);
    View<T, Rank> view;
    view.data = static_cast<T*>(const_cast<void*>(array.data));
    const auto place = [&](std::size_t to, int axis) {
      const bool there = axis >= 0 && axis >= missing;
      view.shape[to] = there ? array.shape[axis - missing] : 1;
      view.strides[to] = there ? array.strides[axis - missing] : 0;
    };
    place(0, batch_axis_);
    place(1, heads_axis_);
    for (int axis = 0; axis < last; ++axis) {
      const int from = array.shape.rank - last + axis;
      view.shape[static_cast<std::size_t>(2 + axis)] = array.shape[from];
      view.strides[static_cast<std::size_t>(2 + axis)] = array.strides[from];
    }
    for (int axis = batch_axis_ - 1; axis >= 0; --axis) {  // where this call is
      const Index at = call % leading_[axis];
      call /= leading_[axis];
      if (axis >= missing && array.shape[axis - missing] > 1) {
        view.data += at * array.strides[axis - missing];
      }
    }
    return view;
  }

  bool grouped_;
  Axes leading_;
  int batch_axis_ = -1, heads_axis_ = -1;  // among the leading ones; -1: there is none
  Index calls_ = 1;
};

}  // namespace headproof::python
