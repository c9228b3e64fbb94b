// 4.1 The head.

#include "lecture/sections.h"

namespace headproof {

void section_4_1(Course& course) {
  Head head(model_dim, head_dim, max_seq_len, course.generator);
  const Tensor<float, 3> x = course.generator.randn(batch, max_seq_len, model_dim);
  const auto stages = head_forward<float>(x, head.weights().query, head.weights().key,
                                          head.weights().value, head.causal());
  course.lecture.problem = {x, head.weights(), head.causal()};
  course.out = head(x).value();

  course.keep_weights("head", head.weights());
  course.keep("x", x);
  course.keep("q", stages.q);
  course.keep("k", stages.k);
  course.keep("v", stages.v);
  course.keep("scores_masked",
              Tensor<float, 3>(stages.attention.logits.view().transposed(0, 1)[0]));
  course.keep("A", head.A());
  course.keep("out", course.out);

  Section& section = course.begin("4.1", "The head");
  section.items.emplace_back(
      R"($\operatorname{Attn}(X) = \operatorname{softmax}(\operatorname{mask}(Q K^\top / \sqrt{d_k}))\, V$ )"
      R"(with $Q = X W_Q^\top$, $K = X W_K^\top$, $V = X W_V^\top$: three projections without bias )"
      R"(are the parameters. The mask is none of them: it is the rule $j \le i$.)");
  Table table{{"tensor", "axes", "shape"}, {}};
  const auto row = [&](const char* name, const char* axes) {
    table.rows.push_back({name, axes, shape_text(course.lecture.tensor(name))});
  };
  row("x", "batch, position, model_dim");
  row("out", "batch, position, head_dim");
  row("A", "batch, query, key");
  section.items.emplace_back(table);
  const auto too_long = head(Tensor<float, 3>({1, max_seq_len + 1, model_dim}));
  section.items.emplace_back("One position too many is refused, not a crash: *" +
                             too_long.error().message + ".*");
}

}  // namespace headproof
