// Exercise 7: the rank of the score matrix.

#include <algorithm>
#include <limits>

#include "lecture/sections.h"
#include "theorems/findings.h"
#include "theorems/singular_values.h"

namespace headproof {
namespace {

std::vector<double> singular_values_of(View<const float, 2> matrix) {
  Tensor<double, 2> wide(matrix.shape);
  double* place = wide.data();
  matrix.for_each([&](float value) { *place++ = value; });
  return singular_values(wide);
}

/// How many singular values stand above the rounding noise of a float32 matrix: largest size times
/// machine epsilon times the largest of them, the rule of NumPy and PyTorch.
Index numerical_rank(const std::vector<double>& values) {
  const double noise = static_cast<double>(values.size()) * values.front() *
                       static_cast<double>(std::numeric_limits<float>::epsilon());
  return std::count_if(values.begin(), values.end(), [&](double value) { return value > noise; });
}

}  // namespace

void exercise_7(Course& course) {
  constexpr Index seq_len = 32, d_k = 8, width = 64;
  Head head(width, d_k, seq_len, course.generator, false);
  const Tensor<float, 3> x = course.generator.randn(1, seq_len, width);
  (void)head(x).value();
  // The score matrix of this exercise is q k^T itself, without 1 / sqrt(d_k).
  const auto scores =
      attention_reference<float>(head.query(x).view().with_axis(1), head.key(x).view().with_axis(1),
                                 head.value(x).view().with_axis(1), {Causal::none, 1.0})
          .scores;
  const Tensor<float, 2> S(scores.view()[0][0]);
  const std::vector<double> of_S = singular_values_of(S),
                            of_A = singular_values_of(head.A().view()[0]);

  course.keep_weights("big", head.weights());
  course.keep("xb", x);
  course.keep("big_A", head.A());
  course.keep("S", S);
  Tensor<float, 1> narrow({seq_len});
  Tensor<double, 1> wide({seq_len});
  std::copy(of_S.begin(), of_S.end(), wide.begin());
  std::transform(of_S.begin(), of_S.end(), narrow.begin(),
                 [](double value) { return static_cast<float>(value); });
  course.keep("S_singular_values", narrow);
  course.keep("S_singular_values_f64", wide);
  course.lecture.singular_values_S = of_S;
  course.lecture.singular_values_A = of_A;

  Section& section = course.begin("ex-7", "Exercise 7: the rank of the score matrix");
  section.items.emplace_back(
      R"($S = Q K^\top$ is $32 \times 32$ here and factors through $\mathbb{R}^8$. Its rank is 8, )"
      R"(whatever the length: one head can only make a low-rank family of patterns of scores, which )"
      R"(is why several run in parallel. The softmax is not linear, and $A$ is another matrix: its )"
      R"(rank is full.)");
  Table table{{"matrix", "shape", "rank", "largest singular value", "8th", "9th", "32nd"}, {}};
  const auto row = [&](const char* name, const std::vector<double>& values) {
    table.rows.push_back({name, "32 × 32", std::to_string(numerical_rank(values)),
                          fixed(values[0], 3), scientific(values[7]), scientific(values[8]),
                          scientific(values[31])});
  };
  row("$S$", of_S);
  row("$A$", of_A);
  section.items.emplace_back(table);

  ResultItem result = examine("ex-7", course.lecture.problem);
  Findings findings;
  Checked& rank =
      findings.exact("the lecture's $S$, $32 \\times 32$ with $d_k = 8$, has rank 8 exactly");
  rank.require(numerical_rank(of_S) == d_k,
               [&] { return "rank " + std::to_string(numerical_rank(of_S)); });
  result.verdict.findings.push_back(rank.finding());
  section.items.emplace_back(std::move(result));
}

}  // namespace headproof
