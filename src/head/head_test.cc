#include "headproof/head.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <string>
#include <vector>

namespace headproof {
namespace {

template <class To, std::size_t Rank>
Tensor<To, Rank> cast(const Tensor<float, Rank>& tensor) {
  Tensor<To, Rank> result(tensor.shape());
  std::copy(tensor.begin(), tensor.end(), result.begin());
  return result;
}

/// The elements of x [batch, seq_len, dim] as [dim, batch, seq_len + 1]: rows of no matrix.
Tensor<float, 3> spread(View<const float, 3> x) {
  Tensor<float, 3> wide({x.shape[2], x.shape[0], x.shape[1] + 1});
  for (Index b = 0; b < x.shape[0]; ++b) {
    for (Index t = 0; t < x.shape[1]; ++t) {
      for (Index m = 0; m < x.shape[2]; ++m) wide(m, b, t) = x(b, t, m);
    }
  }
  return wide;
}

TEST(Head, RefusesASequenceLongerThanMaxSeqLenAndNamesBothNumbers) {
  Generator generator(0);
  Head head(32, 16, 8, generator);
  const auto out = head(generator.randn(1, 9, 32));
  ASSERT_FALSE(out);
  EXPECT_NE(out.error().message.find("9"), std::string::npos);
  EXPECT_NE(out.error().message.find("8"), std::string::npos);
  EXPECT_TRUE(head(generator.randn(1, 8, 32)));
  EXPECT_FALSE(head(generator.randn(1, 8, 31)));
}

TEST(Head, KeepsNoStateBetweenCallsButA) {
  Generator generator(0);
  Head head(32, 16, 8, generator);
  const auto x = generator.randn(2, 8, 32), shorter = generator.randn(1, 3, 32);
  const auto before = head(x).value();
  (void)head(shorter).value();
  EXPECT_EQ(head.A().shape(), (std::array<Index, 3>{1, 3, 3}));
  const auto after = head(x).value();
  EXPECT_EQ(std::memcmp(before.data(), after.data(), sizeof(float) * 2 * 8 * 16), 0);
}

TEST(Head, WeightsGoThroughSafetensorsAndBackAndAStoredMaskIsTolerated) {
  Generator generator(3);
  const HeadWeights weights = draw_head_weights(6, 4, generator);
  NamedArrays arrays = parse_safetensors(format_safetensors(to_named_arrays(weights)), "w").value();
  arrays["tril"] = Tensor<float, 2>({8, 8});
  const HeadWeights again = head_weights_from(arrays).value();
  EXPECT_TRUE(std::equal(weights.query.begin(), weights.query.end(), again.query.begin()));

  auto unknown = arrays;
  unknown["bias"] = Tensor<float, 1>({4});
  EXPECT_NE(head_weights_from(unknown).error().message.find("bias"), std::string::npos);
  auto missing = arrays;
  missing.erase("query.weight");
  EXPECT_NE(head_weights_from(missing).error().message.find("query.weight"), std::string::npos);
  auto misfit = arrays;
  misfit["value.weight"] = Tensor<float, 2>({4, 5});
  EXPECT_NE(head_weights_from(misfit).error().message.find("value.weight"), std::string::npos);
}

TEST(Head, GradientsAreThoseOfTheComplexStepTo1em12) {
  using Complex = std::complex<double>;
  constexpr double step = 1e-100;
  Generator generator(5);
  const HeadWeights weights = draw_head_weights(5, 3, generator);
  const auto x = cast<double>(generator.randn(2, 4, 5));
  const auto d_out = cast<double>(generator.randn(2, 4, 3));
  const auto w_q = cast<double>(weights.query), w_k = cast<double>(weights.key),
             w_v = cast<double>(weights.value);
  for (bool causal : {true, false}) {
    const auto forward = head_forward<double>(x, w_q, w_k, w_v, causal);
    const auto gradients = head_backward<double>(forward, x, w_q, w_k, w_v, d_out, causal);

    Tensor<Complex, 3> cx({2, 4, 5});
    std::copy(x.begin(), x.end(), cx.begin());
    auto cq = cast<Complex>(weights.query), ck = cast<Complex>(weights.key),
         cv = cast<Complex>(weights.value);
    const auto check = [&](Complex* input, const double* found, Index size) {
      for (Index n = 0; n < size; ++n) {
        input[n] += Complex(0, step);
        const auto out = head_forward<Complex>(cx, cq, ck, cv, causal).attention.out;
        input[n] -= Complex(0, step);
        double expected = 0;
        for (Index o = 0; o < out.size(); ++o) {
          expected += d_out.data()[o] * out.data()[o].imag() / step;
        }
        EXPECT_NEAR(found[n], expected, 1e-12);
      }
    };
    check(cx.data(), gradients.d_x.data(), cx.size());
    check(cq.data(), gradients.d_w_q.data(), cq.size());
    check(ck.data(), gradients.d_w_k.data(), ck.size());
    check(cv.data(), gradients.d_w_v.data(), cv.size());
  }
}

TEST(Head, OutIsTheKernelsAndLeavesAAlone) {
  Generator generator(0);
  for (Index head_dim : {1, 5, 16}) {
    for (bool causal : {true, false}) {
      Head head(32, head_dim, 70, generator, causal);
      const auto x = generator.randn(3, 67, 32);
      const auto reference = head(generator.randn(1, 2, 32)).value();
      // Every other position, so that the rows are no matrix.
      const View<const float, 3> some(x.data(), {3, 31, 32}, {67 * 32, 2 * 32, 1});
      const auto heads = [](const Tensor<float, 3>& t) { return t.view().with_axis(1); };
      const auto expected =
          attention<float>(heads(head.query(some)), heads(head.key(some)), heads(head.value(some)),
                           {.causal = causal ? Causal::top_left : Causal::none})
              .value()
              .out;
      const auto out = head.out(some).value();
      EXPECT_EQ(out.shape(), (std::array<Index, 3>{3, 31, head_dim}));
      EXPECT_TRUE(std::equal(out.begin(), out.end(), expected.begin(), expected.end()));
      EXPECT_EQ(head.A().shape(), (std::array<Index, 3>{1, 2, 2}));
    }
  }
  Head head(32, 16, 8, generator);
  EXPECT_EQ(head.out(generator.randn(1, 9, 32)).error().message,
            head(generator.randn(1, 9, 32)).error().message);
  EXPECT_EQ(head.out(generator.randn(0, 0, 32)).value().size(), 0);
}

TEST(Head, GradientsOfTheProjectionsAreChainsInTheirStatedOrder) {
  Generator generator(0);
  const HeadWeights w = draw_head_weights(7, 5, generator);
  const auto x = generator.randn(3, 11, 7), d_out = generator.randn(3, 11, 5);
  const auto wide = spread(x);
  const View<const float, 3> strided(wide.data(), x.shape(), {12, 1, 3 * 12});
  const auto forward = head_forward<float>(x, w.query, w.key, w.value, true);
  const auto found = head_backward<float>(forward, strided, w.query, w.key, w.value, d_out, true);
  const auto one_head = [](const Tensor<float, 3>& t) { return t.view().with_axis(1); };
  const auto d = attention_reference_backward<float>(forward.attention, one_head(forward.q),
                                                     one_head(forward.k), one_head(forward.v),
                                                     one_head(d_out), {.causal = Causal::top_left});
  Tensor<float, 3> d_x(x.shape());
  Tensor<float, 2> d_w_q({5, 7}), d_w_k({5, 7}), d_w_v({5, 7});
  const auto add = [&](const Tensor<float, 4>& d_rows, const Tensor<float, 2>& weights,
                       Tensor<float, 2>& d_w) {
    for (Index b = 0; b < 3; ++b) {
      for (Index t = 0; t < 11; ++t) {
        for (Index o = 0; o < 5; ++o) {
          for (Index m = 0; m < 7; ++m) {
            d_x(b, t, m) = std::fma(d_rows(b, 0, t, o), weights(o, m), d_x(b, t, m));
            d_w(o, m) = std::fma(d_rows(b, 0, t, o), x(b, t, m), d_w(o, m));
          }
        }
      }
    }
  };
  add(d.d_v, w.value, d_w_v);
  add(d.d_k, w.key, d_w_k);
  add(d.d_q, w.query, d_w_q);
  EXPECT_TRUE(std::equal(d_x.begin(), d_x.end(), found.d_x.begin()));
  EXPECT_TRUE(std::equal(d_w_q.begin(), d_w_q.end(), found.d_w_q.begin()));
  EXPECT_TRUE(std::equal(d_w_k.begin(), d_w_k.end(), found.d_w_k.begin()));
  EXPECT_TRUE(std::equal(d_w_v.begin(), d_w_v.end(), found.d_w_v.begin()));
}

TEST(Project, DoesNotDependOnStrides) {
  Generator generator(0);
  for (const auto& [batch, seq_len, in, out] : std::vector<std::array<Index, 4>>{
           {2, 7, 5, 3}, {1, 1, 1, 1}, {3, 17, 16, 32}, {0, 2, 3, 4}, {2, 0, 3, 4}, {2, 3, 0, 4}}) {
    const auto x = generator.randn(batch, seq_len, in);
    const auto w = generator.randn(out, in);
    const auto wide = spread(x);
    const View<const float, 3> strided(wide.data(), x.shape(),
                                       {seq_len + 1, 1, batch * (seq_len + 1)});
    const Tensor<float, 2> w_transposed(w.view().transposed(0, 1));
    const auto expected = project<float>(x, w);
    EXPECT_EQ(expected.shape(), (std::array<Index, 3>{batch, seq_len, out}));
    const auto found = project<float>(strided, w_transposed.view().transposed(0, 1));
    EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin(), expected.end()));
  }
}

TEST(Project, IsTheProductWithTheTransposedWeights) {
  Tensor<float, 3> x({1, 2, 3});
  for (Index n = 0; n < 6; ++n) x.data()[n] = static_cast<float>(n + 1);
  Tensor<float, 2> w({2, 3});
  w(0, 0) = 1;
  w(1, 2) = 10;
  const auto out = project<float>(x, w);
  EXPECT_EQ(out(0, 0, 0), 1);
  EXPECT_EQ(out(0, 0, 1), 30);
  EXPECT_EQ(out(0, 1, 0), 4);
  EXPECT_EQ(out(0, 1, 1), 60);
}

}  // namespace
}  // namespace headproof
