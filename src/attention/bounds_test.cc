// The error bounds of docs/kernel.md, as they stand there, for float32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "attention/order.h"
#include "headproof/attention.h"
#include "headproof/random.h"

namespace headproof {
namespace {

constexpr double u = 0x1p-24;

struct Problem {
  Index seq_len, head_dim;
  float size;  ///< of q and k
  double softcap;
};

template <class Scalar>
Tensor<Scalar, 4> draw(Index seq_len, Index dim, float size, std::uint64_t seed) {
  Generator generator(seed);
  Tensor<float, 1> values({seq_len * dim});
  generator.normal(values.view());
  Tensor<Scalar, 4> tensor({1, 1, seq_len, dim});
  std::transform(values.begin(), values.end(), tensor.begin(),
                 [size](float value) { return Scalar(value * size); });
  return tensor;
}

/// The largest share of their bounds that errors take.
struct Shares {
  double out = 0, lse = 0;
};

Shares shares(const Problem& problem) {
  const auto [seq_len, d, size, softcap] = problem;
  constexpr Index value_dim = 5;
  const auto q = draw<float>(seq_len, d, size, 1), k = draw<float>(seq_len, d, size, 2);
  const auto v = draw<float>(seq_len, value_dim, 1, 3);
  const auto wide_q = draw<double>(seq_len, d, size, 1), wide_k = draw<double>(seq_len, d, size, 2);
  const auto wide_v = draw<double>(seq_len, value_dim, 1, 3);
  const AttentionOptions options{.causal = Causal::top_left, .softcap = softcap};
  const auto found = attention<float>(q, k, v, options).value();
  const auto exact = attention_reference<double>(wide_q, wide_k, wide_v, options);

  Shares worst;
  for (Index i = 0; i < seq_len; ++i) {
    const Index n = i + 1;
    const auto logits = exact.logits[0][0][i], scores = exact.scores[0][0][i];
    const auto A = exact.A[0][0][i];
    double maximum = logits(0);
    for (Index j = 1; j < n; ++j) maximum = std::max(maximum, logits(j));
    const auto blocks =
        static_cast<double>(std::min((n + key_block - 1) / key_block, blocks_per_span));
    const auto spans = static_cast<double>((n + span_length - 1) / span_length);
    const double rho = 1 + blocks + spans;
    const double of_values = static_cast<double>(std::min(n, span_length)) + blocks + 2 * spans;
    const double of_sum = 7 + blocks + 2 * spans;

    std::vector<double> epsilon;
    double of_lse = 0;
    for (Index j = 0; j < n; ++j) {
      double terms = 0;
      for (Index c = 0; c < d; ++c) terms += std::abs(wide_q(0, 0, i, c) * wide_k(0, 0, j, c));
      const double capped = softcap > 0 ? std::abs(scores(j)) + 4 * std::abs(logits(j)) : 0;
      epsilon.push_back(u * (static_cast<double>(d + 3) * terms / std::sqrt(double(d)) + capped +
                             (maximum - logits(j)) + 2.02 * rho));
      of_lse += A(j) * epsilon.back();
    }
    const double lse = exact.lse(0, 0, i);
    of_lse += u * (of_sum + 4 * std::abs(lse - maximum) + std::abs(lse));
    worst.lse = std::max(worst.lse, std::abs(found.lse(0, 0, i) - lse) / of_lse);
    for (Index c = 0; c < value_dim; ++c) {
      const double out = exact.out(0, 0, i, c);
      double bound = u * (of_sum + 1) * std::abs(out);
      for (Index j = 0; j < n; ++j) {
        const double value = wide_v(0, 0, j, c);
        bound += A(j) * (epsilon[static_cast<std::size_t>(j)] * std::abs(value - out) +
                         u * of_values * std::abs(value));
      }
      worst.out = std::max(worst.out, std::abs(found.out(0, 0, i, c) - out) / bound);
    }
  }
  return worst;
}

TEST(Bounds, OfOutAndLseHold) {
  Shares worst;
  for (Index head_dim : {1, 7, 33}) {
    for (Index seq_len : {1, 2, 65, 131, 1100}) {
      for (float size : {0.1F, 1.0F, 4.0F}) {
        for (double softcap : {0.0, 5.0}) {
          const Shares share = shares({seq_len, head_dim, size, softcap});
          EXPECT_LE(share.out, 1) << seq_len << " " << head_dim << " " << size << " " << softcap;
          EXPECT_LE(share.lse, 1) << seq_len << " " << head_dim << " " << size << " " << softcap;
          worst.out = std::max(worst.out, share.out);
          worst.lse = std::max(worst.lse, share.lse);
        }
      }
    }
  }
  // Bounds that nothing comes near would say little.
  EXPECT_GT(worst.out, 0.1);
  EXPECT_GT(worst.lse, 0.1);
}

}  // namespace
}  // namespace headproof
