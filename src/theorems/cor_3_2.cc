// Corollary 3.2: outputs lie in the convex hull of the values that the query may see.

#include <cmath>

#include "theorems/findings.h"
#include "theorems/oracle.h"
#include "theorems/results.h"

namespace headproof {
namespace {

/// Directions in which the hull is looked at: each axis both ways, and as many oblique ones.
Tensor<float, 2> directions(Index dim) {
  Generator generator(32);
  Tensor<float, 2> all = generator.randn(4 * dim, dim);
  for (Index c = 0; c < dim; ++c) {
    for (Index m = 0; m < dim; ++m) {
      all(2 * c, m) = m == c ? 1.0F : 0.0F;
      all(2 * c + 1, m) = m == c ? -1.0F : 0.0F;
    }
  }
  return all;
}

// begin: cor-3.2
Verdict check_hull(const Subject& subject, const HeadProblem& given) {
  const Tensor<float, 2> all_directions = directions(given.weights.head_dim());
  Findings findings;
  Checked& shown = findings.bounded("the $A$ that is shown is the $A$ that is used");
  Checked& recomputed = findings.bounded("out is $A v$");
  Checked& hull = findings.bounded("out lies in the hull of the allowed values, every direction");
  for (const HeadProblem& problem : masked_and_open(given)) {
    const Tensor<float, 3> A = recover_A(subject, problem);
    const HeadAnswer answer = ask(subject, problem);
    const Oracle oracle(problem);
    const Index batch = A.shape()[0], seq_len = A.shape()[1], head_dim = answer.out.shape()[2];
    Tensor<double, 1> slack({head_dim});
    for (Index b = 0; b < batch; ++b) {
      for (Index i = 0; i < seq_len; ++i) {
        for (Index j = 0; answer.A && j < seq_len; ++j) {
          const double one = (*answer.A)(b, i, j), other = A(b, i, j);
          shown.within(std::fabs(one - other), 2 * oracle.weight_error(b, i, j), [&] {
            return where(b, i, j) + ": shown " + number(one) + ", used " + number(other);
          });
        }
        const Index visible = visible_keys(problem, i);
        const double roundings = static_cast<double>(visible + 2) * unit_roundoff;
        for (Index c = 0; c < head_dim; ++c) {
          double mixed = 0, bound = 0, largest = 0;
          for (Index j = 0; j < visible; ++j) {
            const double weight = A(b, i, j), value = oracle.v(b, j, c);
            mixed += weight * value;
            bound += 2 * oracle.weight_error(b, i, j) * std::fabs(value) +
                     weight * (oracle.value_error(b, j, c) + roundings * std::fabs(value));
            largest = std::max(largest, std::fabs(value));
          }
          recomputed.within(std::fabs(answer.out(b, i, c) - mixed), bound, [&] {
            return where(b, i) + ", channel " + std::to_string(c) + ": out " +
                   number(answer.out(b, i, c)) + ", A v " + number(mixed);
          });
          slack(c) = bound + roundings * largest;  // the row of A sums to 1 only up to roundings
        }
        for (Index w = 0; w < all_directions.shape()[0]; ++w) {
          double out_along = 0, farthest = -INFINITY, bound = 0;
          for (Index c = 0; c < head_dim; ++c) {
            out_along += all_directions(w, c) * answer.out(b, i, c);
            bound += std::fabs(all_directions(w, c)) * slack(c);
          }
          for (Index j = 0; j < visible; ++j) {
            double along = 0;
            for (Index c = 0; c < head_dim; ++c) along += all_directions(w, c) * oracle.v(b, j, c);
            farthest = std::max(farthest, along);
          }
          const double beyond = out_along <= farthest ? 0 : out_along - farthest;
          hull.within(beyond, bound, [&] {
            return where(b, i) + ", direction " + std::to_string(w) + ": out reaches " +
                   number(out_along) + ", no allowed value beyond " + number(farthest);
          });
        }
      }
    }
  }
  return findings.verdict();
}
// end: cor-3.2

}  // namespace

Theorem cor_3_2() {
  return {
      .id = "cor-3.2",
      .title = "Outputs lie in the convex hull of the allowed values",
      .statement = R"(Each output is a weighted mean of the values that its query may see, )"
                   R"($o_i = \sum_j A_{ij} v_j$ with $j \le i$ under the causal mask; it lies in )"
                   R"(their convex hull, so that $w \cdot o_i \le \max_{j \le i} w \cdot v_j$ in )"
                   R"(every direction $w$.)",
      .proof = R"(By prop-3.1 the weights of row $i$ are nonnegative and sum to 1, and masked )"
               R"(values have weight 0. A mean of numbers $w \cdot v_j$ is at most the largest )"
               R"(of them.)",
      .execution = R"(The output is recomputed from the recovered $A$ and the values in double )"
                   R"(precision, which settles every direction at once, and the hull is looked at )"
                   R"(along each axis both ways and along oblique directions, with the mask and )"
                   R"(without it. Where the head shows an $A$, that has to be the one it used.)",
      .bound =
          R"($\sum_j (2 a_{ij} |v_j| + A_{ij} (e_j + (n + 2)\,u\,|v_j|))$: $a_{ij}$ is what a )"
          R"(float32 head may err in a weight (see lemma-4.5), twice, because $A$ was recovered )"
          R"(in another run; $e_j = (d + 1)\,u \sum_m |W_m| |x_m|$ is the rounding of the values )"
          R"(over $d$ input channels, and $n$ the terms of the mean. Along $w$ these add up with )"
          R"($|w|$; $(n + 2)\,u \max_j |v_j|$ more allows for a row that sums to 1 only as closely )"
          R"(as prop-3.1 says. For the $A$ that is shown, $2 a_{ij}$.)",
      .source = "Section 4.2, Corollary 3.2",
      .breaks = "clamped-into-box",
      .code = cor_3_2_code,
      .check = check_hull,
  };
}

}  // namespace headproof
