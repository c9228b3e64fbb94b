// 4.5 Attention as kernel smoothing.

#include <cmath>
#include <limits>

#include "lecture/sections.h"
#include "theorems/findings.h"
#include "theorems/oracle.h"

namespace headproof {

void section_4_5(Course& course) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Table table{{"bandwidth $s$", "weight on itself, last row", "weights that underflow"}, {}};
  Findings findings;
  Checked& mean = findings.bounded("the lecture's running mean: row $i$ is $1 / (i + 1)$");
  Checked& gaussian =
      findings.bounded("the lecture's Gaussians: row $i$ is the kernel, normalised");
  for (float s : {0.5F, 2.0F, 8.0F, infinity}) {
    Tensor<float, 2> scores({shown_characters, shown_characters});
    for (Index i = 0; i < shown_characters; ++i) {
      for (Index j = 0; j < shown_characters; ++j) {
        const auto distance = static_cast<float>(i - j);
        scores(i, j) = s == infinity ? 0.0F : -(distance * distance) / (2 * s * s);
      }
    }
    const Tensor<float, 2> A = softmax_rows(scores, Causal::top_left);
    const std::string name = s == infinity ? "inf" : number(s);
    course.keep("kernel_A_s" + name, A);

    Index underflowed = 0;
    for (Index i = 0; i < shown_characters; ++i) {
      double sum = 0;
      for (Index j = 0; j <= i; ++j) sum += std::exp(static_cast<double>(scores(i, j)));
      for (Index j = 0; j <= i; ++j) {
        underflowed += A(i, j) == 0 ? 1 : 0;
        const double expected = std::exp(static_cast<double>(scores(i, j))) / sum;
        const double bound = expected * static_cast<double>(i + 11) * unit_roundoff + 0x1p-149;
        Checked& claim = s == infinity ? mean : gaussian;
        claim.within(std::fabs(A(i, j) - expected), bound,
                     [&] { return "bandwidth " + name + ", " + where(0, i, j); });
      }
    }
    const Index last = shown_characters - 1;
    table.rows.push_back({s == infinity ? "∞ (running mean)" : name, fixed(A(last, last), 3),
                          with_commas(underflowed) + " of " +
                              with_commas(shown_characters * (shown_characters + 1) / 2)});
  }

  Section& section = course.begin("4.5", "Attention as kernel smoothing");
  section.items.emplace_back(
      R"(With $W_Q = W_K = 0$ every allowed score is 0, and attention is a running mean. With scores )"
      R"($S_{ij} = -(i - j)^2 / (2 s^2)$ that depend on positions alone it is a Gaussian smoother of )"
      R"(bandwidth $s$: Nadaraya-Watson along the sequence, a convolution up to the edge. What )"
      R"(content adds is a bandwidth and a location that vary with token and input.)");
  section.items.emplace_back(table);
  ResultItem result = examine("sec-4.5", course.lecture.problem);
  for (const Finding& finding : findings.verdict().findings) {
    result.verdict.findings.push_back(finding);
  }
  section.items.emplace_back(std::move(result));
}

}  // namespace headproof
