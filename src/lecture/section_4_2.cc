// 4.2 The proofs, as assertions.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lecture/sections.h"
#include "theorems/findings.h"
#include "theorems/oracle.h"

namespace headproof {
namespace {

/// The rows of a table "figure, value".
struct Figures {
  Table table{{"figure", "value"}, {}};
  void add(std::string figure, std::string value) {
    table.rows.push_back({std::move(figure), std::move(value)});
  }
};

void simplex_and_hull(Course& course, Section& section) {
  const auto A = to_tensor<float, 3>(course.lecture.tensor("A")).value();
  const auto v = to_tensor<float, 3>(course.lecture.tensor("v")).value();
  Tensor<float, 2> low({batch, head_dim}), high({batch, head_dim});
  for (Index b = 0; b < batch; ++b) {
    for (Index c = 0; c < head_dim; ++c) {
      low(b, c) = high(b, c) = v(b, 0, c);
      for (Index t = 1; t < max_seq_len; ++t) {
        low(b, c) = std::min(low(b, c), v(b, t, c));
        high(b, c) = std::max(high(b, c), v(b, t, c));
      }
    }
  }
  course.keep("lo", low);
  course.keep("hi", high);

  float row_sum_error = 0, smallest = 1;
  for (Index b = 0; b < batch; ++b) {
    for (Index i = 0; i < max_seq_len; ++i) {
      float sum = 0;
      for (Index j = 0; j < max_seq_len; ++j) sum += A(b, i, j);
      row_sum_error = std::max(row_sum_error, std::fabs(sum - 1));
      if (b == 0)
        smallest = std::min(smallest, *std::min_element(&A(0, i, 0), &A(0, i, 0) + i + 1));
    }
  }
  Figures figures;
  figures.add("largest |row sum − 1|, summed in float32", scientific(row_sum_error));
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", static_cast<double>(smallest));
  figures.add("smallest allowed weight of the first batch element", text);
  section.items.emplace_back(figures.table);
  for (const char* id : {"prop-3.1", "cor-3.2", "cor-3.3"}) {
    section.items.emplace_back(examine(id, course.lecture.problem));
  }
}

/// The lecture's own perturbation, a new row at position 5, and its gradient, of the sum of row 3
/// of the first batch element.
void causality(Course& course, Section& section) {
  constexpr Index moved_position = 5, row = 3;
  const Tensor<float, 2> new_row = course.generator.randn(batch, model_dim);
  HeadProblem moved = course.lecture.problem;
  for (Index b = 0; b < batch; ++b) {
    std::copy_n(new_row[b].data, model_dim, moved.x[b][moved_position].data);
  }
  Head head(course.lecture.problem.weights, max_seq_len);
  const Tensor<float, 3> out = head(moved.x).value();
  course.keep("x2_row5", new_row);
  course.keep("x2", moved.x);
  course.keep("A2", head.A());
  course.keep("out2", out);

  const HeadWeights& w = course.lecture.problem.weights;
  const auto forward = head_forward<float>(course.lecture.problem.x, w.query, w.key, w.value, true);
  Tensor<float, 3> d_out({batch, max_seq_len, head_dim});
  std::fill_n(&d_out(0, row, 0), head_dim, 1.0F);
  const auto gradient =
      head_backward<float>(forward, course.lecture.problem.x, w.query, w.key, w.value, d_out, true)
          .d_x;
  course.keep("xg_grad", gradient);

  Findings findings;
  Checked& same = findings.bitwise("a new $x_5$ leaves rows 0 to 4 as they were");
  Checked& different = findings.exact("and moves rows 5 to 7");
  Checked& zero = findings.exact("the gradient of row 3 is 0 at positions 4 to 7");
  Checked& not_zero = findings.exact("and not 0 at positions 0 to 3");
  for (Index t = 0; t < max_seq_len; ++t) {
    for (Index b = 0; b < batch; ++b) {
      const bool equal =
          std::memcmp(out[b][t].data, course.out[b][t].data, head_dim * sizeof(float)) == 0;
      Checked& claim = t < moved_position ? same : different;
      claim.require(equal == (t < moved_position), [&] { return where(b, t); });
    }
    double slope = 0;
    for (Index m = 0; m < model_dim; ++m) slope += std::fabs(gradient(0, t, m));
    Checked& claim = t > row ? zero : not_zero;
    claim.require(t > row ? slope == 0 : slope > 0,
                  [&] { return "position " + std::to_string(t) + ": " + number(slope); });
  }
  section.items.emplace_back(
      R"(Causality is checked by perturbation, where "unchanged" means bit for bit, and by gradient, )"
      R"(which is the same statement differentiated.)");
  ResultItem result = examine("prop-5.1", course.lecture.problem);
  for (const Finding& finding : findings.verdict().findings) {
    result.verdict.findings.push_back(finding);
  }
  section.items.emplace_back(std::move(result));
}

/// Standard deviation with n - 1 in the denominator.
double deviation(const Tensor<float, 3>& values) {
  double mean = 0, squares = 0;
  for (float value : values) mean += value / static_cast<double>(values.size());
  for (float value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

/// The table of lemma 4.5 from the place where `generator` stands; tensors go to `course` if given.
Table saturation_table(Generator& generator, Course* course) {
  Table table{{"$d_k$", "std raw", "$\\sqrt{d_k}$", "std scaled", "largest weight raw",
               "largest weight scaled"},
              {}};
  for (Index d_k : {16, 64, 256}) {
    const Tensor<float, 3> q = generator.randn(1, max_seq_len, d_k);
    const Tensor<float, 3> k = generator.randn(1, max_seq_len, d_k);
    const auto attend = [&](std::optional<double> scale) {
      return attention_reference<float>(q.view().with_axis(1), k.view().with_axis(1),
                                        k.view().with_axis(1), {Causal::none, scale});
    };
    const auto raw = attend(1.0), scaled = attend(std::nullopt);
    const auto matrix = [](const Tensor<float, 4>& t) { return Tensor<float, 3>(t.view()[0]); };
    const auto largest = [](const Tensor<float, 4>& t) {
      return static_cast<double>(*std::max_element(t.begin(), t.end()));
    };
    table.rows.push_back({std::to_string(d_k), fixed(deviation(matrix(raw.scores)), 2),
                          fixed(std::sqrt(static_cast<double>(d_k)), 1),
                          fixed(deviation(matrix(scaled.scores)), 2), fixed(largest(raw.A), 3),
                          fixed(largest(scaled.A), 3)});
    if (course == nullptr) continue;
    const std::string suffix = "_" + std::to_string(d_k);
    course->keep("lemma_q" + suffix, q);
    course->keep("lemma_k" + suffix, k);
    course->keep("lemma_raw" + suffix, matrix(raw.scores));
    course->keep("lemma_scaled" + suffix, matrix(scaled.scores));
    course->keep("lemma_softmax_raw" + suffix, matrix(raw.A));
    course->keep("lemma_softmax_scaled" + suffix, matrix(scaled.A));
  }
  return table;
}

void why_the_root(Course& course, Section& section) {
  section.items.emplace_back(
      R"(One draw of eight queries and eight keys for each $d_k$: the deviation of the raw scores )"
      R"(grows like $\sqrt{d_k}$, and the softmax of the raw scores has one weight near 1.)");
  section.items.emplace_back(saturation_table(course.generator, &course));
  section.items.emplace_back(
      "The table that the lecture's text quotes was made with the same seed 0, from a stream that "
      "stood 1,536 draws later, as if one more head had been built first; from there its figures "
      "come out exactly:");
  Generator later(0);
  for (int heads = 0; heads < 2; ++heads) (void)draw_head_weights(model_dim, head_dim, later);
  (void)later.randn(batch, max_seq_len, model_dim);
  (void)later.randn(batch, model_dim);
  section.items.emplace_back(saturation_table(later, nullptr));
  section.items.emplace_back(examine("lemma-4.5", course.lecture.problem));
}

void mask_before_or_after(Course& course, Section& section) {
  const Tensor<float, 3> s = course.generator.randn(1, max_seq_len, max_seq_len);
  const Tensor<float, 2> right = softmax_rows(s[0], Causal::top_left);
  Tensor<float, 2> wrong = softmax_rows(s[0], Causal::none);
  for (Index i = 0; i < max_seq_len; ++i) {
    for (Index j = i + 1; j < max_seq_len; ++j) wrong(i, j) = 0;
  }
  course.keep("s", s);
  course.keep("right", Tensor<float, 3>(right.view().with_axis(0)));
  course.keep("wrong", Tensor<float, 3>(wrong.view().with_axis(0)));

  Table table{{"mask", "smallest row sum", "largest row sum"}, {}};
  const auto row = [&](const char* name, const Tensor<float, 2>& A) {
    float low = INFINITY, high = -INFINITY;
    for (Index i = 0; i < max_seq_len; ++i) {
      float sum = 0;
      for (Index j = 0; j < max_seq_len; ++j) sum += A(i, j);
      low = std::min(low, sum);
      high = std::max(high, sum);
    }
    table.rows.push_back({name, fixed(low, 3), fixed(high, 3)});
  };
  row("$-\\infty$ before the softmax", right);
  row("zeros after the softmax", wrong);
  section.items.emplace_back(table);
  section.items.emplace_back(examine("ex-4", course.lecture.problem));
}

}  // namespace

void section_4_2(Course& course) {
  Section& section = course.begin("4.2", "The proofs, as assertions");
  simplex_and_hull(course, section);
  causality(course, section);
  why_the_root(course, section);
  mask_before_or_after(course, section);
}

}  // namespace headproof
