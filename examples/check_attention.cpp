// The checker inside a test program: an attention of this process is asked what follows from the
// theorems, and a test fails with the whole report.
#include <gtest/gtest.h>
#include <headproof/check.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace {

/// The kernel under test: q, k, v and out are [batch, num_heads, seq_len, head_dim], row-major.
void attention(const float* q, const float* k, const float* v, float* out, long heads, long seq_len,
               long head_dim, bool causal) {
  std::vector<double> weight(static_cast<std::size_t>(seq_len));
  for (long head = 0; head < heads; ++head) {
    const long first = head * seq_len * head_dim;
    for (long i = 0; i < seq_len; ++i) {
      const long keys = causal ? i + 1 : seq_len;
      double largest = -INFINITY, sum = 0;
      for (long j = 0; j < keys; ++j) {
        double score = 0;
        for (long c = 0; c < head_dim; ++c) {
          score += double{q[first + i * head_dim + c]} * double{k[first + j * head_dim + c]};
        }
        weight[static_cast<std::size_t>(j)] = score / std::sqrt(static_cast<double>(head_dim));
        largest = std::max(largest, weight[static_cast<std::size_t>(j)]);
      }
      for (long j = 0; j < keys; ++j) {
        double& w = weight[static_cast<std::size_t>(j)];
        w = std::exp(w - largest);
        sum += w;
      }
      for (long c = 0; c < head_dim; ++c) {
        double mean = 0;
        for (long j = 0; j < keys; ++j) {
          mean += weight[static_cast<std::size_t>(j)] * double{v[first + j * head_dim + c]};
        }
        out[first + i * head_dim + c] = static_cast<float>(mean / sum);
      }
    }
  }
}

/// The kernel as the checker asks it.
headproof::AttentionReply ask(const headproof::AttentionProblem& problem) {
  std::vector<float> out(static_cast<std::size_t>(problem.v.size()));
  attention(problem.q.data(), problem.k.data(), problem.v.data(), out.data(),
            problem.batch() * problem.num_heads(), problem.seq_len_q(), problem.head_dim(),
            problem.causal != headproof::Causal::none);
  headproof::AttentionAnswer answer;
  answer.out = headproof::Tensor<double, 4>(problem.v.shape());
  std::copy(out.begin(), out.end(), answer.out.begin());
  return answer;
}

TEST(Attention, KeepsTheTheorems) {
  const headproof::Report report = headproof::check(ask, {.seconds = 2});
  EXPECT_EQ(report.exit_code(), 0) << report.text();
}

TEST(Attention, ThatSeesOneKeyTooManyDoesNot) {
  const headproof::Report report = headproof::check(
      [](const headproof::AttentionProblem& problem) {
        headproof::AttentionProblem other = problem;
        other.causal = headproof::Causal::none;
        return ask(other);
      },
      {.theorems = {"prop-5.1"}, .seconds = 1});
  EXPECT_EQ(report.exit_code(), 1) << report.text();
}

}  // namespace
