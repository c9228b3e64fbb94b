#include "attention/fused.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <tbb/global_control.h>

#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "attention/canonical.h"
#include "attention/test_tensors.h"

namespace headproof {
namespace {

// Sizes around the vectors, the group of six rows, the tile of 48, the block of 64 keys and the
// span of 1,024; primes; both causal corners with rows that see nothing.
const std::vector<Shape> shapes = {
    {1, 1, 1, 1, 1, 1, 1},      {2, 4, 2, 7, 7, 3, 5},        {1, 2, 1, 5, 64, 16, 16},
    {1, 1, 1, 64, 65, 40, 100}, {1, 2, 2, 63, 130, 7, 80},    {1, 1, 1, 130, 63, 64, 64},
    {1, 1, 1, 47, 127, 8, 15},  {1, 1, 1, 49, 129, 17, 17},   {1, 1, 1, 1, 1300, 16, 16},
    {1, 1, 1, 97, 1100, 8, 33}, {1, 1, 1, 1030, 1030, 4, 16}, {1, 3, 1, 6, 2049, 2, 8},
    {1, 1, 1, 0, 5, 4, 4},      {1, 1, 1, 5, 0, 4, 4},        {0, 1, 1, 5, 5, 4, 4},
    {1, 1, 1, 5, 5, 4, 0},
};

template <class Scalar>
void expect_canonical_bits() {
  const std::size_t thread_counts[] = {1, 2, 7};
  for (const Shape& s : shapes) {
    const auto q = draw<Scalar>({s.batch, s.num_heads, s.seq_len_q, s.head_dim}, 1);
    const auto k = draw<Scalar>({s.batch, s.num_kv_heads, s.seq_len_k, s.head_dim}, 2);
    const auto v = draw<Scalar>({s.batch, s.num_kv_heads, s.seq_len_k, s.value_dim}, 3);
    for (Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
      const AttentionOptions options{causal, {}};
      const auto expected = attention_canonical<Scalar>(q, k, v, options);
      for (std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
        hwy::SetSupportedTargetsForTest(target);
        for (std::size_t threads : thread_counts) {
          const tbb::global_control control(tbb::global_control::max_allowed_parallelism, threads);
          const auto found = attention<Scalar>(q, k, v, options).value();
          EXPECT_TRUE(same(expected, found))
              << hwy::TargetName(target) << ", " << threads << " threads, " << s << ", causal "
              << static_cast<int>(causal);
        }
      }
      hwy::SetSupportedTargetsForTest(0);
    }
  }
}

TEST(Fused, HasTheCanonicalBitsOnEveryInstructionSetAndWithAnyThreadsInFloat) {
  expect_canonical_bits<float>();
}

TEST(Fused, HasTheCanonicalBitsOnEveryInstructionSetAndWithAnyThreadsInDouble) {
  expect_canonical_bits<double>();
}

/// Booleans that may be viewed, which those of std::vector may not.
class Booleans {
 public:
  explicit Booleans(std::array<Index, 4> shape)
      : shape_(shape), values_(new bool[std::size_t(View<bool, 4>(nullptr, shape).size())]) {}
  View<bool, 4> view() const { return {values_.get(), shape_}; }

 private:
  std::array<Index, 4> shape_;
  std::unique_ptr<bool[]> values_;
};

/// A mask of numbers, some of them -infinity, and one of booleans.
struct Masks {
  Tensor<float, 4> numbers;
  Booleans booleans;
};

Masks draw_masks(std::array<Index, 4> shape) {
  Masks masks{draw<float>(shape, 7), Booleans(shape)};
  Index n = 0;
  for (float& number : masks.numbers) {
    // Runs of forbidden keys, single ones, and whole blocks.
    const bool open = n % 7 != 3 && n % 50 > 11 && n / 64 % 5 != 2;
    if (!open) number = -std::numeric_limits<float>::infinity();
    masks.booleans.view().data[n++] = open;
  }
  return masks;
}

template <class Scalar>
void expect_canonical_bits_with_options(Index seq_len_q) {
  const Masks whole = draw_masks({2, 6, seq_len_q, 1200}), shared = draw_masks({1, 6, 1, 1200});
  const std::array<Index, 2> first = {3, 70}, length = {1100, 64 + 70}, early = {0, 1};
  const AttentionOptions all[] = {
      {.scale = -0.7},
      {.causal = Causal::top_left, .query_offset = 500},
      {.causal = Causal::top_left, .query_offset = -30},
      {.window = 1},
      {.causal = Causal::bottom_right, .window = 100},
      {.query_offset = 600, .window = 65, .window_right = 3},
      {.window_right = 0},
      {.softcap = 1.5},
      {.mask = View<const float, 4>(whole.numbers.view())},
      {.causal = Causal::bottom_right,
       .softcap = 2,
       .mask = View<const float, 4>(whole.numbers.view())},
      {.mask = View<const bool, 4>(whole.booleans.view())},
      {.mask = View<const bool, 4>(shared.booleans.view())},
      {.causal = Causal::top_left,
       .query_offset = 300,
       .window = 200,
       .mask = View<const float, 4>(shared.numbers.view())},
      {.first_key = {first.data(), {2}}},
      {.causal = Causal::bottom_right,
       .mask = View<const bool, 4>(whole.booleans.view()),
       .first_key = {first.data(), {2}},
       .key_length = {length.data(), {2}}},
      {.causal = Causal::top_left, .key_length = {early.data(), {2}}},
  };
  const auto q = draw<Scalar>({2, 6, seq_len_q, 5}, 1);
  const auto k = draw<Scalar>({2, 2, 1200, 5}, 2), v = draw<Scalar>({2, 2, 1200, 9}, 3);
  for (const AttentionOptions& options : all) {
    const auto expected = attention_canonical<Scalar>(q, k, v, options);
    for (std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      const tbb::global_control control(tbb::global_control::max_allowed_parallelism, 2);
      const auto found = attention<Scalar>(q, k, v, options).value();
      EXPECT_TRUE(same(expected, found))
          << hwy::TargetName(target) << ", options " << &options - all;
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}

TEST(Fused, HasTheCanonicalBitsWithEveryOptionInFloat) {
  expect_canonical_bits_with_options<float>(75);
  expect_canonical_bits_with_options<float>(9);  // threads share the spans of a tile
}

TEST(Fused, HasTheCanonicalBitsWithEveryOptionInDouble) {
  expect_canonical_bits_with_options<double>(75);
  expect_canonical_bits_with_options<double>(9);
}

TEST(Fused, TheWayTheAllowedSetIsExpressedDoesNotMatter) {
  constexpr Index n = 150, window = 70, length = 140;
  const auto q = draw<float>({1, 2, n, 8}, 1), k = draw<float>({1, 1, n, 8}, 2);
  const Booleans booleans({1, 1, n, n});
  Tensor<float, 4> numbers({1, 1, n, n});
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) {
      const bool open = j <= i && j > i - window && j < length;
      booleans.view()(0, 0, i, j) = open;
      numbers(0, 0, i, j) = open ? 0 : -std::numeric_limits<float>::infinity();
    }
  }
  const View<const Index, 1> lengths(&length, {1});
  const auto expected =
      attention<float>(q, k, k,
                       {.causal = Causal::top_left, .window = window, .key_length = lengths})
          .value();
  EXPECT_TRUE(same(
      expected, attention<float>(q, k, k, {.mask = View<const bool, 4>(booleans.view())}).value()));
  EXPECT_TRUE(same(
      expected, attention<float>(q, k, k, {.mask = View<const float, 4>(numbers.view())}).value()));
  EXPECT_TRUE(same(expected, attention<float>(q, k, k,
                                              {.window = window,
                                               .window_right = 0,
                                               .mask = View<const bool, 4>(booleans.view())})
                                 .value()));
}

TEST(Fused, LeftPaddingLeavesTheBitsOfTheSequenceAlone) {
  const auto q = draw<float>({1, 1, 90, 8}, 1), k = draw<float>({1, 1, 90, 8}, 2);
  const auto alone = attention<float>(q, k, k, {.causal = Causal::top_left}).value();
  constexpr Index padding = 37;
  Tensor<float, 4> padded_q({1, 1, 90 + padding, 8}), padded_k = padded_q;
  std::fill(padded_q.begin(), padded_q.end(), std::nanf(""));
  std::fill(padded_k.begin(), padded_k.end(), std::nanf(""));
  std::copy(q.begin(), q.end(), padded_q.begin() + padding * 8);
  std::copy(k.begin(), k.end(), padded_k.begin() + padding * 8);
  const auto found = attention<float>(padded_q, padded_k, padded_k,
                                      {.causal = Causal::top_left, .first_key = {&padding, {1}}})
                         .value();
  for (Index i = 0; i < 90; ++i) {
    ASSERT_TRUE(same(alone.lse(0, 0, i), found.lse(0, 0, i + padding)));
    for (Index c = 0; c < 8; ++c) {
      ASSERT_TRUE(same(alone.out(0, 0, i, c), found.out(0, 0, i + padding, c)));
    }
  }
  EXPECT_EQ(found.out(0, 0, padding - 1, 0), 0);  // it saw no key
}

TEST(Fused, WhatElseIsInTheBatchDoesNotMatter) {
  const auto q = draw<float>({3, 4, 70, 12}, 1), k = draw<float>({3, 2, 70, 12}, 2);
  const auto together = attention<float>(q, k, k, {.causal = Causal::top_left}).value();
  for (Index b = 0; b < 3; ++b) {
    for (Index h = 0; h < 4; ++h) {
      const auto alone =
          attention<float>(q[b][h].with_axis(0).with_axis(0), k[b][h / 2].with_axis(0).with_axis(0),
                           k[b][h / 2].with_axis(0).with_axis(0), {.causal = Causal::top_left})
              .value();
      for (Index i = 0; i < 70; ++i) {
        ASSERT_TRUE(same(together.lse(b, h, i), alone.lse(0, 0, i)));
        for (Index c = 0; c < 12; ++c) {
          ASSERT_TRUE(same(together.out(b, h, i, c), alone.out(0, 0, i, c)));
        }
      }
    }
  }
}

TEST(Fused, ACallbackSeesTheProgressAndCanStop) {
  const auto q = draw<float>({1, 2, 500, 8}, 1);
  double last = 0;
  AttentionOptions options{.progress = [&](double done) {
    EXPECT_GT(done, last);
    last = done;
    return true;
  }};
  EXPECT_TRUE(attention<float>(q, q, q, options).has_value());
  EXPECT_EQ(last, 1);
  options.progress = [](double) { return false; };
  const auto stopped = attention<float>(q, q, q, options);
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().message, "attention was stopped by its progress callback");
}

TEST(Fused, OutputsThatOverlapAnInputAreRefused) {
  auto q = draw<float>({1, 1, 5, 4}, 1);
  const auto k = draw<float>({1, 1, 5, 4}, 2);
  const Status done = attention_into<float>(q, k, k, {}, q.view(), {});
  ASSERT_FALSE(done.has_value());
  EXPECT_NE(done.error().message.find("out"), std::string::npos);
}

TEST(Fused, APrefixOfALongerSequenceHasTheSameRows) {
  const auto q = draw<float>({1, 1, 200, 16}, 1), k = draw<float>({1, 1, 200, 16}, 2);
  const auto whole = attention<float>(q, k, k, {Causal::top_left, {}}).value();
  for (Index t : {1, 5, 6, 7, 48, 63, 64, 65, 131, 199}) {
    auto short_q = q.view(), short_k = k.view();
    short_q.shape[2] = short_k.shape[2] = t;
    const auto part = attention<float>(short_q, short_k, short_k, {Causal::top_left, {}}).value();
    for (Index i = 0; i < t; ++i) {
      for (Index c = 0; c < 16; ++c) {
        ASSERT_TRUE(same(whole.out(0, 0, i, c), part.out(0, 0, i, c))) << t << " " << i;
      }
    }
  }
}

TEST(Fused, OneQueryAtATimeGivesTheRowsOfAllAtOnce) {
  const auto q = draw<float>({1, 1, 150, 8}, 1), k = draw<float>({1, 1, 150, 8}, 2);
  const auto whole = attention<float>(q, k, k, {Causal::top_left, {}}).value();
  for (Index i = 0; i < 150; ++i) {
    auto row = q.view(), seen = k.view();
    row.data = q.data() + i * 8;
    row.shape[2] = 1;
    seen.shape[2] = i + 1;
    const auto step = attention<float>(row, seen, seen, {Causal::bottom_right, {}}).value();
    ASSERT_TRUE(same(whole.lse(0, 0, i), step.lse(0, 0, 0))) << i;
    for (Index c = 0; c < 8; ++c) {
      ASSERT_TRUE(same(whole.out(0, 0, i, c), step.out(0, 0, 0, c))) << i;
    }
  }
}

TEST(Fused, WhatIsMaskedMayHoldAnything) {
  const auto q = draw<float>({1, 1, 140, 8}, 1), k = draw<float>({1, 1, 140, 8}, 2);
  const auto v = draw<float>({1, 1, 140, 8}, 3);
  const auto clean = attention<float>(q, k, v, {Causal::top_left, {}}).value();
  for (float poison : {std::nanf(""), std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity(), 1e38F, 1e-45F}) {
    for (Index j : {1, 5, 63, 64, 65, 139}) {
      auto bad_q = q, bad_k = k, bad_v = v;
      for (Index c = 0; c < 8; ++c) {
        bad_q(0, 0, j, c) = bad_k(0, 0, j, c) = bad_v(0, 0, j, c) = poison;
      }
      const auto stages = attention<float>(bad_q, bad_k, bad_v, {Causal::top_left, {}}).value();
      for (Index i = 0; i < j; ++i) {
        ASSERT_TRUE(same(clean.lse(0, 0, i), stages.lse(0, 0, i))) << poison << " at " << j;
        for (Index c = 0; c < 8; ++c) {
          ASSERT_TRUE(same(clean.out(0, 0, i, c), stages.out(0, 0, i, c))) << poison << " at " << j;
        }
      }
    }
  }
}

TEST(Fused, WhatAMaskForbidsMayHoldAnythingAndMayBeAll) {
  constexpr Index n = 100, bad = 70, empty = 20;
  const auto q = draw<float>({1, 1, n, 8}, 1), k = draw<float>({1, 1, n, 8}, 2);
  const Booleans booleans({1, 1, n, n});
  Tensor<float, 4> numbers({1, 1, n, n});
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) {
      const bool open = i != empty && j != bad;
      booleans.view()(0, 0, i, j) = open;
      numbers(0, 0, i, j) = open ? 0 : -std::numeric_limits<float>::infinity();
    }
  }
  for (const Mask& mask :
       {Mask(View<const bool, 4>(booleans.view())), Mask(View<const float, 4>(numbers.view()))}) {
    const auto clean = attention<float>(q, k, k, {.mask = mask}).value();
    EXPECT_EQ(clean.out(0, 0, empty, 0), 0);
    EXPECT_EQ(clean.lse(0, 0, empty), -std::numeric_limits<float>::infinity());
    for (float poison : {std::nanf(""), std::numeric_limits<float>::infinity(), 1e38F}) {
      auto poisoned = k;
      for (Index c = 0; c < 8; ++c) poisoned(0, 0, bad, c) = poison;
      EXPECT_TRUE(same(clean, attention<float>(q, poisoned, poisoned, {.mask = mask}).value()))
          << poison;
    }
  }
}

TEST(Fused, BadAllowedLogitsShowAsInTheDefinition) {
  for (float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity()}) {
    auto q = draw<float>({1, 1, 70, 4}, 1);
    Tensor<float, 4> k({1, 1, 70, 4});
    std::fill(k.begin(), k.end(), 1.0F);
    q(0, 0, 66, 0) = bad;
    const auto expected = attention_reference<float>(q, k, k, {Causal::top_left, {}});
    const auto found = attention<float>(q, k, k, {Causal::top_left, {}}).value();
    for (Index i = 0; i < 70; ++i) {
      EXPECT_EQ(std::isnan(expected.out(0, 0, i, 0)), std::isnan(found.out(0, 0, i, 0))) << i;
      EXPECT_EQ(std::isnan(expected.lse(0, 0, i)), std::isnan(found.lse(0, 0, i))) << i;
    }
  }
}

TEST(Fused, TheCallersRoundingModeAndFlushToZeroDoNotMatter) {
  // 1 / sqrt(head_dim) has to be rounded, too; not every one differs when rounded up.
  for (Index head_dim : {3, 5, 7, 11, 12, 13}) {
    const auto q = draw<float>({1, 1, 80, head_dim}, 1), k = draw<float>({1, 1, 80, head_dim}, 2);
    const auto expected = attention<float>(q, k, k).value();
    std::fesetround(FE_UPWARD);
#if defined(__SSE__)
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);
#endif
    const auto found = attention<float>(q, k, k).value();
#if defined(__SSE__)
    EXPECT_EQ(_mm_getcsr() & 0xE040U, (before | 0x8040) & 0xE040U);
    _mm_setcsr(before);
#endif
    EXPECT_EQ(std::fegetround(), FE_UPWARD);
    std::fesetround(FE_TONEAREST);
    EXPECT_TRUE(same(expected, found)) << head_dim;
  }
}

TEST(Fused, StridesDoNotMatter) {
  const auto q = draw<float>({2, 3, 70, 20}, 1), k = draw<float>({2, 3, 70, 20}, 2);
  const auto expected = attention<float>(q, k, k, {Causal::top_left, {}}).value();
  // The same logical arrays stored as [head_dim, seq_len, ...].
  const Tensor<float, 4> stored_q(q.view().transposed(0, 3)), stored_k(k.view().transposed(0, 3));
  const auto found =
      attention<float>(stored_q.view().transposed(0, 3), stored_k.view().transposed(0, 3),
                       stored_k.view().transposed(0, 3), {Causal::top_left, {}})
          .value();
  EXPECT_TRUE(same(expected, found));
}

// u times: head_dim + 2 in a score of size up to 8 passed through exp, as many again from exp and
// the sums; values up to 5 in size.
TEST(Fused, AgreesWithTheDefinitionInDoublePrecision) {
  for (Index seq_len : {1, 33, 100, 1500}) {
    const auto q = draw<float>({1, 1, seq_len, 32}, 1), k = draw<float>({1, 1, seq_len, 32}, 2);
    const auto wide_q = draw<double>({1, 1, seq_len, 32}, 1);
    const auto wide_k = draw<double>({1, 1, seq_len, 32}, 2);
    const auto expected = attention_reference<double>(wide_q, wide_k, wide_k);
    const auto found = attention<float>(q, k, k).value();
    const auto wide = attention<double>(wide_q, wide_k, wide_k).value();
    for (Index n = 0; n < found.out.size(); ++n) {
      ASSERT_NEAR(found.out.data()[n], expected.out.data()[n], 34 * 8 * 2 * 5 * 0x1p-24);
      ASSERT_NEAR(wide.out.data()[n], expected.out.data()[n], 34 * 8 * 2 * 5 * 0x1p-53);
    }
  }
}

/// The root of the mean square of what `found` is off by.
template <class Scalar>
double rms_error(const Tensor<Scalar, 4>& found, const Tensor<double, 4>& exact) {
  double sum = 0;
  for (Index n = 0; n < exact.size(); ++n) {
    const double error = static_cast<double>(found.data()[n]) - exact.data()[n];
    sum += error * error;
  }
  return std::sqrt(sum / static_cast<double>(exact.size()));
}

TEST(Fused, IsAsAccurateAsTheDefinitionInTheSamePrecision) {
  for (const Shape& s : {Shape{1, 2, 1, 130, 130, 64, 64}, Shape{1, 1, 1, 70, 1500, 128, 40},
                         Shape{1, 1, 1, 1030, 1030, 16, 16}}) {
    const auto q = draw<float>({s.batch, s.num_heads, s.seq_len_q, s.head_dim}, 1);
    const auto k = draw<float>({s.batch, s.num_kv_heads, s.seq_len_k, s.head_dim}, 2);
    const auto v = draw<float>({s.batch, s.num_kv_heads, s.seq_len_k, s.value_dim}, 3);
    const auto widen = [](const Tensor<float, 4>& narrow) {
      Tensor<double, 4> wide(narrow.shape());
      std::copy(narrow.begin(), narrow.end(), wide.begin());
      return wide;
    };
    for (Causal causal : {Causal::none, Causal::top_left}) {
      // The scale of 1/sqrt(head_dim) is itself rounded: both take the rounded one.
      const AttentionOptions options{.causal = causal,
                                     .scale = 1 / std::sqrt(static_cast<float>(s.head_dim))};
      const auto exact = attention_reference<double>(widen(q), widen(k), widen(v), options).out;
      const auto definition = attention_reference<float>(q, k, v, options).out;
      const auto found = attention<float>(q, k, v, options).value().out;
      EXPECT_LE(rms_error(found, exact), 1.5 * rms_error(definition, exact)) << s.seq_len_k;
    }
  }
}

TEST(Fused, ScoresOfAnySizeGiveTheRowsOfTheDefinition) {
  for (double size : {1e-30, 1e-3, 1.0, 1e3, 1e15, 1e30}) {
    const auto q = draw<float>({1, 1, 70, 1}, 1), k = draw<float>({1, 1, 70, 1}, 2);
    const auto v = draw<float>({1, 1, 70, 3}, 3);
    Tensor<double, 4> wide_q(q.shape()), wide_k(k.shape()), wide_v(v.shape());
    std::copy(q.begin(), q.end(), wide_q.begin());
    std::copy(k.begin(), k.end(), wide_k.begin());
    std::copy(v.begin(), v.end(), wide_v.begin());
    const AttentionOptions options{.causal = Causal::top_left, .scale = size};
    const auto exact = attention_reference<double>(wide_q, wide_k, wide_v, options);
    const auto found = attention<float>(q, k, v, options).value();
    for (Index i = 0; i < 70; ++i) {
      double largest = 0;
      for (Index j = 0; j <= i; ++j) {
        largest = std::max(largest, std::fabs(exact.scores(0, 0, i, j)));
      }
      // A logit is off by two roundings and the scale's own, relative; where that is more than the
      // gap between the two largest, the weights may go to either.
      const double logit_error = 3 * 0x1p-24 * largest;
      double first = -INFINITY, second = -INFINITY;
      for (Index j = 0; j <= i; ++j) {
        const double score = exact.scores(0, 0, i, j);
        second = std::max(second, std::min(first, score));
        first = std::max(first, score);
      }
      for (Index c = 0; c < 3; ++c) {
        ASSERT_TRUE(std::isfinite(found.out(0, 0, i, c))) << size;
        if (logit_error > 0.01 && first - second < 40 + 4 * logit_error) continue;
        // Twice the logits' error in each weight, and (70 + 8) u for sums, exp and the quotient;
        // values up to 5 in size.
        const double bound = 5 * (2 * std::min(logit_error, 0.01) + 78 * 0x1p-24);
        ASSERT_NEAR(found.out(0, 0, i, c), exact.out(0, 0, i, c), bound) << size << " row " << i;
      }
    }
  }
}

template <class Scalar>
void expect_canonical_bits_of_few_keys() {
  constexpr Scalar infinity = std::numeric_limits<Scalar>::infinity();
  Generator generator(11);
  for (Index keys = 1; keys <= 18; ++keys) {
    for (const Shape& s : {Shape{2, 2, 1, 9, keys, 4, 16}, Shape{1, 4, 2, 8, keys, 7, 3},
                           Shape{1, 1, 1, 1, keys, 16, 70}, Shape{1, 3, 3, 49, keys, 1, 8},
                           Shape{23, 1, 1, 3, keys, 2, 16}}) {
      auto q = draw<Scalar>({s.batch, s.num_heads, s.seq_len_q, s.head_dim}, 1);
      auto k = draw<Scalar>({s.batch, s.num_kv_heads, s.seq_len_k, s.head_dim}, 2);
      const auto v = draw<Scalar>({s.batch, s.num_kv_heads, s.seq_len_k, s.value_dim}, 3);
      q(0, 0, s.seq_len_q / 2, 0) = infinity;  // logits that are NaN or infinite
      k(0, 0, keys / 2, 0) = std::numeric_limits<Scalar>::quiet_NaN();
      Booleans open({s.batch, 1, s.seq_len_q, keys});
      const auto chances = generator.randn(open.view().size());
      for (Index n = 0; n < chances.size(); ++n) open.view().data[n] = chances(n) > -0.5F;
      std::vector<Index> first, length;
      for (Index b = 0; b < s.batch; ++b) {
        first.push_back(b * keys / (2 * s.batch));
        length.push_back(keys - (b + 1) * keys / (3 * s.batch));
      }
      const AttentionOptions all[] = {
          {},
          {.causal = Causal::bottom_right,
           .first_key = {first.data(), {s.batch}},
           .key_length = {length.data(), {s.batch}}},
          {.causal = Causal::top_left, .query_offset = -3},
          {.causal = Causal::top_left, .mask = View<const bool, 4>(open.view())},
          {.window = 2, .window_right = 1}};
      for (const AttentionOptions& options : all) {
        const auto expected = attention_canonical<Scalar>(q, k, v, options);
        for (std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
          hwy::SetSupportedTargetsForTest(target);
          EXPECT_TRUE(same(expected, attention<Scalar>(q, k, v, options).value()))
              << hwy::TargetName(target) << ", " << s << ", options " << &options - all;
        }
        hwy::SetSupportedTargetsForTest(0);
      }
    }
  }
}

// Those that fit a vector are computed on a way of their own.
TEST(Fused, HasTheCanonicalBitsWithFewKeysInFloat) { expect_canonical_bits_of_few_keys<float>(); }

TEST(Fused, HasTheCanonicalBitsWithFewKeysInDouble) { expect_canonical_bits_of_few_keys<double>(); }

// The digest is stored: whatever computes it, on whatever machine, these are the bits.
TEST(Fused, ADozenProblemsHaveTheStoredDigest) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto add = [&](const auto& tensor) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(tensor.data());
    const std::size_t size = sizeof(*tensor.data()) * static_cast<std::size_t>(tensor.size());
    for (std::size_t n = 0; n < size; ++n) hash = (hash ^ bytes[n]) * 0x100000001b3U;
  };
  for (const Shape& s : shapes) {
    const auto q = draw<float>({s.batch, s.num_heads, s.seq_len_q, s.head_dim}, 1);
    const auto k = draw<float>({s.batch, s.num_kv_heads, s.seq_len_k, s.head_dim}, 2);
    const auto v = draw<float>({s.batch, s.num_kv_heads, s.seq_len_k, s.value_dim}, 3);
    const auto found = attention<float>(q, k, v, {Causal::top_left, {}}).value();
    add(found.out);
    add(found.lse);
  }
  EXPECT_EQ(hash, 0xda27ec72f8784d22U);
}

}  // namespace
}  // namespace headproof
