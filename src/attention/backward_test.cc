#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <tbb/global_control.h>

#include <cfenv>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include "attention/canonical.h"
#include "attention/test_tensors.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace headproof {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// What a backward pass reads.
template <class Scalar>
struct Inputs {
  Tensor<Scalar, 4> q, k, v, d_out, out;
  Tensor<Scalar, 3> lse;

  explicit Inputs(const Shape& s)
      : q(draw<Scalar>({s.batch, s.num_heads, s.seq_len_q, s.head_dim}, 1)),
        k(draw<Scalar>({s.batch, s.num_kv_heads, s.seq_len_k, s.head_dim}, 2)),
        v(draw<Scalar>({s.batch, s.num_kv_heads, s.seq_len_k, s.value_dim}, 3)),
        d_out(draw<Scalar>({s.batch, s.num_heads, s.seq_len_q, s.value_dim}, 4)) {}
  Inputs(const Shape& s, const AttentionOptions& options) : Inputs(s) { run_forward(options); }

  void run_forward(const AttentionOptions& options) {
    auto forward = attention_canonical<Scalar>(q, k, v, options);
    out = std::move(forward.out);
    lse = std::move(forward.lse);
  }
  AttentionGradients<Scalar> canonical(const AttentionOptions& options) const {
    return attention_canonical_backward<Scalar>(q, k, v, out, lse, d_out, options);
  }
  AttentionGradients<Scalar> fast(const AttentionOptions& options) const {
    return attention_backward<Scalar>(q, k, v, out, lse, d_out, options).value();
  }
};

/// Calls function(name) with each instruction set that this processor has.
template <class Function>
void on_every_target(Function&& function) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    function(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
}

template <class Scalar>
void expect_canonical_bits(const Shape& shape, const AttentionOptions& options) {
  const Inputs<Scalar> inputs(shape, options);
  const auto expected = inputs.canonical(options);
  on_every_target([&](const char* target) {
    EXPECT_TRUE(same(expected, inputs.fast(options)))
        << target << ", " << shape << ", causal " << static_cast<int>(options.causal);
  });
  for (const std::size_t threads : {1U, 2U, 7U}) {
    const tbb::global_control control(tbb::global_control::max_allowed_parallelism, threads);
    EXPECT_TRUE(same(expected, inputs.fast(options)))
        << threads << " threads, " << shape << ", causal " << static_cast<int>(options.causal);
  }
}

// Sizes around the vectors, the group of six rows and the block of 64 keys or queries; primes; more
// queries than keys and the other way round.
const std::vector<Shape> shapes = {
    {1, 1, 1, 1, 1, 1, 1},      {2, 4, 2, 7, 7, 3, 5},      {1, 2, 1, 5, 64, 16, 16},
    {1, 1, 1, 6, 5, 4, 20},     {1, 1, 1, 47, 48, 5, 3},    {1, 1, 1, 49, 47, 33, 1},
    {1, 1, 1, 64, 65, 40, 100}, {1, 2, 2, 63, 130, 7, 80},  {1, 1, 1, 130, 63, 64, 64},
    {1, 7, 1, 65, 66, 17, 16},  {1, 1, 1, 1, 1300, 16, 16}, {1, 1, 1, 0, 5, 4, 4},
    {1, 1, 1, 5, 0, 4, 4},      {0, 1, 1, 5, 5, 4, 4},      {1, 0, 2, 5, 5, 4, 4},
    {1, 0, 0, 5, 5, 4, 4},      {1, 1, 1, 5, 5, 4, 0},
};

template <class Scalar>
void expect_canonical_bits_of_shapes() {
  for (const Shape& shape : shapes) {
    for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
      expect_canonical_bits<Scalar>(shape, {.causal = causal});
    }
  }
}

TEST(Backward, HasTheCanonicalBitsOnEveryInstructionSetInFloat) {
  expect_canonical_bits_of_shapes<float>();
}

TEST(Backward, HasTheCanonicalBitsOnEveryInstructionSetInDouble) {
  expect_canonical_bits_of_shapes<double>();
}

// Around the span of 1,024 queries or keys, where it matters in which order squares are added.
TEST(Backward, HasTheCanonicalBitsWhereThereAreManySpans) {
  expect_canonical_bits<float>({1, 1, 1, 2050, 2050, 1, 1}, {.causal = Causal::top_left});
  expect_canonical_bits<float>({1, 2, 1, 1025, 1023, 1, 2}, {.window = 200, .window_right = 5});
  expect_canonical_bits<double>({1, 1, 1, 1023, 1024, 2, 1}, {.causal = Causal::bottom_right});
  expect_canonical_bits<float>({1, 3, 1, 1030, 3100, 1, 1},
                               {.causal = Causal::bottom_right, .window = 100});
  // Spans of keys are counted from the sequence's first.
  const Index first = 300;
  expect_canonical_bits<float>({1, 1, 1, 5, 1400, 2, 2}, {.first_key = {&first, {1}}});
}

/// Options of every kind, for 2 sequences, 4 heads, 70 queries and 90 keys.
class EveryOption {
 public:
  EveryOption() {
    const auto numbers = draw<double>({2, 4, 70, 90}, 5);
    for (Index n = 0; n < numbers.size(); ++n) {
      const double number = numbers.data()[n];
      may_[static_cast<std::size_t>(n)] = number > -1;
      bias_.data()[n] = number > 1 ? -infinity : static_cast<float>(number);
      wide_bias_.data()[n] = number > 2 ? -infinity : number;
    }
    const View<const Index, 1> first_key{first_key_.data(), {2}};
    const View<const Index, 1> key_length{key_length_.data(), {2}};
    const View<const bool, 4> may{may_.data(), {2, 4, 70, 90}};
    auto row = may;
    row.shape = {1, 1, 1, 90};
    auto heads = bias_.view();
    heads.shape = {1, 4, 70, 90};
    auto column = bias_.view();
    column.shape = {2, 1, 70, 1};
    all = {{.scale = -0.3},
           {.query_offset = 20, .window = 7},
           {.causal = Causal::top_left, .query_offset = -5},
           {.window = 1, .window_right = 0},
           {.window_right = 3},
           {.causal = Causal::bottom_right, .window = 30, .softcap = 1.5},
           {.softcap = 0.5},
           {.mask = may},
           {.mask = row},
           {.causal = Causal::top_left, .mask = View<const float, 4>(bias_.view())},
           {.mask = View<const float, 4>(heads)},
           {.mask = View<const float, 4>(column)},
           {.softcap = 2, .mask = View<const double, 4>(wide_bias_.view())},
           {.first_key = first_key},
           {.causal = Causal::bottom_right, .key_length = key_length},
           {.causal = Causal::bottom_right,
            .window = 40,
            .softcap = 3,
            .mask = View<const float, 4>(bias_.view()),
            .first_key = first_key,
            .key_length = key_length}};
  }

  static constexpr Shape shape{2, 4, 2, 70, 90, 5, 7};
  std::vector<AttentionOptions> all;

 private:
  std::array<bool, 2 * 4 * 70 * 90> may_{};
  Tensor<float, 4> bias_{{2, 4, 70, 90}};
  Tensor<double, 4> wide_bias_{{2, 4, 70, 90}};
  std::array<Index, 2> first_key_{17, 70}, key_length_{81, 90};
};

TEST(Backward, HasTheCanonicalBitsWithEveryOption) {
  const EveryOption options;
  for (std::size_t n = 0; n < options.all.size(); ++n) {
    SCOPED_TRACE(n);
    expect_canonical_bits<float>(options.shape, options.all[n]);
    expect_canonical_bits<double>(options.shape, options.all[n]);
  }
}

// The digest is stored: whatever computes it, on whatever machine, these are the bits.
TEST(Backward, DozensOfProblemsHaveTheStoredDigest) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto add = [&](const auto& tensor) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(tensor.data());
    const std::size_t size = sizeof(*tensor.data()) * static_cast<std::size_t>(tensor.size());
    for (std::size_t n = 0; n < size; ++n) hash = (hash ^ bytes[n]) * 0x100000001b3U;
  };
  const auto add_problem = [&](const Shape& shape, const AttentionOptions& options) {
    const auto found = Inputs<float>(shape, options).fast(options);
    add(found.d_q);
    add(found.d_k);
    add(found.d_v);
  };
  for (const Shape& shape : shapes) add_problem(shape, {.causal = Causal::top_left});
  add_problem({1, 2, 1, 1030, 1100, 2, 3}, {});
  const EveryOption options;
  for (const AttentionOptions& one : options.all) add_problem(options.shape, one);
  EXPECT_EQ(hash, 0xb5e7ea263b9c4421U);
}

TEST(Backward, StridesDoNotMatter) {
  const AttentionOptions options{.causal = Causal::top_left};
  const Shape shape{2, 3, 3, 70, 70, 20, 9};
  const Inputs<float> inputs(shape, options);
  const auto expected = inputs.fast(options);
  // The same logical arrays stored as [last, heads, seq_len, batch], lse as [seq_len, heads,
  // batch].
  const auto turned = [](const Tensor<float, 4>& tensor) {
    return Tensor<float, 4>(tensor.view().transposed(0, 3));
  };
  const auto q = turned(inputs.q), k = turned(inputs.k), v = turned(inputs.v);
  const auto out = turned(inputs.out), d_out = turned(inputs.d_out);
  const Tensor<float, 3> lse(inputs.lse.view().transposed(0, 2));
  Tensor<float, 4> d_q(q.shape()), d_k(k.shape()), d_v(v.shape());
  const auto back = [](auto& tensor) { return tensor.view().transposed(0, 3); };
  const auto done = attention_backward_into<float>(back(q), back(k), back(v), back(out),
                                                   lse.view().transposed(0, 2), back(d_out),
                                                   options, back(d_q), back(d_k), back(d_v));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(same(expected, {turned(d_q), turned(d_k), turned(d_v)}));
}

// The second shape is enough work for threads; threads take their mode from the first call of a
// thread, so that each is one.
TEST(Backward, TheCallersRoundingModeAndFlushToZeroDoNotMatter) {
  for (const Shape& shape : {Shape{1, 1, 1, 20, 20, 8, 8}, Shape{1, 8, 8, 100, 300, 8, 8}}) {
    Inputs<float> inputs(shape, {});
    for (float& value : inputs.d_out) value *= 1e-36F;  // gradients are subnormal
    inputs.run_forward({});
    const auto expected = inputs.fast({});
    std::thread([&] {
      std::fesetround(FE_UPWARD);
#if defined(__SSE__)
      const unsigned before = _mm_getcsr();
      _mm_setcsr(before | 0x8040);
#endif
      const auto found = inputs.fast({});
#if defined(__SSE__)
      EXPECT_EQ(_mm_getcsr() & 0xE040U, (before | 0x8040) & 0xE040U);
      _mm_setcsr(before);
#endif
      EXPECT_EQ(std::fegetround(), FE_UPWARD);
      EXPECT_TRUE(same(expected, found)) << shape;
    }).join();
  }
}

TEST(Backward, TheRestOfTheBatchAndTheOtherHeadsDoNotMatter) {
  const Shape shape{2, 6, 2, 70, 80, 9, 5};
  const Inputs<float> inputs(shape, {});
  const auto together = inputs.fast({});
  for (Index b = 0; b < 2; ++b) {
    for (Index kv = 0; kv < 2; ++kv) {
      // Three query heads read one key head.
      const auto one = [&](const auto& tensor, Index heads) {
        auto view = tensor.view();
        view.data += b * view.strides[0] + kv * heads * view.strides[1];
        view.shape[0] = 1;
        view.shape[1] = heads;
        return view;
      };
      const auto alone =
          attention_backward<float>(one(inputs.q, 3), one(inputs.k, 1), one(inputs.v, 1),
                                    one(inputs.out, 3), one(inputs.lse, 3), one(inputs.d_out, 3))
              .value();
      EXPECT_TRUE(same(
          alone, {Tensor<float, 4>(one(together.d_q, 3)), Tensor<float, 4>(one(together.d_k, 1)),
                  Tensor<float, 4>(one(together.d_v, 1))}))
          << b << " " << kv;
    }
  }
}

TEST(Backward, TheSameAllowedSetGivesTheSameBitsHoweverItIsExpressed) {
  const Shape shape{1, 2, 1, 100, 100, 6, 6};
  const auto expect_same = [&](const AttentionOptions& one, const AttentionOptions& other) {
    const Inputs<float> inputs(shape, one);
    EXPECT_TRUE(same(inputs.fast(one), inputs.fast(other)));
  };
  std::array<bool, 100 * 100> may{};
  const View<bool, 4> mask{may.data(), {1, 1, 100, 100}};
  Tensor<float, 4> bias({1, 1, 100, 100});
  const auto forbid_unless = [&](auto&& allowed) {
    for (Index i = 0; i < 100; ++i) {
      for (Index j = 0; j < 100; ++j) {
        mask(0, 0, i, j) = allowed(i, j);
        bias(0, 0, i, j) = allowed(i, j) ? 0 : -infinity;
      }
    }
  };
  const AttentionOptions by_mask{.mask = View<const bool, 4>(mask)};
  const AttentionOptions by_bias{.mask = View<const float, 4>(bias.view())};

  forbid_unless([](Index i, Index j) { return j <= i; });
  const AttentionOptions causal{.causal = Causal::top_left};
  expect_same(causal, by_mask);
  expect_same(causal, by_bias);
  expect_same(causal, {.window_right = 0});
  expect_same(causal, {.causal = Causal::bottom_right});

  forbid_unless([](Index i, Index j) { return j <= i && j > i - 40; });
  expect_same({.causal = Causal::top_left, .window = 40}, by_mask);
  expect_same({.causal = Causal::top_left, .window = 40}, by_bias);

  forbid_unless([](Index, Index j) { return j >= 3 && j < 77; });
  const Index first = 3, length = 77;
  const AttentionOptions by_length{.first_key = {&first, {1}}, .key_length = {&length, {1}}};
  expect_same(by_length, by_mask);
  expect_same(by_length, by_bias);
}

TEST(Backward, WhatAQueryDoesNotSeeMayHoldAnything) {
  constexpr Index length = 140;
  const AttentionOptions causal{.causal = Causal::top_left};
  const Inputs<float> clean({1, 1, 1, length, length, 8, 8}, causal);
  const auto expected = clean.fast(causal);
  for (const float poison : {std::nanf(""), infinity, -infinity, 1e38F, 1e-45F}) {
    for (const Index j : {1, 5, 63, 64, 65, 139}) {
      auto poisoned = clean, quiet = clean;
      for (Index c = 0; c < 8; ++c) {
        for (auto* x : {&poisoned.q, &poisoned.k, &poisoned.v}) (*x)(0, 0, j, c) = poison;
        for (Index i = j; i < length; ++i) quiet.d_out(0, 0, i, c) = 0;
      }
      poisoned.run_forward(causal);
      const auto found = poisoned.fast(causal);
      poisoned.d_out = quiet.d_out;
      const auto quiet_expected = quiet.fast(causal), quiet_found = poisoned.fast(causal);
      for (Index i = 0; i < length; ++i) {
        for (Index c = 0; c < 8; ++c) {
          if (i < j) {
            ASSERT_TRUE(same(expected.d_q(0, 0, i, c), found.d_q(0, 0, i, c)))
                << poison << " at " << j << ", row " << i;
          }
          // The loss depends on no row from j on: so holds for keys what holds for queries.
          ASSERT_TRUE(same(quiet_expected.d_k(0, 0, i, c), quiet_found.d_k(0, 0, i, c)) &&
                      same(quiet_expected.d_v(0, 0, i, c), quiet_found.d_v(0, 0, i, c)))
              << poison << " at " << j << ", key " << i;
          if (i >= j) {
            ASSERT_TRUE(same(quiet_found.d_k(0, 0, i, c), 0.0F)) << poison << " at " << j;
            ASSERT_TRUE(same(quiet_found.d_v(0, 0, i, c), 0.0F)) << poison << " at " << j;
            ASSERT_TRUE(same(quiet_found.d_q(0, 0, i, c), 0.0F)) << poison << " at " << j;
          }
        }
      }
    }
  }
}

TEST(Backward, WhatPaddingHoldsDoesNotMatter) {
  const Index first = 3, length = 77;
  const AttentionOptions options{.first_key = {&first, {1}}, .key_length = {&length, {1}}};
  Inputs<float> inputs({1, 1, 1, 9, 100, 4, 4}, options);
  const auto expected = inputs.fast(options);
  for (Index j = 0; j < 100; ++j) {
    for (Index c = 0; c < 4; ++c) {
      if (j < first || j >= length) inputs.k(0, 0, j, c) = inputs.v(0, 0, j, c) = std::nanf("");
    }
  }
  EXPECT_TRUE(same(expected, inputs.fast(options)));
  EXPECT_TRUE(same(expected.d_k(0, 0, 2, 0), 0.0F) && same(expected.d_v(0, 0, 77, 0), 0.0F));
}

TEST(Backward, WhatNobodySeesAndWhoSeesNothingHasGradientsOfPlusZeroWithAnyScale) {
  // Query 0 comes before every key, and the last two keys after every query.
  const AttentionOptions options{.causal = Causal::top_left, .scale = -1, .query_offset = -1};
  const auto found = Inputs<float>({1, 1, 1, 6, 7, 3, 3}, options).fast(options);
  for (Index c = 0; c < 3; ++c) {
    EXPECT_TRUE(same(found.d_q(0, 0, 0, c), 0.0F));
    EXPECT_NE(found.d_q(0, 0, 5, c), 0);
    for (const Index j : {5, 6}) {
      EXPECT_TRUE(same(found.d_k(0, 0, j, c), 0.0F) && same(found.d_v(0, 0, j, c), 0.0F)) << j;
    }
  }
}

TEST(Backward, ABadAllowedLogitShowsInItsRowAndInWhatTheRowSees) {
  const AttentionOptions causal{.causal = Causal::top_left};
  for (const float bad : {std::nanf(""), infinity, -infinity}) {
    Inputs<float> inputs({1, 1, 1, 70, 70, 4, 4});
    std::fill(inputs.k.begin(), inputs.k.end(), 1.0F);
    inputs.q(0, 0, 66, 0) = bad;
    inputs.run_forward(causal);
    const auto found = inputs.fast(causal);
    for (Index i = 0; i < 70; ++i) {
      EXPECT_EQ(std::isnan(found.d_q(0, 0, i, 0)), i == 66) << i;
      EXPECT_EQ(std::isnan(found.d_v(0, 0, i, 0)), i <= 66) << i;
    }
  }
}

/// How far each gradient may lie from the exact one, to first order in the unit roundoff u: d_q,
/// and d_k and d_v for a column of weights whose sum is 1.
struct Bounds {
  double d_q, d_k, d_v;
};

double largest(const Tensor<double, 4>& tensor) {
  double size = 0;
  for (const double value : tensor) size = std::max(size, std::abs(value));
  return size;
}

Bounds bounds(const Inputs<double>& x, const AttentionOptions& options, double u) {
  const auto n = static_cast<double>(x.k.shape()[2] + x.q.shape()[2] * x.q.shape()[1]);
  const auto head_dim = static_cast<double>(x.q.shape()[3]);
  const auto value_dim = static_cast<double>(x.v.shape()[3]);
  const double scale = options.scale ? std::abs(*options.scale) : 1 / std::sqrt(head_dim);
  // Of sums of products of two arrays, the sum of the sizes of the terms.
  const double scores = scale * head_dim * largest(x.q) * largest(x.k);
  const double values = value_dim * largest(x.d_out) * largest(x.v);
  double lse = 0;
  for (const double value : x.lse) lse = std::max(lse, std::isinf(value) ? 0 : std::abs(value));
  // A logit: head_dim roundings of the chain, then scale, softcap (division, tanh with two ulp,
  // product) and mask. A weight's relative error is that of its logit, that of lse, which has a
  // logit's and those of a sum of n terms, and the subtraction's and the exponential's.
  const double logit = (head_dim + 8) * u * scores;
  const double weight = 2 * logit + u * (n + 2 * (scores + lse) + 8);
  // dp - delta, at most 2 `values` in size: two chains, and out, which has the weights' error and
  // that of a sum of n terms.
  const double difference = values * (2 * (value_dim + 1) * u + 2 * weight + n * u);
  double ds = 2 * values * (weight + 4 * u) + difference;  // times the weight
  if (options.softcap > 0) ds += 2 * values * (2 * logit / options.softcap + 8 * u);
  // The last sums have at most n terms, and the scale.
  const double sum = ds + 2 * values * (n + 3) * u;
  return {scale * largest(x.k) * sum, scale * largest(x.q) * sum,
          largest(x.d_out) * (weight + (n + 3) * u)};
}

template <class Scalar>
void expect_near_the_definition(const Shape& shape, const AttentionOptions& options) {
  Inputs<Scalar> inputs(shape, options);
  const Inputs<double> wide(shape, options);
  const auto found = inputs.fast(options);
  const auto stages = attention_reference<double>(wide.q, wide.k, wide.v, options);
  const auto expected =
      attention_reference_backward<double>(stages, wide.q, wide.k, wide.v, wide.d_out, options);
  const Bounds bound = bounds(wide, options, std::numeric_limits<Scalar>::epsilon() / 2);
  for (Index n = 0; n < found.d_q.size(); ++n) {
    ASSERT_NEAR(found.d_q.data()[n], expected.d_q.data()[n], bound.d_q) << shape;
  }
  const Index group = shape.num_heads / shape.num_kv_heads;
  for (Index b = 0; b < shape.batch; ++b) {
    for (Index h = 0; h < shape.num_kv_heads; ++h) {
      for (Index j = 0; j < shape.seq_len_k; ++j) {
        double column = 0;
        for (Index row = 0; row < group * shape.seq_len_q; ++row) {
          column += stages.A(b, h * group + row / shape.seq_len_q, row % shape.seq_len_q, j);
        }
        for (Index c = 0; c < shape.head_dim; ++c) {
          ASSERT_NEAR(found.d_k(b, h, j, c), expected.d_k(b, h, j, c), bound.d_k * column) << shape;
        }
        for (Index c = 0; c < shape.value_dim; ++c) {
          ASSERT_NEAR(found.d_v(b, h, j, c), expected.d_v(b, h, j, c), bound.d_v * column) << shape;
        }
      }
    }
  }
}

TEST(Backward, AgreesWithTheDefinitionInDoublePrecision) {
  for (const Shape& shape :
       {Shape{1, 1, 1, 1, 1, 3, 2}, {2, 4, 2, 33, 40, 16, 8}, {1, 1, 1, 100, 100, 32, 32}}) {
    expect_near_the_definition<float>(shape, {});
    expect_near_the_definition<double>(shape, {});
    expect_near_the_definition<float>(shape, {.causal = Causal::bottom_right});
  }
  const EveryOption options;
  for (const AttentionOptions& one : options.all) {
    // The float32 problem has no wider bias than a float.
    if (std::holds_alternative<View<const double, 4>>(one.mask)) continue;
    expect_near_the_definition<float>(options.shape, one);
    expect_near_the_definition<double>(options.shape, one);
  }
}

// <d_out, J dx> = <J^T d_out, dx>: the left side by complex step through the definition, the right
// side from the gradients. Neither knows of the other.
TEST(Backward, IsTheAdjointOfTheForwardPassesDerivative) {
  using Complex = std::complex<double>;
  constexpr double step = 1e-100, u = 0x1p-53;
  const EveryOption options;
  for (const AttentionOptions& one : options.all) {
    const Inputs<double> x(options.shape, one);
    const auto gradients = x.fast(one);
    const auto dq = draw<double>(x.q.shape(), 11), dk = draw<double>(x.k.shape(), 12);
    const auto dv = draw<double>(x.v.shape(), 13);
    const auto moved = [&](const Tensor<double, 4>& from, const Tensor<double, 4>& along) {
      Tensor<Complex, 4> tensor(from.shape());
      for (Index n = 0; n < from.size(); ++n) {
        tensor.data()[n] = {from.data()[n], step * along.data()[n]};
      }
      return tensor;
    };
    const auto out =
        attention_reference<Complex>(moved(x.q, dq), moved(x.k, dk), moved(x.v, dv), one).out;
    double forward = 0, backward = 0, size = 0;
    for (Index n = 0; n < out.size(); ++n) {
      const double term = x.d_out.data()[n] * out.data()[n].imag() / step;
      forward += term;
      size += std::abs(term);
    }
    const auto add = [&](const Tensor<double, 4>& gradient, const Tensor<double, 4>& along) {
      double length = 0;
      for (Index n = 0; n < gradient.size(); ++n) {
        backward += gradient.data()[n] * along.data()[n];
        size += std::abs(gradient.data()[n] * along.data()[n]);
        length += std::abs(along.data()[n]);
      }
      return length;
    };
    // Each gradient's error, a column of weights being at most 1 for each of the group's queries;
    // the definition's derivative has at most as large ones; and those of two long sums.
    const Bounds bound = bounds(x, one, u);
    const double rows = 2 * 70;
    const double tolerance =
        2 * (bound.d_q * add(gradients.d_q, dq) + bound.d_k * rows * add(gradients.d_k, dk) +
             bound.d_v * rows * add(gradients.d_v, dv)) +
        static_cast<double>(out.size() + 3 * x.q.size()) * u * size;
    EXPECT_NEAR(forward, backward, tolerance);
    EXPECT_GT(size, 1e6 * tolerance);
  }
}

TEST(Backward, TellsHowFarItIsAndStopsWhenAsked) {
  const Shape shape{2, 2, 1, 1030, 300, 2, 2};
  std::vector<double> shares;
  AttentionOptions options{.progress = [&](double share) {
    shares.push_back(share);
    return true;
  }};
  const Inputs<float> inputs(shape, {});
  EXPECT_TRUE(same(inputs.fast({}), inputs.fast(options)));
  ASSERT_EQ(shares.size(), 8U);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_EQ(shares.back(), 1);

  int calls = 0;
  options.progress = [&](double) { return ++calls < 3; };
  const auto stopped = attention_backward<float>(inputs.q, inputs.k, inputs.v, inputs.out,
                                                 inputs.lse, inputs.d_out, options);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().message, "attention_backward was stopped by its progress callback");
  EXPECT_EQ(calls, 3);
}

// Without channels every score is 0 and every weight the same.
TEST(Backward, AHeadWithoutChannelsHasTheCanonicalBits) {
  expect_canonical_bits<float>({1, 2, 1, 70, 70, 0, 3}, {.scale = 1});
  expect_canonical_bits<float>({1, 2, 1, 70, 70, 3, 0}, {});
}

TEST(Backward, SaysWhatIsWrong) {
  Inputs<float> x({1, 2, 1, 3, 4, 5, 6}, {});
  AttentionGradients<float> g{x.q, x.k, x.v};
  const auto message = [&] {
    const auto done = attention_backward_into<float>(x.q, x.k, x.v, x.out, x.lse, x.d_out, {},
                                                     g.d_q.view(), g.d_k.view(), g.d_v.view());
    return done ? std::string() : done.error().message;
  };
  const auto expect_named = [&](auto& tensor, auto other, const std::string& name) {
    const auto kept = std::exchange(tensor, std::move(other));
    EXPECT_EQ(message().rfind(name, 0), 0U) << name << ": " << message();
    tensor = kept;
  };
  EXPECT_EQ(message(), "");
  expect_named(x.out, x.v, "out has shape [1, 1, 4, 6]");
  expect_named(x.lse, Tensor<float, 3>({1, 2, 4}), "lse has shape [1, 2, 4]");
  expect_named(x.d_out, x.v, "d_out has shape [1, 1, 4, 6]");
  expect_named(g.d_q, x.k, "d_q has shape [1, 1, 4, 5]");
  expect_named(g.d_k, x.q, "d_k has shape [1, 2, 3, 5]");
  expect_named(g.d_v, x.q, "d_v has shape [1, 2, 3, 5]");
  expect_named(x.k, x.v, "q has head_dim");
  const auto overlap = attention_backward_into<float>(x.q, x.k, x.v, x.out, x.lse, x.d_out, {},
                                                      x.q.view(), g.d_k.view(), g.d_v.view());
  ASSERT_FALSE(overlap);
  EXPECT_EQ(overlap.error().message.rfind("d_q", 0), 0U) << overlap.error().message;
}

}  // namespace
}  // namespace headproof
