// Strided views of numbers, and tensors that own them.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace headproof {

/// Sizes, strides and positions; signed and 64 bits wide, so that no product of sizes wraps.
using Index = std::int64_t;

/// A std::mdspan, or a type like it, that a View<T, Rank> can show: elements in memory, each where
/// its indices times the strides say. Needs no <mdspan>.
template <class M, class T, std::size_t Rank>
concept MdspanOf = requires(const M& span, std::size_t axis) {
  requires(Rank > 0 && M::rank() == Rank && M::is_always_strided());
  // An accessor that returns values of its own, such as scaled ones, has no elements to show.
  requires std::is_same_v<typename M::reference, typename M::element_type&>;
  requires std::is_convertible_v<typename M::element_type(*)[], T(*)[]>;
  { span.data_handle() } -> std::convertible_to<T*>;
  { span.extents().extent(axis) } -> std::integral;
  { span.stride(axis) } -> std::integral;
};

/// A non-owning view of `Rank` axes; `strides` count elements and may be any number, 0 included.
/// `View<const T, Rank>` promises not to write. A std::mdspan with the layout layout_right,
/// layout_left or layout_stride converts to it.
template <class T, std::size_t Rank>
struct View {
  T* data = nullptr;
  std::array<Index, Rank> shape{};
  std::array<Index, Rank> strides{};

  View() = default;
  View(T* first, std::array<Index, Rank> sizes, std::array<Index, Rank> steps)
      : data(first), shape(sizes), strides(steps) {}
  /// A dense row-major view.
  View(T* first, std::array<Index, Rank> sizes) : data(first), shape(sizes) {
    Index step = 1;
    for (std::size_t axis = Rank; axis-- > 0;) {
      strides[axis] = step;
      step *= std::max<Index>(sizes[axis], 1);
    }
  }
  /// A view that may write converts to one that may not.
  template <class U>
  requires(std::is_same_v<const U, T>)
      View(const View<U, Rank>& other)  // NOLINT(google-explicit-constructor)
      : data(other.data), shape(other.shape), strides(other.strides) {}
  template <MdspanOf<T, Rank> M>
  View(const M& span) : data(span.data_handle()) {  // NOLINT(google-explicit-constructor)
    for (std::size_t axis = 0; axis < Rank; ++axis) {
      shape[axis] = static_cast<Index>(span.extents().extent(axis));
      strides[axis] = static_cast<Index>(span.stride(axis));
    }
  }

  /// The element at a position, one index an axis; no bounds check.
  template <class... Indices>
  requires(sizeof...(Indices) == Rank) T& operator()(Indices... indices) const {
    const std::array<Index, Rank> at{static_cast<Index>(indices)...};
    Index offset = 0;
    for (std::size_t axis = 0; axis < Rank; ++axis) offset += at[axis] * strides[axis];
    return data[offset];
  }

  /// How many elements the view shows.
  Index size() const {
    Index count = 1;
    for (Index extent : shape) count *= extent;
    return count;
  }

  /// The sub-view at position `i` of the first axis.
  View<T, Rank - 1> operator[](Index i) const requires(Rank > 1) {
    View<T, Rank - 1> sub;
    if (data != nullptr) sub.data = data + i * strides[0];  // an empty tensor has no memory
    std::copy(shape.begin() + 1, shape.end(), sub.shape.begin());
    std::copy(strides.begin() + 1, strides.end(), sub.strides.begin());
    return sub;
  }

  /// The same elements with a new axis of size 1 before axis `axis` (0 .. Rank).
  View<T, Rank + 1> with_axis(std::size_t axis) const {
    View<T, Rank + 1> wider;
    wider.data = data;
    for (std::size_t to = 0, from = 0; to <= Rank; ++to) {
      wider.shape[to] = to == axis ? 1 : shape[from];
      wider.strides[to] = to == axis ? 0 : strides[from];
      if (to != axis) ++from;
    }
    return wider;
  }

  /// The same elements with two axes exchanged.
  View transposed(std::size_t a, std::size_t b) const {
    View other = *this;
    std::swap(other.shape[a], other.shape[b]);
    std::swap(other.strides[a], other.strides[b]);
    return other;
  }

  /// Calls `function(element)` for each element in row-major order of the logical indices.
  template <class Function>
  void for_each(Function&& function) const {
    if (size() == 0) return;
    std::array<Index, Rank> at{};
    for (;;) {
      Index offset = 0;
      for (std::size_t axis = 0; axis < Rank; ++axis) offset += at[axis] * strides[axis];
      function(data[offset]);
      std::size_t axis = Rank;
      while (axis-- > 0) {
        if (++at[axis] < shape[axis]) break;
        at[axis] = 0;
      }
      if (axis == static_cast<std::size_t>(-1)) return;
    }
  }
};

/// Memory for numbers, aligned to 64 bytes (a cache line, an AVX-512 vector).
template <class T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::align_val_t alignment{64};
  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}  // NOLINT(google-explicit-constructor)
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), alignment)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, alignment); }
  bool operator==(const AlignedAllocator&) const { return true; }
};

/// A dense row-major array of `Rank` axes that owns its elements; new elements are 0.
template <class T, std::size_t Rank>
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(std::array<Index, Rank> shape)
      : shape_(shape), values_(static_cast<std::size_t>(View<T, Rank>(nullptr, shape).size())) {}
  /// A dense copy of any view.
  explicit Tensor(View<const T, Rank> view) : shape_(view.shape) {
    values_.reserve(static_cast<std::size_t>(view.size()));
    view.for_each([this](const T& value) { values_.push_back(Element{value}); });
  }

  View<T, Rank> view() { return {data(), shape_}; }
  View<const T, Rank> view() const { return {data(), shape_}; }
  operator View<const T, Rank>() const { return view(); }  // NOLINT(google-explicit-constructor)

  template <class... Indices>
  T& operator()(Indices... indices) {
    return view()(indices...);
  }
  template <class... Indices>
  const T& operator()(Indices... indices) const {
    return view()(indices...);
  }
  View<T, Rank - 1> operator[](Index i) requires(Rank > 1) { return view()[i]; }
  View<const T, Rank - 1> operator[](Index i) const requires(Rank > 1) { return view()[i]; }

  const std::array<Index, Rank>& shape() const { return shape_; }
  Index size() const { return static_cast<Index>(values_.size()); }
  T* data() { return reinterpret_cast<T*>(values_.data()); }
  const T* data() const { return reinterpret_cast<const T*>(values_.data()); }
  T* begin() { return data(); }
  T* end() { return data() + size(); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }

 private:
  struct Bool {  // because std::vector<bool> packs bits
    bool value;
  };
  using Element = std::conditional_t<std::is_same_v<T, bool>, Bool, T>;

  std::array<Index, Rank> shape_{};
  std::vector<Element, AlignedAllocator<Element>> values_;
};

}  // namespace headproof
