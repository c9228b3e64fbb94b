#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "headproof/head.h"
#include "headproof/random.h"

namespace headproof {
namespace {

/// FNV-1a of the numbers' bytes: equal digests stand for equal bits.
template <class T, std::size_t Rank>
std::uint64_t digest(const Tensor<T, Rank>& tensor) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto* bytes = reinterpret_cast<const unsigned char*>(tensor.data());
  for (std::size_t i = 0; i < sizeof(T) * static_cast<std::size_t>(tensor.size()); ++i) {
    hash = (hash ^ bytes[i]) * 0x100000001b3U;
  }
  return hash;
}

// The digests are those of the tensors that PyTorch 1.13.1 returns for seed 0.

struct NormalCase {
  Index n;
  std::uint64_t normals;
  std::uint64_t next;  // of randint(1000) drawn after them: the stream stands at the same place
};

TEST(Generator, NormalsHavePyTorchsBitsForEveryLengthBelowAtAndAboveABlock) {
  const std::vector<NormalCase> cases = {
      {1, 0x1877733c12d64cbc, 0x3e858a7914ad49cb},  {2, 0xa74f8872418aedec, 0x3e858a7914ad49cb},
      {5, 0xcec5c9affc020eb6, 0xeea0bb30dd38623b},  {15, 0x52b8f3bcc098f4b9, 0x6444542f3a40ebe9},
      {16, 0x28d49f8f92bf21d6, 0xb0f1bfe9d09fe8bd}, {17, 0x9151e09be6bcf07a, 0xbaa496118ba9fc12},
      {31, 0x3e39671abab4a234, 0x24ef79353fcb849},  {32, 0x96cdff5c281baa04, 0x6444542f3a40ebe9},
      {33, 0xf2eb928ce9653fe6, 0x2618d960e1b8b944}, {100, 0x6b680134d3d69e1b, 0xc132ac0263a4b5ac}};
  for (const NormalCase& c : cases) {
    Generator generator(0);
    EXPECT_EQ(digest(generator.randn(c.n)), c.normals) << "randn(" << c.n << ")";
    EXPECT_EQ(digest(generator.randint(0, 1000, 1)), c.next) << "after randn(" << c.n << ")";
  }
}

TEST(Generator, ShapeDoesNotMatterOnlyTheNumberOfElements) {
  Generator flat(7), cube(7);
  const auto a = flat.randn(120);
  const auto b = cube.randn(4, 5, 6);
  EXPECT_EQ(std::memcmp(a.data(), b.data(), 120 * sizeof(float)), 0);
}

TEST(Generator, TheCachedNormalSurvivesLongFillsAndIsForgottenBySeeding) {
  Generator generator(0);
  Tensor<float, 1> all({28});
  float* place = all.data();
  for (Index n : {5, 4, 16, 3}) {
    generator.normal({place, {n}});
    place += n;
  }
  EXPECT_EQ(digest(all), 0xe84d89bb11a92495U);

  (void)generator.randn(1);  // leaves a second value behind
  generator.manual_seed(0);
  EXPECT_EQ(digest(generator.randn(5)), 0xcec5c9affc020eb6U);
}

TEST(Generator, HeadWeightsAreThoseOfThreeLinearLayers) {
  Generator generator(0);
  const HeadWeights weights = draw_head_weights(32, 16, generator);
  EXPECT_EQ(digest(weights.key), 0x1d9d6426f95c4263U);
  EXPECT_EQ(digest(weights.query), 0x4a2fb5d01a1ea8ffU);
  EXPECT_EQ(digest(weights.value), 0x1d2d09650a0c6d57U);
  EXPECT_EQ(digest(generator.randn(4, 8, 32)), 0x4e0c3f4ab31707e3U);

  generator.manual_seed(0);
  EXPECT_EQ(digest(draw_head_weights(64, 8, generator).key), 0x9d5f56f9c932cd9fU);
}

TEST(Generator, EmbeddingsAreNormal) {
  Generator generator(0);
  EXPECT_EQ(digest(Embedding(8, 32, generator).table()), 0xf7c05e9426ab7052U);
}

TEST(Generator, PermutationsAndIntegersHavePyTorchsValues) {
  EXPECT_EQ(digest(Generator(0).randperm(8)), 0x23e5bdb8040b5ee5U);
  EXPECT_EQ(digest(Generator(0).randperm(1000)), 0x1f56afb98c57ed9U);
  EXPECT_EQ(digest(Generator(0).randint(0, 65, 8)), 0x628680b382c64682U);
  EXPECT_EQ(digest(Generator(0).randint(0, (Index{1} << 33) + 5, 8)), 0xafd49a9413d5dd06U);
  EXPECT_EQ(digest(Generator(0).randint(0, (Index{1} << 28) - 1, 8)), 0xff7a0d2bec92e15aU);
  EXPECT_EQ(digest(Generator(0).randint(0, Index{1} << 28, 8)), 0x646ee9ed6d480231U);  // since 2.7
  EXPECT_EQ(Generator(0).randperm(0).size(), 0);
  EXPECT_EQ(Generator(0).randperm(1)(0), 0);
}

TEST(Generator, OnlyTheLow32BitsOfASeedCount) {
  const auto minus_one = Generator(static_cast<std::uint64_t>(-1)).rand(64);
  EXPECT_EQ(digest(minus_one), 0xa12972984ebfd4d9U);
  EXPECT_EQ(digest(Generator(0xFFFFFFFFU).rand(64)), digest(minus_one));
  EXPECT_EQ(digest(Generator(std::uint64_t{1} << 63).rand(64)), digest(Generator(0).rand(64)));
}

TEST(Generator, FillsStridedViewsAsItFillsDenseOnes) {
  Tensor<float, 1> sparse({40});
  Generator strided(3), dense(3);
  strided.normal(View<float, 1>(sparse.data(), {20}, {2}));
  const auto expected = dense.randn(20);
  for (Index i = 0; i < 20; ++i) EXPECT_EQ(sparse(2 * i), expected(i));
}

}  // namespace
}  // namespace headproof
