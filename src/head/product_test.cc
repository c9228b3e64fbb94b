#include "head/product.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>

#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "headproof/random.h"

namespace headproof {
namespace {

template <class Real>
Tensor<Real, 2> draw(Index rows, Index columns, std::uint64_t seed) {
  Generator generator(seed);
  const Tensor<float, 2> drawn = generator.randn(rows, columns);
  Tensor<Real, 2> matrix({rows, columns});
  std::copy(drawn.begin(), drawn.end(), matrix.begin());
  // Products that cancel and sums that become subnormal, so that order and mode would show.
  for (Index n = 0; n < matrix.size(); n += 7) matrix.data()[n] *= std::numeric_limits<Real>::min();
  return matrix;
}

/// What product.h says, word for word.
template <class Real>
void expected_product(View<const Real, 2> a, View<const Real, 2> b, View<Real, 2> c, bool add) {
  for (Index i = 0; i < c.shape[0]; ++i) {
    for (Index j = 0; j < c.shape[1]; ++j) {
      Real sum = add ? c(i, j) : Real(0);
      for (Index k = 0; k < a.shape[1]; ++k) sum = std::fma(a(i, k), b(k, j), sum);
      c(i, j) = sum;
    }
  }
}

/// Rounds upward while it lives, which the product must neither heed nor change.
class RoundingUpward {
 public:
  RoundingUpward() { std::fesetround(FE_UPWARD); }
  ~RoundingUpward() {
    EXPECT_EQ(std::fegetround(), FE_UPWARD);
    std::fesetround(FE_TONEAREST);
  }
};

// Rows around the group of 6 and the tile of 48, depths around the pieces of 256, columns around
// vectors of 8 and 16, the panels of 32 and 64; the last ones are large enough for several threads.
const std::vector<std::array<Index, 3>> sizes = {
    {0, 3, 3},    {3, 0, 3},    {3, 3, 0},     {1, 1, 1},     {2, 2, 2},      {5, 7, 3},
    {6, 16, 16},  {7, 17, 17},  {32, 32, 48},  {47, 31, 15},  {48, 255, 33},  {49, 256, 31},
    {13, 257, 5}, {1, 513, 97}, {101, 64, 63}, {64, 101, 65}, {131, 67, 129}, {97, 173, 64}};

template <class Real>
void expect_chains() {
  for (const auto& [rows, depth, columns] : sizes) {
    const auto a = draw<Real>(rows, depth, 1), b = draw<Real>(depth, columns, 2);
    const Tensor<Real, 2> a_other(a.view().transposed(0, 1)), b_other(b.view().transposed(0, 1));
    for (bool add : {false, true}) {
      const auto start = draw<Real>(rows, columns, 3);
      auto expected = start;
      expected_product<Real>(a, b, expected.view(), add);
      for (std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
        hwy::SetSupportedTargetsForTest(target);
        for (std::size_t threads : {1U, 2U, 7U}) {
          const tbb::global_control control(tbb::global_control::max_allowed_parallelism, threads);
          for (int strides = 0; strides < 4; ++strides) {
            // c lies in a wider matrix, whose other places stay as they are.
            Tensor<Real, 2> wide({rows, columns + 3});
            for (Real& value : wide) value = 42;
            const View<Real, 2> c(wide.data() + (wide.size() > 0 ? 1 : 0), start.shape(),
                                  {columns + 3, 1});
            for (Index i = 0; i < rows; ++i) {
              for (Index j = 0; j < columns; ++j) c(i, j) = start(i, j);
            }
            {
              const RoundingUpward upward;
              product<Real>(strides & 1 ? a_other.view().transposed(0, 1) : a.view(),
                            strides & 2 ? b_other.view().transposed(0, 1) : b.view(), c, add);
            }
            Index different = 0;
            for (Index i = 0; i < rows; ++i) {
              for (Index j = 0; j < columns; ++j) {
                different += std::memcmp(&c(i, j), &expected(i, j), sizeof(Real)) != 0;
              }
              different += wide(i, 0) != 42 || wide(i, columns + 1) != 42;
            }
            EXPECT_EQ(different, 0)
                << rows << " x " << depth << " x " << columns << " on " << hwy::TargetName(target)
                << ", " << threads << " threads, add " << add << ", strides " << strides;
          }
        }
      }
      hwy::SetSupportedTargetsForTest(0);
    }
  }
}

TEST(Product, IsTheChainsOfTheDefinitionBitForBitInFloat) { expect_chains<float>(); }
TEST(Product, IsTheChainsOfTheDefinitionBitForBitInDouble) { expect_chains<double>(); }

TEST(Product, HeedsNoModeThatThreadsHaveFromEarlierWork) {
  const auto a = draw<float>(131, 67, 1), b = draw<float>(67, 129, 2);
  Tensor<float, 2> expected({131, 129}), found({131, 129});
  expected_product<float>(a, b, expected.view(), false);
  const tbb::global_control control(tbb::global_control::max_allowed_parallelism, 7);
  std::thread([&] {
    const RoundingUpward upward;
    tbb::parallel_for(0, 100, [](int) {});  // tasks that this thread starts now round upward
    for (int repeat = 0; repeat < 20; ++repeat) {
      product<float>(a, b, found.view());
      EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin()));
    }
  }).join();
}

TEST(Product, OfARowDoesNotDependOnTheOthers) {
  const auto a = draw<float>(61, 45, 1), b = draw<float>(45, 61, 2);
  Tensor<float, 2> all({61, 61}), some({7, 61});
  product<float>(a, b, all.view());
  for (Index first = 0; first + 7 <= 61; first += 9) {
    const View<const float, 2> rows(&a(first, 0), {7, 45});
    product<float>(rows, b, some.view());
    EXPECT_EQ(std::memcmp(some.data(), &all(first, 0), sizeof(float) * 7 * 61), 0) << first;
  }
}

}  // namespace
}  // namespace headproof
