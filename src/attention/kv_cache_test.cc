#include "headproof/kv_cache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "attention/test_tensors.h"
#include "attention/workspace.h"

namespace headproof {
namespace {

/// Tokens first .. first + count - 1.
template <class Scalar>
View<const Scalar, 4> tokens(const Tensor<Scalar, 4>& all, Index first, Index count) {
  View<const Scalar, 4> some = all.view();
  some.data += first * some.strides[2];
  some.shape[2] = count;
  return some;
}

/// Compares rows first .. of `whole` with those of `chunk`, bit for bit.
template <class Scalar>
void expect_same_rows(const AttentionOutput<Scalar>& whole, const AttentionOutput<Scalar>& chunk,
                      Index first) {
  const auto [batch, num_heads, count, value_dim] = chunk.out.shape();
  for (Index b = 0; b < batch; ++b) {
    for (Index h = 0; h < num_heads; ++h) {
      for (Index i = 0; i < count; ++i) {
        ASSERT_EQ(std::memcmp(&whole.lse(b, h, first + i), &chunk.lse(b, h, i), sizeof(Scalar)), 0)
            << first + i;
        const auto expected = whole.out[b][h][first + i], found = chunk.out[b][h][i];
        ASSERT_EQ(std::memcmp(expected.data, found.data,
                              sizeof(Scalar) * static_cast<std::size_t>(value_dim)),
                  0)
            << first + i;
      }
    }
  }
}

template <class Scalar>
void expect_chunks_equal_prefill(const AttentionOptions& options,
                                 const std::vector<Index>& first_key) {
  constexpr Index n = 330;
  const auto q = draw<Scalar>({2, 6, n, 7}, 1);
  const auto k = draw<Scalar>({2, 3, n, 7}, 2), v = draw<Scalar>({2, 3, n, 18}, 3);
  AttentionOptions at_once = options;
  if (!first_key.empty()) at_once.first_key = {first_key.data(), {2}};
  const auto whole = attention<Scalar>(q, k, v, at_once).value();
  for (Index chunk : {1, 3, 64, 100, 330}) {
    KvCache<Scalar> cache(2, 3, 7, 18, first_key);
    for (Index first = 0; first < n; first += chunk) {
      const Index count = std::min(chunk, n - first);
      ASSERT_TRUE(cache.append(tokens(k, first, count), tokens(v, first, count)).has_value());
      ASSERT_EQ(cache.size(), first + count);
      const auto found = cache.attend(tokens(q, first, count), options).value();
      expect_same_rows(whole, found, first);
    }
  }
}

TEST(KvCache, ChunksOfAnySizeGiveTheRowsOfAllAtOnceInFloat) {
  expect_chunks_equal_prefill<float>({.causal = Causal::bottom_right}, {});
}

TEST(KvCache, ChunksOfAnySizeGiveTheRowsOfAllAtOnceInDouble) {
  expect_chunks_equal_prefill<double>({.causal = Causal::bottom_right}, {});
}

TEST(KvCache, ChunksEqualPrefillUnderAWindowAndASoftcap) {
  expect_chunks_equal_prefill<float>({.causal = Causal::bottom_right, .window = 70, .softcap = 2},
                                     {});
}

TEST(KvCache, PaddingBeforeTheFirstTokenIsNotKept) {
  expect_chunks_equal_prefill<float>({.causal = Causal::bottom_right}, {5, 130});
}

TEST(KvCache, SpansAreMergedAsInPrefill) {
  const auto q = draw<float>({1, 1, 2100, 2}, 1), k = draw<float>({1, 1, 2100, 2}, 2);
  const auto whole = attention<float>(q, k, k, {.causal = Causal::top_left}).value();
  KvCache<float> cache(1, 1, 2, 2);
  ASSERT_TRUE(cache.append(k, k).has_value());
  for (Index i : {1022, 1023, 1024, 1025, 2047, 2048, 2099}) {
    const auto found =
        cache.attend(tokens(q, i, 1), {.causal = Causal::top_left, .query_offset = i}).value();
    expect_same_rows(whole, found, i);
  }
}

TEST(KvCache, AfterTruncationItGoesOnAsIfTheRestHadNotBeen) {
  const auto k = draw<float>({1, 1, 150, 4}, 2), other = draw<float>({1, 1, 150, 4}, 3);
  KvCache<float> cache(1, 1, 4, 4), expected(1, 1, 4, 4);
  cache.reserve(1000);
  ASSERT_TRUE(cache.append(other, other).has_value());
  cache.truncate(70);
  ASSERT_EQ(cache.size(), 70);
  ASSERT_TRUE(cache.append(k, k).has_value());
  ASSERT_TRUE(expected.append(tokens(other, 0, 70), tokens(other, 0, 70)).has_value());
  ASSERT_TRUE(expected.append(k, k).has_value());
  const auto q = draw<float>({1, 1, 3, 4}, 1);
  expect_same_rows(expected.attend(q, {}).value(), cache.attend(q, {}).value(), 0);
}

TEST(KvCache, ItsMemoryIsItsOwnAndNotAWorkspaceThatWouldOutliveIt) {
  const auto k = draw<float>({1, 1, 150, 4}, 2);
  reset_workspace_peak();
  KvCache<float> cache(1, 1, 4, 4);
  ASSERT_TRUE(cache.append(k, k).has_value());
  EXPECT_EQ(workspace_peak_bytes(), 0U);
}

TEST(KvCache, MoreTokensThanMemoryCanCountAreRefused) {
  const float number = 1;
  const Index many = Index{1} << 58;
  const View<const float, 4> k(&number, {1, 1, many, 4}, {0, 0, 0, 0});
  KvCache<float> cache(1, 1, 4, 4);
  const Status done = cache.append(k, k);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().message, "the cache has no room for 288230376151711744 more");
  EXPECT_EQ(cache.size(), 0);
}

TEST(KvCache, AnEmptyOneGivesEmptyRows) {
  const KvCache<float> cache(1, 1, 4, 4);
  const auto found = cache.attend(draw<float>({1, 1, 2, 4}, 1), {}).value();
  EXPECT_EQ(found.out(0, 0, 1, 3), 0);
  EXPECT_EQ(found.lse(0, 0, 1), -std::numeric_limits<float>::infinity());
}

TEST(KvCache, WhatDoesNotFitIsRefused) {
  KvCache<float> cache(1, 1, 4, 4);
  const auto k = draw<float>({1, 1, 2, 4}, 1), wide = draw<float>({1, 1, 2, 5}, 1);
  EXPECT_FALSE(cache.append(wide, k).has_value());
  EXPECT_FALSE(cache.append(k, wide).has_value());
  EXPECT_EQ(cache.size(), 0);
  ASSERT_TRUE(cache.append(k, k).has_value());
  EXPECT_FALSE(cache.attend(wide, {}).has_value());
  const Index first = 0;
  const auto padded = cache.attend(k, {.first_key = {&first, {1}}});
  ASSERT_FALSE(padded.has_value());
  EXPECT_EQ(padded.error().message,
            "first_key belongs to the cache, which is given it when it is made");
}

TEST(KvCache, ASequenceWithoutKeysLeavesTheOthersAsTheyAre) {
  const std::vector<Index> first_key = {3, 0, 1, 0, 3};
  KvCache<float> cache(5, 1, 6, 16, first_key);
  const auto k = draw<float>({5, 1, 3, 6}, 2), v = draw<float>({5, 1, 3, 16}, 3);
  ASSERT_TRUE(cache.append(k, v).has_value());
  AttentionOptions options;
  options.first_key = {first_key.data(), {5}};
  for (const Index queries : {1, 8, 60}) {
    const auto q = draw<float>({5, 1, queries, 6}, 1);
    expect_same_rows(attention<float>(q, k, v, options).value(), cache.attend(q, {}).value(), 0);
  }
}

}  // namespace
}  // namespace headproof
