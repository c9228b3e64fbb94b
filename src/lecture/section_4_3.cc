// 4.3 Equivariance, and the trap.

#include <cmath>

#include "lecture/sections.h"
#include "theorems/findings.h"
#include "theorems/oracle.h"

namespace headproof {
namespace {

constexpr Index vocabulary = 65;  // whatever the text is: this section makes up its own tokens

Tensor<float, 3> sum(const Tensor<float, 3>& x, const Tensor<float, 2>& positions) {
  Tensor<float, 3> with = x;
  for (Index b = 0; b < x.shape()[0]; ++b) {
    for (Index t = 0; t < x.shape()[1]; ++t) {
      for (Index m = 0; m < x.shape()[2]; ++m) with(b, t, m) += positions(t, m);
    }
  }
  return with;
}

Tensor<Index, 1> permuted(const Tensor<Index, 1>& ids, const Tensor<Index, 1>& permutation) {
  Tensor<Index, 1> result(ids.shape());
  for (Index t = 0; t < ids.size(); ++t) result(t) = ids(permutation(t));
  return result;
}

/// The largest difference between two answers, and the largest share of what rounding explains.
struct Difference {
  double largest = 0, share = 0, error = 0, bound = 0;
};

Difference compare(const Tensor<float, 3>& one, const Tensor<float, 3>& other, const Oracle& oracle,
                   const Tensor<Index, 1>& permutation) {
  Difference found;
  for (Index b = 0; b < one.shape()[0]; ++b) {
    for (Index t = 0; t < one.shape()[1]; ++t) {
      for (Index c = 0; c < one.shape()[2]; ++c) {
        const double error = std::fabs(one(b, t, c) - other(b, t, c));
        const double bound = 2 * oracle.out_error(b, permutation(t), c);
        found.largest = std::max(found.largest, error);
        if (error / bound >= found.share) {
          found.share = error / bound;
          found.error = error;
          found.bound = bound;
        }
      }
    }
  }
  return found;
}

}  // namespace

void section_4_3(Course& course) {
  const Tensor<float, 3>& x = course.lecture.problem.x;
  Generator& generator = course.generator;
  Head head(model_dim, head_dim, max_seq_len, generator, false);
  const Tensor<Index, 1> permutation = generator.randperm(max_seq_len);
  const auto out = [&](const Tensor<float, 3>& input) { return head(input).value(); };
  const auto problem = [&](const Tensor<float, 3>& input) {
    return HeadProblem{input, head.weights(), false};
  };

  course.keep_weights("hn", head.weights());
  course.keep("perm", permutation);
  const Tensor<float, 3> out_permuted = out(permute_rows(x, permutation));
  course.keep("hn_A_xperm", head.A());
  const Tensor<float, 3> out_x = out(x);
  course.keep("hn_A_x", head.A());
  course.keep("hn_out_xperm", out_permuted);
  course.keep("hn_out_x", out_x);
  const Difference a =
      compare(out_permuted, permute_rows(out_x, permutation), Oracle(problem(x)), permutation);

  const Tensor<float, 2> x_positions = Embedding(max_seq_len, model_dim, generator).table();
  const Tensor<float, 3> xp = sum(x, x_positions);
  course.keep("xp_pos_emb", x_positions);
  course.keep("xp", xp);
  const Difference b =
      compare(out(permute_rows(xp, permutation)), permute_rows(out(xp), permutation),
              Oracle(problem(xp)), permutation);

  const Embedding token(vocabulary, model_dim, generator);
  const Tensor<float, 2> positions = Embedding(max_seq_len, model_dim, generator).table();
  const Tensor<Index, 1> ids = generator.randint(0, vocabulary, max_seq_len);
  course.keep("tok", token.table());
  course.keep("pos", positions);
  course.keep("idx", Tensor<Index, 2>(ids.view().with_axis(0)));

  // Both sides of (c) and (d), for a permutation: tokens permuted, and outputs permuted.
  struct Sides {
    Tensor<float, 3> one, other;
    Difference difference;
  };
  const auto sides = [&](const Tensor<Index, 1>& order, bool with_positions) {
    const auto embed = [&](const Tensor<Index, 1>& tokens) {
      return with_positions ? sum(token(tokens), positions) : token(tokens);
    };
    const Tensor<float, 3> embedded = embed(ids);
    Sides both{out(embed(permuted(ids, order))), permute_rows(out(embedded), order), {}};
    both.difference = compare(both.one, both.other, Oracle(problem(embedded)), order);
    return both;
  };
  const Sides c = sides(permutation, false);
  Sides d = sides(permutation, true);
  course.keep("a1", c.one);
  course.keep("b1", c.other);
  course.keep("a2", d.one);
  course.keep("b2", d.other);

  Section& section = course.begin("4.3", "Equivariance, and the trap");
  section.items.emplace_back(
      R"(Without the mask, permuting the rows of $X$ permutes the output, however $X$ was made. So )"
      R"(permuting rows never shows that positions matter, and that is the trap: the symmetry is )"
      R"(lost one step earlier, in $x_t = E_{\text{token}_t} + p_t$, because $p_t$ does not travel )"
      R"(with its token. Permute *tokens*, not rows.)");
  Tensor<Index, 1> identity({max_seq_len}), reversal({max_seq_len});
  for (Index t = 0; t < max_seq_len; ++t) {
    identity(t) = t;
    reversal(t) = max_seq_len - 1 - t;
  }
  if (std::equal(identity.begin(), identity.end(), permutation.begin())) {
    section.items.emplace_back(
        "This seed drew the identity, which moves nothing; (d) takes the reversal as its witness "
        "instead, and the random stream is left as it was.");
    d = sides(reversal, true);
  }
  Table table{{"", "permuted", "input", "largest difference"}, {}};
  table.rows.push_back({"(a)", "rows of $X$", "$X$", scientific(a.largest)});
  table.rows.push_back({"(b)", "rows of $X$", "$X$ + positions", scientific(b.largest)});
  table.rows.push_back({"(c)", "tokens", "$E_{\\text{token}}$", scientific(c.difference.largest)});
  table.rows.push_back(
      {"(d)", "tokens", "$E_{\\text{token}} + p$", scientific(d.difference.largest)});
  section.items.emplace_back(table);

  const auto bounded = [](Verdict& verdict, const char* what, const Difference& found) {
    Findings findings;
    findings.bounded(what).within(found.error, found.bound,
                                  [&] { return "the two sides differ by " + number(found.error); });
    verdict.findings.push_back(findings.verdict().findings.front());
  };
  ResultItem equivariant = examine("thm-6.1", problem(x));
  bounded(equivariant.verdict, "(a) the lecture's permutation of the rows of $X$", a);
  bounded(equivariant.verdict, "(b) the same with positions in $X$", b);
  section.items.emplace_back(std::move(equivariant));
  ResultItem broken = examine("cor-6.2", problem(x));
  bounded(broken.verdict, "(c) tokens permuted, no positions: equivariant", c.difference);
  Findings findings;
  Checked& witness = findings.exact("(d) tokens permuted, with positions: not equivariant");
  witness.require(d.difference.share > 100, [&] {
    return "the two sides differ by " + number(d.difference.largest) + " only";
  });
  broken.verdict.findings.push_back(witness.finding());
  section.items.emplace_back(std::move(broken));
}

}  // namespace headproof
