// 4.4 Attention patterns on real text.

#include <algorithm>
#include <cmath>

#include "lecture/sections.h"
#include "prose/math.h"
#include "theorems/findings.h"
#include "theorems/oracle.h"

namespace headproof {

void section_4_4(Course& course) {
  const Vocabulary vocabulary(course.text.characters);
  const Tensor<Index, 1> ids = vocabulary.encode(course.lecture.shown).value();
  const Embedding token(vocabulary.size(), model_dim, course.generator);
  const Embedding position(shown_characters, model_dim, course.generator);
  Tensor<Index, 1> places({shown_characters});
  for (Index t = 0; t < shown_characters; ++t) places(t) = t;
  Tensor<float, 3> x = token(ids);
  const Tensor<float, 3> p = position(places);
  for (Index t = 0; t < shown_characters; ++t) {
    for (Index m = 0; m < model_dim; ++m) x(0, t, m) += p(0, t, m);
  }
  course.keep("token_ids_48", ids);
  course.keep("tok_emb", token.table());
  course.keep("pos_emb", position.table());
  course.keep("xin", x);

  Section& section = course.begin("4.4", "Attention on real text");
  section.items.emplace_back(with_commas(static_cast<Index>(course.text.characters.size())) +
                             " characters, vocabulary " + std::to_string(vocabulary.size()) + ".");
  if (course.text.had_byte_order_mark) {
    section.items.emplace_back("A byte order mark at the start of the text was dropped.");
  }
  if (course.text.line_ends_changed > 0) {
    section.items.emplace_back(with_commas(course.text.line_ends_changed) +
                               " line ends CRLF or CR became LF.");
  }
  section.items.emplace_back(
      R"(Nothing here is trained: what the pictures show is a prior. The mask alone makes early )"
      R"(rows carry weight. Row 0 has one key, so $A_{00} = 1$; row 1 splits 1 between )"
      R"(two. Because $A_{00} = 1$ sets the colour scale, the plain pictures look nearly white; )"
      R"($(i + 1) A_{ij}$, the weight relative to a running mean, shows what is there.)");

  Table table{{"seed", "$A_{00}$", "largest later weight", "its query and key"}, {}};
  Findings findings;
  Checked& first = findings.exact("row 0 is 1 on its own position, for every seed");
  Checked& triangular = findings.exact("0 above the diagonal, for every seed");
  Checked& sums = findings.bounded("rows sum to 1, for every seed");
  const auto labels = visible_labels(course.lecture.shown);
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    Generator generator(seed);
    Head head(model_dim, head_dim, shown_characters, generator);
    (void)head(x).value();
    const Tensor<float, 2> A(head.A().view()[0]);
    const std::string name = "h_seed" + std::to_string(seed);
    course.keep_weights(name, head.weights());
    course.keep(name + "_A", A);

    float largest = 0;
    Index query = 0, key = 0;
    first.require(A(0, 0) == 1, [&] { return "seed " + std::to_string(seed); });
    for (Index i = 0; i < shown_characters; ++i) {
      double sum = 0;
      for (Index j = 0; j < shown_characters; ++j) {
        sum += A(i, j);
        triangular.require(j <= i || A(i, j) == 0, [&] { return where(0, i, j); });
        if (i > 0 && A(i, j) > largest) {
          largest = A(i, j);
          query = i;
          key = j;
        }
      }
      sums.within(std::fabs(sum - 1), static_cast<double>(i + 3) * unit_roundoff,
                  [&] { return where(0, i) + ": " + number(sum); });
    }
    table.rows.push_back({std::to_string(seed), fixed(A(0, 0), 3), fixed(largest, 3),
                          literal_prose(labels[static_cast<std::size_t>(query)]) + " (" +
                              std::to_string(query) + ") looks at " +
                              literal_prose(labels[static_cast<std::size_t>(key)]) + " (" +
                              std::to_string(key) + ")"});
    // Seed 4's stream goes on into exercise 7, as in the lecture.
    if (seed == 4) course.generator = generator;
  }
  section.items.emplace_back(table);

  HeadProblem problem{x, course.lecture.problem.weights, true};
  ResultItem result = examine("prop-3.1", problem);
  for (const Finding& finding : findings.verdict().findings) {
    result.verdict.findings.push_back(finding);
  }
  section.items.emplace_back(std::move(result));
}

}  // namespace headproof
