#include "headproof/tensor.h"

#include <gtest/gtest.h>

#include <numeric>

#include "headproof/array.h"

namespace headproof {
namespace {

template <class T, std::size_t Rank>
std::vector<std::remove_const_t<T>> elements(View<T, Rank> view) {
  std::vector<std::remove_const_t<T>> seen;
  view.for_each([&seen](const T& value) { seen.push_back(value); });
  return seen;
}

/// 0, 1, 2, ... in row-major order.
template <std::size_t Rank>
Tensor<int, Rank> counted(std::array<Index, Rank> shape) {
  Tensor<int, Rank> tensor(shape);
  std::iota(tensor.begin(), tensor.end(), 0);
  return tensor;
}

using Ints = std::vector<int>;

TEST(View, DenseStridesAreRowMajor) {
  Ints numbers(30);
  const View<int, 3> view(numbers.data(), {2, 3, 5});
  EXPECT_EQ(view.strides, (std::array<Index, 3>{15, 5, 1}));
  EXPECT_EQ(view.size(), 30);
  EXPECT_EQ(&view(1, 2, 4), &numbers.back());
}

TEST(View, SizesOfNothing) {
  const View<int, 2> none;
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(elements(none), Ints{});
  for (const std::array<Index, 3>& shape :
       {std::array<Index, 3>{0, 3, 2}, {3, 0, 2}, {3, 2, 0}, {0, 0, 0}}) {
    EXPECT_EQ((View<int, 3>(nullptr, shape).size()), 0);
    EXPECT_EQ(elements(View<int, 3>(nullptr, shape)), Ints{});
  }
}

TEST(View, OneElementWithoutAxes) {
  int number = 7;
  const View<int, 0> view(&number, std::array<Index, 0>{});
  EXPECT_EQ(view.size(), 1);
  EXPECT_EQ(view(), 7);
  EXPECT_EQ(elements(view), Ints{7});
}

TEST(View, StridesMayBeAnyNumber) {
  Ints numbers(12);
  std::iota(numbers.begin(), numbers.end(), 0);
  // Every second column of a 3 x 4 matrix, its rows upside down.
  const View<int, 2> flipped(numbers.data() + 8, {3, 2}, {-4, 2});
  EXPECT_EQ(elements(flipped), (Ints{8, 10, 4, 6, 0, 2}));
  EXPECT_EQ(flipped(2, 1), 2);
  EXPECT_EQ(elements(flipped[1]), (Ints{4, 6}));
  // One row shown three times, as a broadcast does.
  const View<int, 2> repeated(numbers.data() + 1, {3, 2}, {0, 1});
  EXPECT_EQ(elements(repeated), (Ints{1, 2, 1, 2, 1, 2}));
}

TEST(View, ForEachGoesInRowMajorOrderAndMayWrite) {
  Tensor<int, 3> tensor({2, 3, 4});
  int next = 0;
  tensor.view().for_each([&next](int& value) { value = next++; });
  EXPECT_EQ(tensor(0, 0, 1), 1);
  EXPECT_EQ(tensor(0, 1, 0), 4);
  EXPECT_EQ(tensor(1, 0, 0), 12);
  EXPECT_EQ(tensor(1, 2, 3), 23);
}

TEST(View, TransposedExchangesTwoAxesAndCopiesNothing) {
  Tensor<int, 3> tensor = counted<3>({2, 3, 4});
  const View<int, 3> view = tensor.view().transposed(0, 2);
  EXPECT_EQ(view.shape, (std::array<Index, 3>{4, 3, 2}));
  for (Index i = 0; i < 2; ++i)
    for (Index j = 0; j < 3; ++j)
      for (Index k = 0; k < 4; ++k) EXPECT_EQ(&view(k, j, i), &tensor(i, j, k));
  const Tensor<int, 2> matrix = counted<2>({2, 3});
  EXPECT_EQ(elements(matrix.view().transposed(0, 1)), (Ints{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(elements(matrix.view().transposed(1, 1)), elements(matrix.view()));
  EXPECT_EQ(elements(matrix.view().transposed(0, 1)[2]), (Ints{2, 5}));
}

TEST(View, WithAxisAddsAnAxisOfOneAnywhere) {
  const Tensor<int, 2> matrix = counted<2>({2, 3});
  using Shape = std::array<Index, 3>;
  EXPECT_EQ(matrix.view().with_axis(0).shape, (Shape{1, 2, 3}));
  EXPECT_EQ(matrix.view().with_axis(1).shape, (Shape{2, 1, 3}));
  EXPECT_EQ(matrix.view().with_axis(2).shape, (Shape{2, 3, 1}));
  for (const std::size_t axis : {0U, 1U, 2U}) {
    EXPECT_EQ(elements(matrix.view().with_axis(axis)), elements(matrix.view())) << axis;
  }
  EXPECT_EQ(elements(matrix.view().transposed(0, 1).with_axis(1)), (Ints{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(elements(matrix.view().with_axis(0)[0][1]), (Ints{3, 4, 5}));
}

TEST(View, OneThatWritesConvertsToOneThatDoesNotButNotBack) {
  static_assert(std::is_convertible_v<View<int, 2>, View<const int, 2>>);
  static_assert(!std::is_convertible_v<View<const int, 2>, View<int, 2>>);
  Tensor<int, 2> matrix = counted<2>({2, 3});
  const View<const int, 2> view = matrix.view().transposed(0, 1);
  EXPECT_EQ(elements(view), (Ints{0, 3, 1, 4, 2, 5}));
}

/// What a View asks of a std::mdspan, with its names, for standard libraries that have none.
template <class T, std::size_t Rank, class Reference = T&, bool strided = true>
struct Mdspan {
  struct Extents {
    std::array<unsigned, Rank> sizes;
    unsigned extent(std::size_t axis) const { return sizes[axis]; }
  };
  using element_type = T;
  using reference = Reference;
  static constexpr std::size_t rank() { return Rank; }
  static constexpr bool is_always_strided() { return strided; }
  T* data_handle() const { return first; }
  const Extents& extents() const { return shape; }
  unsigned stride(std::size_t axis) const { return strides[axis]; }

  T* first;
  Extents shape;
  std::array<unsigned, Rank> strides;
};

TEST(View, AnMdspanOfAnyStridesConverts) {
  Ints numbers(24);
  std::iota(numbers.begin(), numbers.end(), 0);
  const Mdspan<int, 2> right{numbers.data(), {{2, 3}}, {3, 1}};
  const Mdspan<int, 2> left{numbers.data(), {{2, 3}}, {1, 2}};
  const Mdspan<int, 3> stride{numbers.data() + 1, {{2, 1, 3}}, {12, 5, 4}};
  EXPECT_EQ(elements(View<int, 2>(right)), (Ints{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(elements(View<int, 2>(left)), (Ints{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(elements(View<int, 3>(stride)), (Ints{1, 5, 9, 13, 17, 21}));
  const View<int, 3> view = stride;
  EXPECT_EQ(view.shape, (std::array<Index, 3>{2, 1, 3}));
  EXPECT_EQ(view.strides, (std::array<Index, 3>{12, 5, 4}));
  EXPECT_EQ(view.data, numbers.data() + 1);
}

TEST(View, OnlyAnMdspanOfTheSameElementsAndRankConverts) {
  const auto converts = []<class M>(M) {  // to a view that may write, and to one that may not
    return std::array{std::is_convertible_v<M, View<float, 2>>,
                      std::is_convertible_v<M, View<const float, 2>>};
  };
  using Answers = std::array<bool, 2>;
  EXPECT_EQ(converts(Mdspan<float, 2>()), (Answers{true, true}));
  EXPECT_EQ(converts(Mdspan<const float, 2>()), (Answers{false, true}));
  EXPECT_EQ(converts(Mdspan<double, 2>()), (Answers{false, false}));
  EXPECT_EQ(converts(Mdspan<float, 3>()), (Answers{false, false}));
  // Elements that are computed when they are read, and a layout without strides.
  EXPECT_EQ(converts(Mdspan<float, 2, float>()), (Answers{false, false}));
  EXPECT_EQ(converts(Mdspan<float, 2, float&, false>()), (Answers{false, false}));
}

TEST(Tensor, NewElementsAreZeroAndAligned) {
  for (const Index size : {1, 3, 17, 1000}) {
    const Tensor<double, 1> tensor({size});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0U);
    EXPECT_TRUE(std::all_of(tensor.begin(), tensor.end(), [](double x) { return x == 0; }));
    EXPECT_EQ(tensor.size(), size);
  }
  const Tensor<int, 2> none;
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(none.view().size(), 0);
}

TEST(Tensor, ACopyOfAViewIsDenseAndIndependent) {
  Tensor<int, 2> matrix = counted<2>({2, 3});
  const Tensor<int, 2> copy(matrix.view().transposed(0, 1));
  matrix(0, 0) = 99;
  EXPECT_EQ(copy.shape(), (std::array<Index, 2>{3, 2}));
  EXPECT_EQ(Ints(copy.begin(), copy.end()), (Ints{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ((Tensor<int, 2>(View<const int, 2>(nullptr, {0, 5})).shape()),
            (std::array<Index, 2>{0, 5}));
}

TEST(Tensor, SubViewsWriteThrough) {
  Tensor<int, 3> tensor = counted<3>({2, 3, 4});
  tensor[1][2](3) = -1;
  EXPECT_EQ(tensor(1, 2, 3), -1);
  const Tensor<int, 3>& constant = tensor;
  EXPECT_EQ(elements(constant[0][1]), (Ints{4, 5, 6, 7}));
}

TEST(Array, KeepsShapeAndElementsOfATensor) {
  Tensor<float, 2> matrix({2, 3});
  std::iota(matrix.begin(), matrix.end(), 1.0F);
  const Array array = matrix;
  EXPECT_EQ(array.shape, (std::vector<Index>{2, 3}));
  const Result<Tensor<float, 2>> back = to_tensor<float, 2>(array);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->shape(), matrix.shape());
  EXPECT_TRUE(std::equal(back->begin(), back->end(), matrix.begin(), matrix.end()));
}

TEST(Array, AnotherRankOrElementTypeIsRefused) {
  const Array array = Tensor<float, 2>({2, 3});
  const auto rank = to_tensor<float, 3>(array);
  ASSERT_FALSE(rank);
  EXPECT_EQ(rank.error().message, "expected an array of rank 3, not 2");
  const auto wider = to_tensor<double, 2>(array);
  ASSERT_FALSE(wider);
  EXPECT_EQ(wider.error().message, "expected float64 elements, not float32");
  const auto integers = to_tensor<Index, 2>(array);
  ASSERT_FALSE(integers);
  EXPECT_EQ(integers.error().message, "expected integer elements, not float32");
}

TEST(Array, OneNumberWithoutAxesAndNoNumbersAtAll) {
  Array number;
  number.values = std::vector<double>{7};
  const auto zero_axes = to_tensor<double, 0>(number);
  ASSERT_TRUE(zero_axes);
  EXPECT_EQ((*zero_axes)(), 7);
  Array empty;
  empty.shape = {3, 0};
  const auto nothing = to_tensor<float, 2>(empty);
  ASSERT_TRUE(nothing);
  EXPECT_EQ(nothing->shape(), (std::array<Index, 2>{3, 0}));
  EXPECT_EQ(nothing->size(), 0);
}

}  // namespace
}  // namespace headproof
