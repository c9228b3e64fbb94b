#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "headproof/attention.h"
#include "headproof/random.h"

namespace headproof {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class Scalar>
Tensor<Scalar, 4> draw(std::array<Index, 4> shape, std::uint64_t seed) {
  Generator generator(seed);
  Tensor<float, 1> values({View<float, 4>(nullptr, shape).size()});
  generator.normal(values.view());
  Tensor<Scalar, 4> tensor(shape);
  std::copy(values.begin(), values.end(), tensor.begin());
  return tensor;
}

/// q, k, v [1, 1, queries or keys, dim] written out by hand.
Tensor<double, 4> rows(const std::vector<std::vector<double>>& values) {
  Tensor<double, 4> tensor(
      {1, 1, static_cast<Index>(values.size()), static_cast<Index>(values[0].size())});
  double* place = tensor.data();
  for (const auto& row : values) place = std::copy(row.begin(), row.end(), place);
  return tensor;
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

TEST(Reference, ShapesThatMakeNoProblemAreNamed) {
  using Shape = std::array<Index, 4>;
  const auto error = [](Shape q, Shape k, Shape v) {
    const auto found = attention_shape_error(q, k, v);
    return found ? found->message : "";
  };
  EXPECT_EQ(error({1, 4, 3, 8}, {1, 2, 5, 8}, {1, 2, 5, 7}), "");
  EXPECT_NE(error({1, 4, 3, 8}, {1, 3, 5, 8}, {1, 3, 5, 8}).find("[1, 3, 5, 8]"),
            std::string::npos);
  EXPECT_NE(error({1, 1, 3, 8}, {1, 1, 5, 7}, {1, 1, 5, 8}).find("head_dim"), std::string::npos);
  EXPECT_NE(error({1, 1, 3, 8}, {1, 1, 5, 8}, {1, 1, 4, 8}), "");
  EXPECT_NE(error({1, 1, 3, 8}, {2, 1, 5, 8}, {2, 1, 5, 8}), "");
  EXPECT_NE(error({1, 1, 3, 0}, {1, 1, 5, 0}, {1, 1, 5, 8}), "");
}

// Complex step (W. Squire and G. Trapp, SIAM Review 40, 1998): f(x + ih) = f(x) + ih f'(x) to
// rounding, without the cancellation of a difference.
TEST(Reference, GradientsAreThoseOfTheComplexStepTo1em12) {
  using Complex = std::complex<double>;
  constexpr double step = 1e-100;
  for (Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
    const AttentionOptions options{causal, {}};
    const std::array<Index, 4> shapes[] = {{2, 4, 3, 5}, {2, 2, 6, 5}, {2, 2, 6, 3}};
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
