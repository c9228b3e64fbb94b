// The notebook "Step 4 - A causal self-attention head" for a reader who knows its Python: its code
// cells in their order, numbered from 0, and its figures. docs/notebook.md compares every one.
//
//   example_step4 [FOLDER]    draws the two figures into the folder, if one is given
#include <headproof/head.h>
#include <headproof/text.h>

#include "notebook_words.h"

using namespace headproof;
using notebook::Batch, notebook::Ids, notebook::Matrix, notebook::check;

int main(int argc, char** argv) {
  // Cell 2 (4.1): the head. `value()` throws where Python would raise.
  Generator generator(0);  // torch.manual_seed(0)
  constexpr Index d = 32, dh = 16, T = 8, B = 4;
  Head head(d, dh, T, generator);
  const Batch x = generator.randn(B, T, d);
  const Batch out = head(x).value();
  const Batch A = head.A(), v = head.value(x);
  check(out.shape() == std::array{B, T, dh} && A.shape() == std::array{B, T, T},
        "4.1      the shapes");

  // Cell 4 (4.2): the simplex, the box of the values, the triangle.
  const auto allowed = [](Index i, Index j) { return j <= i; };
  const auto future = [](Index i, Index j) { return j > i; };
  double row_sum_error = 0;
  for (float sum : notebook::row_sums(A)) {
    row_sum_error = std::max(row_sum_error, static_cast<double>(std::fabs(sum - 1)));
  }
  const double smallest = notebook::min(notebook::entries(A[0].with_axis(0), allowed));
  check(notebook::min(A) >= 0 && row_sum_error < 1e-6, "Prop 3.1 rows lie in the simplex");
  check(notebook::in_box(out, v, 1e-6F), "Cor 3.2  outputs lie in the box of the values");
  check(smallest > 0, "Cor 3.3  allowed weights are positive");
  check(notebook::max(notebook::entries(A, future)) == 0, "Prop 5.1 A is lower-triangular");
  std::printf("largest |row sum - 1| %.1e, smallest allowed weight %.2e\n", row_sum_error,
              smallest);

  // Cell 6: causality, by perturbation and by gradient.
  Batch x2 = x;
  const Matrix new_rows = generator.randn(B, d);
  for (Index b = 0; b < B; ++b) std::copy_n(new_rows[b].data, d, x2[b][5].data);
  const Batch out2 = head(x2).value();
  bool as_claimed = true;
  for (Index t = 0; t < T; ++t) as_claimed &= notebook::same_row(out, out2, t) == (t < 5);
  check(as_claimed, "Prop 5.1 a new x[:, 5] leaves rows 0 to 4 bit for bit, and moves 5 to 7");

  Batch d_out(out.shape());  // the gradient of head(x)[0, 3].sum(): ones in that row
  std::fill_n(d_out[0][3].data, dh, 1.0F);
  const HeadWeights& w = head.weights();
  const auto stages = head_forward<float>(x, w.query, w.key, w.value, true);
  const Batch d_x = head_backward<float>(stages, x, w.query, w.key, w.value, d_out, true).d_x;
  for (Index j = 0; j < T; ++j) {
    const bool zero =
        std::all_of(d_x[0][j].data, d_x[0][j].data + d, [](float g) { return g == 0; });
    as_claimed &= zero == (j > 3);
  }
  check(as_claimed, "Prop 5.1 d out[0, 3] / d x[0, j] is 0 for j > 3, and for no other j");

  // Cell 8: Lemma 4.5, why the root of d_k.
  std::puts("  d_k  std raw  sqrt(d_k)  std scaled  largest raw  largest scaled");
  for (Index d_k : {16, 64, 256}) {
    const Batch q = generator.randn(1, T, d_k), k = generator.randn(1, T, d_k);
    const double root = std::sqrt(static_cast<double>(d_k));
    const Matrix raw = notebook::scores(q, k);
    Matrix scaled = raw;
    for (float& score : scaled) score /= static_cast<float>(root);
    std::printf("%5.0f %8.2f %10.1f %11.2f %12.3f %15.3f\n", root * root, notebook::std(raw), root,
                notebook::std(scaled), notebook::max(notebook::softmax(raw)),
                notebook::max(notebook::softmax(scaled)));
  }

  // Cell 11: Exercise 4, the mask before or after the softmax.
  const Matrix s = generator.randn(T, T);
  const Matrix right = notebook::softmax(s, Causal::top_left);
  Matrix wrong = notebook::softmax(s);
  for (Index i = 0; i < T; ++i) std::fill(wrong[i].data + i + 1, wrong[i].data + T, 0.0F);
  const auto print_sums = [](const char* when, const Matrix& mask) {
    const auto sums = notebook::row_sums(Batch(mask.view().with_axis(0)));
    std::printf("masked %s the softmax: row sums %.3f to %.3f\n", when, notebook::min(sums),
                notebook::max(sums));
  };
  print_sums("before", right);
  print_sums("after", wrong);

  // Cell 13 (4.3): permute rows, and the layer follows; permute tokens, and positions show.
  Head hn(d, dh, T, generator, /*causal=*/false);
  const Ids perm = generator.randperm(T);
  const auto sides_differ_by = [&](const Batch& permuted, const Batch& plain) {
    return notebook::difference(hn(permuted).value(), notebook::rows(hn(plain).value(), perm));
  };
  check(sides_differ_by(notebook::rows(x, perm), x) < 1e-5, "Thm 6.1  equivariant in X");
  const Batch xp = notebook::plus(x, Embedding(T, d, generator).table());
  check(sides_differ_by(notebook::rows(xp, perm), xp) < 1e-5, "Thm 6.1  with positions in X too");
  const Embedding tok(65, d, generator), pos(T, d, generator);
  const Ids idx = generator.randint(0, 65, T);
  const Batch moved = tok(notebook::at(idx, perm)), unmoved = tok(idx);
  const double without = sides_differ_by(moved, unmoved);
  const double with =
      sides_differ_by(notebook::plus(moved, pos.table()), notebook::plus(unmoved, pos.table()));
  check(without < 1e-5, "Thm 6.1  tokens permuted, without positions");
  check(with > 1e-3, "Cor 6.2  tokens permuted, with positions: no longer equivariant");
  std::printf("the two sides differ by %.1e without positions, by %.1e with them\n", without, with);

  // Cell 16 (4.4): a text and its characters; here, the passage that the library brings along.
  const auto text = decode_utf8(default_text(), "the default text").value().characters;
  const Vocabulary vocabulary(text);
  const Index V = vocabulary.size();
  std::printf("%zu characters, vocabulary %zu\n", text.size(), static_cast<std::size_t>(V));

  // Cell 17: five heads that have learnt nothing, on the first 48 characters.
  constexpr Index Tc = 48;
  const auto shown = text.substr(0, Tc);
  const Embedding tok_emb(V, d, generator), pos_emb(Tc, d, generator);
  const Batch xin = notebook::plus(tok_emb(vocabulary.encode(shown).value()), pos_emb.table());
  std::vector<Matrix> heads, kernels;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    generator.manual_seed(seed);
    Head h(d, dh, Tc, generator);
    (void)h(xin).value();
    heads.emplace_back(h.A()[0]);
  }

  // Cell 19 (4.5): scores by position alone smooth with a Gaussian; none at all, a running mean.
  for (float bandwidth : {0.5F, 2.0F, 8.0F, HUGE_VALF}) {
    Matrix S({Tc, Tc});
    for (Index n = 0; n < S.size(); ++n) {
      const auto distance = static_cast<float>(n / Tc - n % Tc);
      S.data()[n] = -distance * distance / (2 * bandwidth * bandwidth);
    }
    kernels.push_back(notebook::softmax(S, Causal::top_left));
  }
  if (argc > 1) {
    const std::string folder = std::string(argv[1]) + "/";
    const auto labels = visible_labels(shown);
    notebook::save_figure(folder + "five_seeds.png", heads, {"0", "1", "2", "3", "4"}, labels);
    notebook::save_figure(folder + "kernels.png", kernels, {"0.5", "2", "8", "running mean"},
                          labels);
  }

  // Cell 21: Exercise 7, the rank of the scores.
  Head big(64, 8, 32, generator, /*causal=*/false);
  const Batch xb = generator.randn(1, 32, 64);
  const Matrix S = notebook::scores(big.query(xb), big.key(xb));
  const auto rank = static_cast<int>(notebook::matrix_rank(S));
  std::printf("S is 32 x 32 with d_k = 8, and its rank is %d\n", rank);
  check(rank <= 8, "Ex 7     the rank of S is at most d_k");
}
