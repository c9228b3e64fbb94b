#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "headproof/kv_cache.h"
#include "headproof/random.h"
#include "headproof/subject.h"

namespace headproof {
namespace {

using Shape = std::array<Index, 4>;

template <class Scalar>
Tensor<Scalar, 4> draw(Shape shape, std::uint64_t seed) {
  Generator generator(seed);
  Tensor<float, 1> values({View<float, 4>(nullptr, shape).size()});
  generator.normal(values.view());
  Tensor<Scalar, 4> tensor(shape);
  std::copy(values.begin(), values.end(), tensor.begin());
  return tensor;
}

template <class Scalar, std::size_t Rank>
bool same_bits(const Tensor<Scalar, Rank>& a, const Tensor<Scalar, Rank>& b) {
  const auto same = [](Scalar x, Scalar y) { return std::memcmp(&x, &y, sizeof x) == 0; };
  return a.shape() == b.shape() && std::equal(a.begin(), a.end(), b.begin(), same);
}

template <class Array, class T, std::size_t Rank>
Array array_of(View<T, Rank> view) {
  Array array{view.data, {}};
  std::copy(view.strides.begin(), view.strides.end(), array.strides);
  return array;
}

template <class Scalar>
headproof_input input(View<const Scalar, 4> view) {
  return array_of<headproof_input>(view);
}

template <class T, std::size_t Rank>
headproof_output output(Tensor<T, Rank>& tensor) {
  return array_of<headproof_output>(tensor.view());
}

/// Inputs of one shape, what C++ and C make of them, and the problem of C.
template <class Scalar>
struct Both {
  Tensor<Scalar, 4> q, k, v, d_out, out;
  Tensor<Scalar, 3> lse;
  AttentionGradients<Scalar> d;
  headproof_problem problem{};
  headproof_gradients gradients{};

  Both(Index batch, Index num_heads, Index num_kv_heads, Index seq_len_q, Index seq_len_k,
       Index head_dim, Index value_dim)
      : q(draw<Scalar>({batch, num_heads, seq_len_q, head_dim}, 1)),
        k(draw<Scalar>({batch, num_kv_heads, seq_len_k, head_dim}, 2)),
        v(draw<Scalar>({batch, num_kv_heads, seq_len_k, value_dim}, 3)),
        d_out(draw<Scalar>({batch, num_heads, seq_len_q, value_dim}, 4)),
        out(d_out.shape()),
        lse({batch, num_heads, seq_len_q}),
        d{Tensor<Scalar, 4>(q.shape()), Tensor<Scalar, 4>(k.shape()),
          Tensor<Scalar, 4>(v.shape())} {
    problem.struct_size = sizeof problem;
    problem.dtype = sizeof(Scalar) == 4 ? HEADPROOF_FLOAT32 : HEADPROOF_FLOAT64;
    problem.batch = batch;
    problem.num_heads = num_heads;
    problem.num_kv_heads = num_kv_heads;
    problem.seq_len_q = seq_len_q;
    problem.seq_len_k = seq_len_k;
    problem.head_dim = head_dim;
    problem.value_dim = value_dim;
    problem.q = input<Scalar>(q);
    problem.k = input<Scalar>(k);
    problem.v = input<Scalar>(v);
    problem.out = output(out);
    problem.lse = output(lse);
    gradients = {input<Scalar>(d_out), output(d.d_q), output(d.d_k), output(d.d_v)};
  }
  Both(const Both&) = delete;
  Both& operator=(const Both&) = delete;

  void expect_same(const AttentionOptions& options) {
    std::string error(200, '\0');
    const auto expected = attention<Scalar>(q, k, v, options).value();
    ASSERT_EQ(headproof_attention(&problem, error.data(), error.size()), HEADPROOF_DONE) << error;
    EXPECT_TRUE(same_bits(out, expected.out));
    EXPECT_TRUE(same_bits(lse, expected.lse));
    const auto of_cpp =
        attention_backward<Scalar>(q, k, v, expected.out, expected.lse, d_out, options).value();
    ASSERT_EQ(headproof_attention_backward(&problem, &gradients, error.data(), error.size()),
              HEADPROOF_DONE)
        << error;
    EXPECT_TRUE(same_bits(d.d_q, of_cpp.d_q));
    EXPECT_TRUE(same_bits(d.d_k, of_cpp.d_k));
    EXPECT_TRUE(same_bits(d.d_v, of_cpp.d_v));
  }

  std::string sentence(int expected_status = HEADPROOF_USED_WRONGLY) {
    std::string error(200, '\0');
    EXPECT_EQ(headproof_attention(&problem, error.data(), error.size()), expected_status);
    return error.c_str();
  }
};

template <class Scalar>
void expect_each_option_is_that_of_cpp() {
  const auto with = [](auto set) {
    Both<Scalar> both(2, 4, 2, 7, 65, 5, 3);
    AttentionOptions options;
    set(both.problem, options);
    both.expect_same(options);
  };
  with([](headproof_problem&, AttentionOptions&) {});
  with([](headproof_problem& p, AttentionOptions& options) {
    p.causal = HEADPROOF_CAUSAL_TOP_LEFT;
    options.causal = Causal::top_left;
  });
  with([](headproof_problem& p, AttentionOptions& options) {
    p.causal = HEADPROOF_CAUSAL_BOTTOM_RIGHT;
    options.causal = Causal::bottom_right;
  });
  with([](headproof_problem& p, AttentionOptions& options) {
    p.causal = HEADPROOF_CAUSAL_TOP_LEFT;
    options.causal = Causal::top_left;
    p.has_query_offset = 1;
    p.query_offset = 11;
    options.query_offset = 11;
  });
  with([](headproof_problem& p, AttentionOptions& options) {
    p.has_scale = 1;
    p.scale = 0;
    options.scale = 0;
  });
  with([](headproof_problem& p, AttentionOptions& options) {
    p.softcap = 0.5;
    options.softcap = 0.5;
  });
  with([](headproof_problem& p, AttentionOptions& options) {
    p.window = 2;
    options.window = 2;
  });
  with([](headproof_problem& p, AttentionOptions& options) {
    p.has_window_right = 1;
    options.window_right = 0;
  });
  static constexpr Index first_key[] = {3, 0}, key_length[] = {65, 20};
  with([](headproof_problem& p, AttentionOptions& options) {
    p.first_key = first_key;
    options.first_key = {first_key, {2}};
  });
  with([](headproof_problem& p, AttentionOptions& options) {
    p.key_length = key_length;
    options.key_length = {key_length, {2}};
  });
}

TEST(CApi, EachOptionGivesTheBitsOfCppInFloat) { expect_each_option_is_that_of_cpp<float>(); }

TEST(CApi, EachOptionGivesTheBitsOfCppInDouble) { expect_each_option_is_that_of_cpp<double>(); }

/// A mask of one row for all heads, and every third key allowed: 1, or `allowed` against
/// `forbidden`.
template <class T>
void expect_mask_is_that_of_cpp(std::int32_t kind, T allowed, T forbidden) {
  Both<float> both(2, 4, 2, 7, 65, 5, 3);
  T values[7 * 65];
  for (std::size_t at = 0; at < std::size(values); ++at) {
    values[at] = at % 3 == 0 ? allowed : forbidden;
  }
  const View<const T, 4> mask(values, {1, 1, 7, 65});
  headproof_mask& of_c = both.problem.mask;
  of_c.kind = kind;
  of_c.data = values;
  std::copy(mask.shape.begin(), mask.shape.end(), of_c.shape);
  std::copy(mask.strides.begin(), mask.strides.end(), of_c.strides);
  both.expect_same({.mask = mask});
}

TEST(CApi, MasksOfEachKindGiveTheBitsOfCpp) {
  expect_mask_is_that_of_cpp(HEADPROOF_MASK_BOOL, true, false);
  expect_mask_is_that_of_cpp(HEADPROOF_MASK_FLOAT32, 0.5F, -std::numeric_limits<float>::infinity());
  expect_mask_is_that_of_cpp(HEADPROOF_MASK_FLOAT64, 0.5, -1.0);
}

TEST(CApi, AwkwardSizesGiveTheBitsOfCpp) {
  for (const Index seq_len : {0, 1, 2, 63, 64, 65, 131}) {
    Both<float> both(1, 3, 1, seq_len, seq_len, 7, 17);
    both.problem.causal = HEADPROOF_CAUSAL_TOP_LEFT;
    both.expect_same({.causal = Causal::top_left});
  }
}

TEST(CApi, StridesAreObeyed) {
  Both<double> both(2, 3, 3, 7, 9, 5, 4);
  const auto expected = attention<double>(both.q, both.k, both.v).value();
  // q, k and out lie in memory as [batch, seq_len, num_heads, head_dim]; the keys of v descend.
  const Tensor<double, 4> q(View<const double, 4>(both.q).transposed(1, 2));
  const Tensor<double, 4> k(View<const double, 4>(both.k).transposed(1, 2));
  View<const double, 4> backwards = both.v.view();
  backwards.data += 8 * backwards.strides[2];
  backwards.strides[2] = -backwards.strides[2];
  const Tensor<double, 4> v(backwards);
  View<const double, 4> forwards = v.view();
  forwards.data += 8 * forwards.strides[2];
  forwards.strides[2] = -forwards.strides[2];
  Tensor<double, 4> out({2, 7, 3, 4});
  Tensor<double, 3> lse({2, 7, 3});
  both.problem.q = input(q.view().transposed(1, 2));
  both.problem.k = input(k.view().transposed(1, 2));
  both.problem.v = input(forwards);
  both.problem.out = array_of<headproof_output>(out.view().transposed(1, 2));
  both.problem.lse = array_of<headproof_output>(lse.view().transposed(1, 2));
  EXPECT_EQ(headproof_attention(&both.problem, nullptr, 0), HEADPROOF_DONE);
  EXPECT_TRUE(
      same_bits(Tensor<double, 4>(View<const double, 4>(out).transposed(1, 2)), expected.out));
  EXPECT_TRUE(
      same_bits(Tensor<double, 3>(View<const double, 3>(lse).transposed(1, 2)), expected.lse));
}

TEST(CApi, LseMayBeUnwanted) {
  Both<float> both(1, 2, 1, 5, 6, 4, 3);
  both.problem.lse.data = nullptr;
  EXPECT_EQ(headproof_attention(&both.problem, nullptr, 0), HEADPROOF_DONE);
  EXPECT_TRUE(same_bits(both.out, attention<float>(both.q, both.k, both.v).value().out));
}

TEST(CApi, WhatIsUsedWronglyIsNamed) {
  const auto sentence_after = [](auto spoil) {
    Both<float> both(2, 4, 2, 5, 6, 4, 3);
    spoil(both.problem);
    const std::string sentence = both.sentence();
    for (const float element : both.out) EXPECT_EQ(element, 0);
    return sentence;
  };
  const auto expect_named = [&](const char* start, auto spoil) {
    EXPECT_EQ(sentence_after(spoil).substr(0, std::strlen(start)), start);
  };
  expect_named("struct_size is 0; ", [](headproof_problem& p) { p.struct_size = 0; });
  expect_named("dtype is 0; ", [](headproof_problem& p) { p.dtype = 0; });
  expect_named("dtype is 3; ", [](headproof_problem& p) { p.dtype = 3; });
  expect_named("causal is -1; ", [](headproof_problem& p) { p.causal = -1; });
  expect_named("causal is 3; ", [](headproof_problem& p) { p.causal = 3; });
  expect_named("mask.kind is 4; ", [](headproof_problem& p) { p.mask.kind = 4; });
  expect_named("mask has shape [0, 0, 0, 0]",
               [](headproof_problem& p) { p.mask.kind = HEADPROOF_MASK_BOOL; });
  expect_named("q, k and v need sizes from 0 on", [](headproof_problem& p) { p.seq_len_q = -1; });
  expect_named("the heads of k and v, 3, must divide",
               [](headproof_problem& p) { p.num_kv_heads = 3; });
  expect_named("window is -1; ", [](headproof_problem& p) { p.window = -1; });
  expect_named("q has shape ", [](headproof_problem& p) { p.q.data = nullptr; });
  expect_named("out has shape ", [](headproof_problem& p) { p.out.data = nullptr; });
  expect_named("v.data is not a multiple of 4",
               [](headproof_problem& p) { p.v.data = static_cast<const char*>(p.v.data) + 1; });
  static constexpr Index beyond[] = {0, 7};
  expect_named("key_length[1] is 7; ", [](headproof_problem& p) { p.key_length = beyond; });
  expect_named("lse (shape ", [](headproof_problem& p) { p.lse.data = p.out.data; });
  expect_named("A.data is not null; ", [](headproof_problem& p) { p.A.data = p.out.data; });
}

TEST(CApi, NullStructsAreNamed) {
  std::string error(40, '\0');
  EXPECT_EQ(headproof_attention(nullptr, error.data(), error.size()), HEADPROOF_USED_WRONGLY);
  EXPECT_STREQ(error.c_str(), "problem is null");
  Both<float> both(1, 1, 1, 2, 2, 2, 2);
  EXPECT_EQ(headproof_attention_backward(&both.problem, nullptr, error.data(), error.size()),
            HEADPROOF_USED_WRONGLY);
  EXPECT_STREQ(error.c_str(), "gradients is null");
  EXPECT_EQ(headproof_cache_create(&both.problem, nullptr, error.data(), error.size()),
            HEADPROOF_USED_WRONGLY);
  EXPECT_STREQ(error.c_str(), "cache is null");
  EXPECT_EQ(headproof_cache_append(nullptr, &both.problem, error.data(), error.size()),
            HEADPROOF_USED_WRONGLY);
  EXPECT_STREQ(error.c_str(), "cache is null");
  headproof_cache_free(nullptr);
}

TEST(CApi, AShortBufferHoldsTheSentenceCutAndEnded) {
  Both<float> both(1, 1, 1, 2, 2, 2, 2);
  both.problem.dtype = 9;
  char error[] = "........";
  EXPECT_EQ(headproof_attention(&both.problem, error, 6), HEADPROOF_USED_WRONGLY);
  EXPECT_EQ(std::string(error, 8), std::string("dtype\0..", 8));
  EXPECT_EQ(headproof_attention(&both.problem, error, 1), HEADPROOF_USED_WRONGLY);
  EXPECT_EQ(std::string(error, 8), std::string("\0type\0..", 8));
  EXPECT_EQ(headproof_attention(&both.problem, error, 0), HEADPROOF_USED_WRONGLY);
  EXPECT_EQ(headproof_attention(&both.problem, nullptr, 8), HEADPROOF_USED_WRONGLY);
  EXPECT_EQ(std::string(error, 8), std::string("\0type\0..", 8));
}

TEST(CApi, ProgressGetsItsUserAndMayStop) {
  Both<float> both(1, 4, 4, 600, 600, 16, 16);
  int calls = 0;
  both.problem.progress_user = &calls;
  both.problem.progress = [](double share, void* user) {
    EXPECT_TRUE(share >= 0 && share <= 1) << share;
    return ++*static_cast<int*>(user);
  };
  both.expect_same({});
  EXPECT_GT(calls, 0);
  both.problem.progress = [](double, void*) { return 0; };
  EXPECT_FALSE(both.sentence(HEADPROOF_FAILED).empty());
}

TEST(CApi, NoExceptionCrosses) {
  Both<float> both(1, 4, 4, 600, 600, 16, 16);
  both.problem.progress = [](double, void*) -> int { throw std::bad_alloc(); };
  EXPECT_EQ(both.sentence(HEADPROOF_FAILED), "there is not enough memory");
  both.problem.progress = [](double, void*) -> int { throw std::runtime_error("no more"); };
  EXPECT_EQ(both.sentence(HEADPROOF_FAILED), "no more");
  both.problem.progress = [](double, void*) -> int { throw 1; };
  EXPECT_EQ(both.sentence(HEADPROOF_FAILED), "an exception of an unknown kind stopped the work");
}

template <class Scalar>
void expect_decoding_gives_the_rows_of_all_at_once() {
  static constexpr Index first_key[] = {3, 0};
  Both<Scalar> both(2, 4, 2, 67, 67, 5, 3);
  headproof_problem& p = both.problem;
  p.causal = HEADPROOF_CAUSAL_BOTTOM_RIGHT;
  p.first_key = first_key;
  both.expect_same({.causal = Causal::bottom_right, .first_key = {first_key, {2}}});
  const Tensor<Scalar, 4> out = both.out;
  const Tensor<Scalar, 3> lse = both.lse;
  std::fill(both.out.begin(), both.out.end(), Scalar(0));
  std::fill(both.lse.begin(), both.lse.end(), Scalar(0));

  headproof_cache* cache = nullptr;
  ASSERT_EQ(headproof_cache_create(&p, &cache, nullptr, 0), HEADPROOF_DONE);
  const auto from = [](const auto& tensor, Index token) { return &tensor(0, 0, token, 0); };
  for (Index first = 0; first < 67;) {
    p.seq_len_q = p.seq_len_k = first == 0 ? 30 : 1;
    p.k.data = from(both.k, first);
    p.v.data = from(both.v, first);
    ASSERT_EQ(headproof_cache_append(cache, &p, nullptr, 0), HEADPROOF_DONE);
    ASSERT_EQ(headproof_cache_size(cache), first + p.seq_len_k);
    p.q.data = from(both.q, first);
    p.out.data = &both.out(0, 0, first, 0);
    p.lse.data = &both.lse(0, 0, first);
    ASSERT_EQ(headproof_cache_attend(cache, &p, nullptr, 0), HEADPROOF_DONE);
    first += p.seq_len_k;
  }
  EXPECT_TRUE(same_bits(both.out, out));
  EXPECT_TRUE(same_bits(both.lse, lse));
  headproof_cache_truncate(cache, 66);
  EXPECT_EQ(headproof_cache_size(cache), 66);
  headproof_cache_free(cache);
}

TEST(CApi, DecodingGivesTheRowsOfAllAtOnceInFloat) {
  expect_decoding_gives_the_rows_of_all_at_once<float>();
}

TEST(CApi, DecodingGivesTheRowsOfAllAtOnceInDouble) {
  expect_decoding_gives_the_rows_of_all_at_once<double>();
}

TEST(CApi, AProblemThatDoesNotFitTheCacheIsRefused) {
  Both<float> both(1, 4, 2, 3, 3, 4, 3);
  headproof_problem& p = both.problem;
  headproof_cache* cache = nullptr;
  char error[200];
  const auto expect_refused = [&](int status, const std::string& start) {
    EXPECT_EQ(status, HEADPROOF_USED_WRONGLY);
    EXPECT_EQ(std::string(error).substr(0, start.size()), start);
  };
  const auto append = [&] { return headproof_cache_append(cache, &p, error, sizeof error); };
  const auto attend = [&] { return headproof_cache_attend(cache, &p, error, sizeof error); };
  const auto create = [&] { return headproof_cache_create(&p, &cache, error, sizeof error); };
  static constexpr Index negative[] = {-1};
  p.first_key = negative;
  expect_refused(create(), "first_key holds -1");
  p.first_key = nullptr;
  p.value_dim = -3;
  expect_refused(create(), "q, k and v need sizes from 0 on");
  p.value_dim = 3;
  EXPECT_EQ(cache, nullptr);
  ASSERT_EQ(create(), HEADPROOF_DONE);
  p.seq_len_k = -1;
  expect_refused(append(), "q, k and v need sizes from 0 on");
  p.seq_len_k = 3;
  p.k.data = nullptr;
  expect_refused(append(), "k has shape [1, 2, 3, 4], but its data is null");
  p.k.data = both.k.data();
  p.num_kv_heads = 4;
  expect_refused(append(), "num_kv_heads is 4, and the cache was made with 2");
  expect_refused(attend(), "num_kv_heads is 4, and the cache was made with 2");
  p.num_kv_heads = 2;
  p.head_dim = 2;
  EXPECT_EQ(append(), HEADPROOF_USED_WRONGLY);
  EXPECT_EQ(attend(), HEADPROOF_USED_WRONGLY);
  p.head_dim = 4;
  p.value_dim = 2;
  EXPECT_EQ(append(), HEADPROOF_USED_WRONGLY);
  EXPECT_EQ(attend(), HEADPROOF_USED_WRONGLY);
  p.value_dim = 3;
  p.dtype = HEADPROOF_FLOAT64;
  expect_refused(append(), "dtype is 2, and the cache was made with another");
  expect_refused(attend(), "dtype is 2, and the cache was made with another");
  EXPECT_EQ(headproof_cache_size(cache), 0);
  headproof_cache_free(cache);
}

}  // namespace
}  // namespace headproof
