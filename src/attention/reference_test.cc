#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "attention/test_tensors.h"

namespace headproof {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// q, k, v [1, 1, queries or keys, dim] written out by hand.
Tensor<double, 4> rows(const std::vector<std::vector<double>>& values) {
  Tensor<double, 4> tensor(
      {1, 1, static_cast<Index>(values.size()), static_cast<Index>(values[0].size())});
  double* place = tensor.data();
  for (const auto& row : values) place = std::copy(row.begin(), row.end(), place);
  return tensor;
}

View<const Index, 1> keys_view(const std::vector<Index>& numbers) {
  return {numbers.data(), {static_cast<Index>(numbers.size())}};
}

TEST(Reference, TwoEqualScoresShareTheWeight) {
  const auto stages =
      attention_reference<double>(rows({{1}}), rows({{2}, {2}}), rows({{10, 0}, {20, 4}}));
  EXPECT_EQ(stages.A(0, 0, 0, 0), 0.5);
  EXPECT_EQ(stages.out(0, 0, 0, 0), 15);
  EXPECT_EQ(stages.out(0, 0, 0, 1), 2);
  EXPECT_NEAR(stages.lse(0, 0, 0), 2 + std::log(2.0), 1e-15);
}

TEST(Reference, TheScaleIsOneOverTheRootOfAnyHeadDimOrTheGivenOne) {
  const auto q = draw<double>({1, 1, 1, 80}, 1), k = draw<double>({1, 1, 1, 80}, 2);
  double dot = 0;
  for (Index c = 0; c < 80; ++c) dot += q(0, 0, 0, c) * k(0, 0, 0, c);
  EXPECT_NEAR(attention_reference<double>(q, k, k).scores(0, 0, 0, 0), dot / std::sqrt(80.0),
              1e-13);
  EXPECT_NEAR(attention_reference<double>(q, k, k, {Causal::none, 3.0}).scores(0, 0, 0, 0), 3 * dot,
              1e-12);
}

TEST(Reference, TheTwoCausalCornersDifferWhenThereAreMoreKeysThanQueries) {
  const auto q = draw<double>({1, 1, 2, 4}, 1), k = draw<double>({1, 1, 5, 4}, 2);
  const auto visible = [&](Causal causal, Index i) {
    const auto stages = attention_reference<double>(q, k, k, {causal, {}});
    Index count = 0;
    for (Index j = 0; j < 5; ++j) count += stages.A(0, 0, i, j) > 0 ? 1 : 0;
    return count;
  };
  EXPECT_EQ(visible(Causal::none, 0), 5);
  EXPECT_EQ(visible(Causal::top_left, 0), 1);
  EXPECT_EQ(visible(Causal::top_left, 1), 2);
  EXPECT_EQ(visible(Causal::bottom_right, 0), 4);
  EXPECT_EQ(visible(Causal::bottom_right, 1), 5);
}

TEST(Reference, ARowWithoutAnAllowedKeyIsZeroAndItsLseMinusInfinity) {
  // Three queries, two keys, bottom right: the first query comes before every key.
  const auto q = draw<double>({1, 1, 3, 4}, 1), k = draw<double>({1, 1, 2, 4}, 2);
  const AttentionOptions options{Causal::bottom_right, {}};
  const auto stages = attention_reference<double>(q, k, k, options);
  EXPECT_EQ(stages.lse(0, 0, 0), -infinity);
  const auto d_out = draw<double>({1, 1, 3, 4}, 3);
  const auto gradients = attention_reference_backward<double>(stages, q, k, k, d_out, options);
  for (Index c = 0; c < 4; ++c) {
    EXPECT_EQ(stages.out(0, 0, 0, c), 0);
    EXPECT_EQ(gradients.d_q(0, 0, 0, c), 0);
    EXPECT_FALSE(std::isnan(gradients.d_k(0, 0, 0, c)));
  }
}

TEST(Reference, WhatIsMaskedMayHoldAnything) {
  const auto q = draw<double>({1, 1, 4, 3}, 1), k = draw<double>({1, 1, 4, 3}, 2);
  const auto v = draw<double>({1, 1, 4, 3}, 3), d_out = draw<double>({1, 1, 4, 3}, 4);
  const AttentionOptions options{Causal::top_left, {}};
  const auto clean = attention_reference<double>(q, k, v, options);
  for (double poison : {std::nan(""), infinity, -infinity, 1e308, 5e-324}) {
    auto bad_k = k, bad_v = v, quiet_d_out = d_out;
    for (Index c = 0; c < 3; ++c) {
      bad_k(0, 0, 3, c) = bad_v(0, 0, 3, c) = poison;
      quiet_d_out(0, 0, 3, c) = 0;
    }
    const auto stages = attention_reference<double>(q, bad_k, bad_v, options);
    for (Index i = 0; i < 3; ++i) {
      EXPECT_EQ(stages.lse(0, 0, i), clean.lse(0, 0, i));
      for (Index c = 0; c < 3; ++c) EXPECT_EQ(stages.out(0, 0, i, c), clean.out(0, 0, i, c));
    }
    const auto one = attention_reference_backward<double>(clean, q, k, v, quiet_d_out, options);
    const auto other =
        attention_reference_backward<double>(stages, q, bad_k, bad_v, quiet_d_out, options);
    for (Index i = 0; i < 3; ++i) {
      for (Index c = 0; c < 3; ++c) EXPECT_EQ(one.d_q(0, 0, i, c), other.d_q(0, 0, i, c));
    }
  }
}

TEST(Reference, ABadAllowedLogitShowsAsNaNInItsRowAndInNoOther) {
  const auto k = rows({{1}, {1}}), v = rows({{1}, {2}});
  for (double bad : {std::nan(""), infinity, -infinity}) {
    const auto stages = attention_reference<double>(rows({{bad}, {1}}), k, v);
    EXPECT_TRUE(std::isnan(stages.out(0, 0, 0, 0))) << bad;
    EXPECT_EQ(stages.out(0, 0, 1, 0), 1.5) << bad;
  }
}

TEST(Reference, ScoresOfAnySizeGiveFiniteRows) {
  for (double size : {1e30, -1e30, 1e4, -1e4}) {
    const auto stages =
        attention_reference<double>(rows({{size}}), rows({{1}, {1}, {2}}), rows({{3}, {5}, {7}}));
    EXPECT_EQ(stages.out(0, 0, 0, 0), size > 0 ? 7 : 4) << size;
  }
}

TEST(Reference, GroupedHeadsReadTheKeyHeadOfTheirGroup) {
  const auto q = draw<double>({2, 6, 3, 4}, 1), k = draw<double>({2, 2, 3, 4}, 2);
  const auto v = draw<double>({2, 2, 3, 5}, 3);
  const auto grouped = attention_reference<double>(q, k, v);
  for (Index h = 0; h < 6; ++h) {
    const auto single = attention_reference<double>(q[1][h].with_axis(0).with_axis(0),
                                                    k.view()[1][h / 3].with_axis(0).with_axis(0),
                                                    v.view()[1][h / 3].with_axis(0).with_axis(0));
    EXPECT_EQ(grouped.out(1, h, 2, 4), single.out(0, 0, 2, 4)) << h;
  }
}

TEST(Reference, TakesAnyStrides) {
  const auto q = draw<float>({2, 3, 5, 4}, 1), k = draw<float>({2, 3, 5, 4}, 2);
  // The same logical arrays stored as [batch, seq_len, num_heads, dim].
  const Tensor<float, 4> q_stored(q.view().transposed(1, 2)), k_stored(k.view().transposed(1, 2));
  const auto dense = attention_reference<float>(q, k, k, {Causal::top_left, {}});
  const auto strided =
      attention_reference<float>(q_stored.view().transposed(1, 2), k_stored.view().transposed(1, 2),
                                 k_stored.view().transposed(1, 2), {Causal::top_left, {}});
  EXPECT_TRUE(std::equal(dense.out.begin(), dense.out.end(), strided.out.begin()));
}

TEST(Reference, SizesOfZeroGiveEmptyOrZeroResults) {
  const Tensor<float, 4> none({1, 1, 0, 4}), three({1, 1, 3, 4}), no_batch({0, 1, 3, 4});
  EXPECT_EQ(attention_reference<float>(none, three, three).out.size(), 0);
  EXPECT_EQ(attention_reference<float>(no_batch, no_batch, no_batch).out.size(), 0);
  const auto no_keys = attention_reference<float>(three, none, none);
  EXPECT_EQ(no_keys.out(0, 0, 2, 3), 0);
  EXPECT_EQ(no_keys.lse(0, 0, 0), -std::numeric_limits<float>::infinity());
  const Tensor<float, 4> no_width({1, 1, 3, 0});
  EXPECT_EQ(attention_reference<float>(three, three, no_width).out.size(), 0);
}

// Complex step (W. Squire and G. Trapp, SIAM Review 40, 1998): f(x + ih) = f(x) + ih f'(x) to
// rounding, without the cancellation of a difference.
TEST(Reference, GradientsAreThoseOfTheComplexStepTo1em12) {
  using Complex = std::complex<double>;
  constexpr double step = 1e-100;
  const std::array<Index, 4> shapes[] = {{2, 4, 3, 5}, {2, 2, 6, 5}, {2, 2, 6, 3}};
  auto bias = draw<double>({2, 1, 3, 6}, 7);
  bias(0, 0, 1, 2) = bias(1, 0, 2, 5) = -infinity;
  const std::vector<Index> first{0, 2}, length{5, 6};
  const AttentionOptions problems[] = {
      {},
      {.causal = Causal::top_left},
      {.causal = Causal::bottom_right},
      {.softcap = 0.7},
      {.scale = -0.3, .softcap = 2, .mask = bias.view()},
      {.mask = bias.view()},
      {.causal = Causal::top_left, .query_offset = 2, .window = 2},
      {.window = 2, .window_right = 1, .softcap = 1.5},
      {.first_key = keys_view(first), .key_length = keys_view(length)}};
  for (const AttentionOptions& options : problems) {
    SCOPED_TRACE(&options - problems);
    Tensor<double, 4> inputs[3];
    Tensor<Complex, 4> complex_inputs[3];
    for (int t = 0; t < 3; ++t) {
      inputs[t] = draw<double>(shapes[t], static_cast<std::uint64_t>(t));
      complex_inputs[t] = Tensor<Complex, 4>(shapes[t]);
      std::copy(inputs[t].begin(), inputs[t].end(), complex_inputs[t].begin());
    }
    const auto d_out = draw<double>({2, 4, 3, 3}, 9);
    const auto forward = attention_reference<double>(inputs[0], inputs[1], inputs[2], options);
    const auto gradients = attention_reference_backward<double>(forward, inputs[0], inputs[1],
                                                                inputs[2], d_out, options);
    const Tensor<double, 4>* found[] = {&gradients.d_q, &gradients.d_k, &gradients.d_v};
    for (int t = 0; t < 3; ++t) {
      for (Index n = 0; n < inputs[t].size(); ++n) {
        complex_inputs[t].data()[n] += Complex(0, step);
        const auto moved = attention_reference<Complex>(complex_inputs[0], complex_inputs[1],
                                                        complex_inputs[2], options);
        complex_inputs[t].data()[n] -= Complex(0, step);
        double expected = 0;
        for (Index o = 0; o < d_out.size(); ++o) {
          expected += d_out.data()[o] * moved.out.data()[o].imag() / step;
        }
        EXPECT_NEAR(found[t]->data()[n], expected, 1e-12) << "tensor " << t << " element " << n;
      }
    }
  }
}

TEST(Reference, ASoftcapBoundsTheScoresBeforeTheMaskAddsToThem) {
  const auto q = rows({{1}}), k = rows({{0}, {3}, {-3}, {1e300}}), v = rows({{1}, {2}, {3}, {4}});
  const auto bias = rows({{0.5, 0.25, -1, -infinity}});
  const auto stages = attention_reference<double>(q, k, v, {.softcap = 2, .mask = bias.view()});
  const double capped = 2 * std::tanh(1.5);
  const double expected[] = {0.5, capped + 0.25, -capped - 1, -infinity};
  for (Index j = 0; j < 4; ++j) {
    EXPECT_EQ(stages.scores(0, 0, 0, j), k(0, 0, j, 0)) << j;
    EXPECT_EQ(stages.logits(0, 0, 0, j), expected[j]) << j;
  }
  EXPECT_EQ(stages.A(0, 0, 0, 3), 0);
  const auto open = attention_reference<double>(q, k, v, {.softcap = 2});
  EXPECT_EQ(open.logits(0, 0, 0, 3), 2);
  // In float the hyperbolic tangent is the double one, rounded.
  const Tensor<float, 4> one({1, 1, 1, 1});
  auto x = one;
  for (float value = -9; value < 9; value += 0x1.23p-6F) {
    x(0, 0, 0, 0) = value;
    auto y = one;
    y(0, 0, 0, 0) = 1;
    EXPECT_EQ(attention_reference<float>(x, y, y, {.softcap = 1}).logits(0, 0, 0, 0),
              static_cast<float>(std::tanh(static_cast<double>(value))));
  }
}

/// What attention gives, forward and backward, in one list, so that results can be compared.
std::vector<double> results_of(View<const double, 4> q, View<const double, 4> k,
                               View<const double, 4> v, View<const double, 4> d_out,
                               const AttentionOptions& options) {
  const auto stages = attention_reference<double>(q, k, v, options);
  const auto gradients = attention_reference_backward<double>(stages, q, k, v, d_out, options);
  std::vector<double> all;
  for (const auto* tensor :
       {&stages.logits, &stages.A, &stages.out, &gradients.d_q, &gradients.d_k, &gradients.d_v}) {
    all.insert(all.end(), tensor->begin(), tensor->end());
  }
  all.insert(all.end(), stages.lse.begin(), stages.lse.end());
  return all;
}

/// A mask for seq_len_q x seq_len_k in which `allowed(i, j)` decides.
template <class T, class Allowed>
Tensor<T, 4> mask_of(Index seq_len_q, Index seq_len_k, T yes, T no, Allowed allowed) {
  Tensor<T, 4> mask({1, 1, seq_len_q, seq_len_k});
  for (Index i = 0; i < seq_len_q; ++i) {
    for (Index j = 0; j < seq_len_k; ++j) mask(0, 0, i, j) = allowed(i, j) ? yes : no;
  }
  return mask;
}

TEST(Reference, TheWayInWhichTheAllowedSetIsSaidDoesNotMatter) {
  const Index seq_len_q = 5, seq_len_k = 7;
  const auto q = draw<double>({1, 2, 5, 3}, 1), k = draw<double>({1, 2, 7, 3}, 2);
  const auto v = draw<double>({1, 2, 7, 4}, 3), d_out = draw<double>({1, 2, 5, 4}, 4);
  const std::vector<Index> six{6}, five{5};
  const auto same = [&](const std::vector<AttentionOptions>& ways, auto allowed) {
    // Tensors of bool are vectors of bits, which no view shows: char has the same bytes.
    const auto flags = mask_of<char>(seq_len_q, seq_len_k, 1, 0, allowed);
    const auto bias = mask_of<double>(seq_len_q, seq_len_k, 0.0, -infinity, allowed);
    const auto float_bias = mask_of<float>(seq_len_q, seq_len_k, 0.0F,
                                           -std::numeric_limits<float>::infinity(), allowed);
    const auto* yes = reinterpret_cast<const bool*>(flags.data());
    const auto expected =
        results_of(q, k, v, d_out, {.mask = View<const bool, 4>(yes, flags.shape())});
    EXPECT_EQ(results_of(q, k, v, d_out, {.mask = bias.view()}), expected);
    EXPECT_EQ(results_of(q, k, v, d_out, {.mask = float_bias.view()}), expected);
    for (const AttentionOptions& options : ways) {
      EXPECT_EQ(results_of(q, k, v, d_out, options), expected) << &options - ways.data();
    }
  };
  same({{}, {.query_offset = 3}, {.window = 8, .window_right = 8}},
       [](Index, Index) { return true; });
  same({{.causal = Causal::top_left},
        {.window_right = 0},
        {.causal = Causal::top_left, .window_right = 3},
        {.causal = Causal::top_left, .window = 5}},
       [](Index i, Index j) { return j <= i; });
  same({{.causal = Causal::bottom_right}, {.causal = Causal::top_left, .query_offset = 2}},
       [](Index i, Index j) { return j <= i + 2; });
  same({{.causal = Causal::bottom_right, .key_length = keys_view(five)},
        {.causal = Causal::top_left, .key_length = keys_view(six)}},
       [](Index i, Index j) { return j <= i; });
  same({{.causal = Causal::top_left, .query_offset = -2}},
       [](Index i, Index j) { return j <= i - 2; });
  same({{.causal = Causal::top_left, .query_offset = 1, .window = 2},
        {.query_offset = 1, .window = 2, .window_right = 0}},
       [](Index i, Index j) { return j <= i + 1 && j >= i; });
  same({{.window = 3}}, [](Index i, Index j) { return j > i - 3; });
  same({{.query_offset = 1, .window = 2, .window_right = 2}},
       [](Index i, Index j) { return j >= i && j <= i + 3; });
}

TEST(Reference, PaddingIsNoPartOfTheSequenceAndOtherwiseLikeAMask) {
  const auto q = draw<double>({3, 2, 4, 3}, 1), k = draw<double>({3, 2, 7, 3}, 2);
  const auto v = draw<double>({3, 2, 7, 2}, 3), d_out = draw<double>({3, 2, 4, 2}, 4);
  const std::vector<Index> first{0, 2, 4}, length{7, 5, 4};
  const AttentionOptions options{.first_key = keys_view(first), .key_length = keys_view(length)};
  const auto all = attention_reference<double>(q, k, v, options);
  for (Index b = 0; b < 3; ++b) {
    const Index begin = first[static_cast<std::size_t>(b)];
    const Index count = length[static_cast<std::size_t>(b)] - begin;
    const auto part = [&](const Tensor<double, 4>& of) {
      auto view = of[b].with_axis(0);
      view.data += begin * view.strides[2];
      view.shape[2] = count;
      return view;
    };
    const auto alone = attention_reference<double>(q[b].with_axis(0), part(k), part(v));
    for (Index h = 0; h < 2; ++h) {
      for (Index i = 0; i < 4; ++i) {
        EXPECT_EQ(all.lse(b, h, i), alone.lse(0, h, i));
        EXPECT_EQ(all.out(b, h, i, 1), alone.out(0, h, i, 1));
        for (Index j = 0; j < 7; ++j) {
          const bool inside = j >= begin && j < begin + count;
          EXPECT_EQ(all.scores(b, h, i, j), inside ? alone.scores(0, h, i, j - begin) : 0);
          EXPECT_EQ(all.logits(b, h, i, j), inside ? alone.logits(0, h, i, j - begin) : -infinity);
        }
      }
    }
  }
}

TEST(Reference, PaddingIsNeverRead) {
  // The buffers hold the five keys of the sequence and nothing beyond, which is where an address
  // sanitizer looks, and the two before its first are poison.
  const auto q = draw<double>({1, 1, 4, 3}, 1), d_out = draw<double>({1, 1, 4, 3}, 4);
  auto k = draw<double>({1, 1, 5, 3}, 2), v = draw<double>({1, 1, 5, 3}, 3);
  const std::vector<Index> two{2}, five{5};
  AttentionOptions options{.causal = Causal::bottom_right, .first_key = keys_view(two)};
  const auto expected = attention_reference<double>(q, k, v, options);
  for (Index n = 0; n < 2 * 3; ++n) k.data()[n] = v.data()[n] = std::nan("");
  options.key_length = keys_view(five);
  const View<const double, 4> long_k(k.data(), {1, 1, 1000, 3}), long_v(v.data(), {1, 1, 1000, 3});
  const auto stages = attention_reference<double>(q, long_k, long_v, options);
  const auto gradients =
      attention_reference_backward<double>(stages, q, long_k, long_v, d_out, options);
  EXPECT_EQ(stages.lse(0, 0, 3), expected.lse(0, 0, 3));
  EXPECT_TRUE(std::equal(stages.out.begin(), stages.out.end(), expected.out.begin()));
  for (Index j = 0; j < 1000; ++j) {
    if (j >= 2 && j < 5) continue;
    EXPECT_EQ(stages.scores(0, 0, 3, j), 0);
    EXPECT_EQ(stages.A(0, 0, 3, j), 0);
    EXPECT_EQ(gradients.d_k(0, 0, j, 0), 0);
    EXPECT_EQ(gradients.d_v(0, 0, j, 0), 0);
  }
}

TEST(Reference, NothingOfAMaskedEntryReachesAResultButItsScore) {
  const auto q = draw<double>({1, 1, 4, 3}, 1), k = draw<double>({1, 1, 6, 3}, 2);
  const auto v = draw<double>({1, 1, 6, 3}, 3), d_out = draw<double>({1, 1, 4, 3}, 4);
  // Whoever may not see key 2, by whatever means, does not notice what it holds.
  const auto not_2 = [](Index, Index j) { return j != 2; };
  const auto flags = mask_of<char>(4, 6, 1, 0, not_2);
  const auto bias = mask_of<double>(4, 6, 0.25, -infinity, not_2);
  const auto* yes = reinterpret_cast<const bool*>(flags.data());
  const std::vector<Index> three{3};
  for (const AttentionOptions& options :
       {AttentionOptions{.mask = View<const bool, 4>(yes, flags.shape())},
        AttentionOptions{.softcap = 2, .mask = bias.view()},
        AttentionOptions{.query_offset = 4, .window = 2},
        AttentionOptions{.causal = Causal::top_left, .query_offset = -2},
        AttentionOptions{.first_key = keys_view(three)}}) {
    const auto expected = results_of(q, k, v, d_out, options);
    for (double poison : {std::nan(""), infinity, -infinity, 1e308, 5e-324}) {
      auto bad_k = k, bad_v = v;
      for (Index c = 0; c < 3; ++c) bad_k(0, 0, 2, c) = bad_v(0, 0, 2, c) = poison;
      EXPECT_EQ(results_of(q, bad_k, bad_v, d_out, options), expected) << poison;
    }
  }
  auto bad_k = k;
  bad_k(0, 0, 2, 1) = std::nan("");
  const auto stages = attention_reference<double>(q, bad_k, v, {.mask = bias.view()});
  EXPECT_TRUE(std::isnan(stages.scores(0, 0, 0, 2)));
  EXPECT_EQ(stages.logits(0, 0, 0, 2), -infinity);
}

TEST(Reference, ARowIsEmptyHoweverItsKeysAreForbidden) {
  const auto q = draw<double>({1, 1, 3, 4}, 1), k = draw<double>({1, 1, 5, 4}, 2);
  const auto d_out = draw<double>({1, 1, 3, 4}, 3);
  const auto not_for_1 = [](Index i, Index) { return i != 1; };
  const auto flags = mask_of<char>(3, 5, 1, 0, not_for_1);
  const auto bias = mask_of<double>(3, 5, 0.0, -infinity, not_for_1);
  const auto* yes = reinterpret_cast<const bool*>(flags.data());
  const std::vector<Index> four{4};
  for (const AttentionOptions& options :
       {AttentionOptions{.mask = View<const bool, 4>(yes, flags.shape())},
        AttentionOptions{.mask = bias.view()}, AttentionOptions{.query_offset = 5, .window = 2},
        AttentionOptions{.query_offset = -3, .window_right = 1},
        AttentionOptions{.query_offset = -(Index{1} << 60), .window_right = 1},
        AttentionOptions{.query_offset = Index{1} << 60, .window = 1},
        AttentionOptions{.first_key = keys_view(four), .key_length = keys_view(four)}}) {
    const auto stages = attention_reference<double>(q, k, k, options);
    const auto gradients = attention_reference_backward<double>(stages, q, k, k, d_out, options);
    EXPECT_EQ(stages.lse(0, 0, 1), -infinity);
    for (Index c = 0; c < 4; ++c) {
      EXPECT_EQ(stages.out(0, 0, 1, c), 0);
      EXPECT_EQ(gradients.d_q(0, 0, 1, c), 0);
    }
    for (Index j = 0; j < 5; ++j) EXPECT_EQ(stages.A(0, 0, 1, j), 0);
  }
}

TEST(Reference, AnAxisOfSizeOneOfTheMaskStandsForAll) {
  const auto q = draw<double>({2, 3, 4, 5}, 1), k = draw<double>({2, 3, 6, 5}, 2);
  const std::array<Index, 4> full{2, 3, 4, 6};
  for (unsigned axes = 0; axes < 16; ++axes) {
    std::array<Index, 4> shape = full;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      if ((axes >> axis & 1U) != 0) shape[axis] = 1;
    }
    const auto bias = draw<double>(shape, axes);
    auto broadcast = bias.view();
    for (std::size_t axis = 0; axis < 4; ++axis) {
      if (shape[axis] == 1) broadcast.strides[axis] = 0;
    }
    broadcast.shape = full;
    const Tensor<double, 4> filled(broadcast);
    const auto one = attention_reference<double>(q, k, k, {.mask = bias.view()});
    const auto other = attention_reference<double>(q, k, k, {.mask = filled.view()});
    EXPECT_TRUE(std::equal(one.logits.begin(), one.logits.end(), other.logits.begin())) << axes;
    EXPECT_EQ(one.logits(1, 2, 3, 5), one.scores(1, 2, 3, 5) + filled(1, 2, 3, 5)) << axes;
  }
}

TEST(Reference, ABiasThatIsNoNumberShowsInItsRowAlone) {
  const auto q = draw<double>({1, 1, 3, 4}, 1), k = draw<double>({1, 1, 5, 4}, 2);
  const auto clean = attention_reference<double>(q, k, k);
  for (const double bad : {std::nan(""), infinity}) {
    Tensor<double, 4> bias({1, 1, 3, 5});
    bias(0, 0, 1, 4) = bad;
    const auto stages = attention_reference<double>(q, k, k, {.mask = bias.view()});
    for (Index c = 0; c < 4; ++c) {
      EXPECT_EQ(stages.out(0, 0, 0, c), clean.out(0, 0, 0, c));
      EXPECT_TRUE(std::isnan(stages.out(0, 0, 1, c)));
      EXPECT_EQ(stages.out(0, 0, 2, c), clean.out(0, 0, 2, c));
    }
  }
}

TEST(Reference, FloatAgreesWithLongDouble) {
  const auto q = draw<float>({1, 1, 9, 16}, 1), k = draw<float>({1, 1, 9, 16}, 2);
  const auto wide_q = draw<long double>({1, 1, 9, 16}, 1),
             wide_k = draw<long double>({1, 1, 9, 16}, 2);
  const auto one = attention_reference<float>(q, k, k, {Causal::top_left, {}});
  const auto other =
      attention_reference<long double>(wide_q, wide_k, wide_k, {Causal::top_left, {}});
  // 16 products, 9 weights: (16 + 9 + 10) roundings of numbers up to 4 in size.
  for (Index n = 0; n < one.out.size(); ++n) {
    EXPECT_NEAR(one.out.data()[n], static_cast<double>(other.out.data()[n]), 35 * 4 * 0x1p-24);
  }
}

}  // namespace
}  // namespace headproof
