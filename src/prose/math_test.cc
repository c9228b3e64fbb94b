#include "prose/math.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace headproof {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

TEST(MathToText, WritesFormulasInUnicode) {
  const Pairs cases = {
      {R"($\sum_j A_{ij} = 1$)", "Σ_j A_ij = 1"},
      {R"($\sqrt{d_k}$)", "√d_k"},
      {R"($\sqrt{2\pi}$)", "√(2π)"},
      {R"($\frac{q k^\top}{\sqrt{d_k}}$)", "qkᵀ/√d_k"},
      {R"($\frac{a+b}{2s}$)", "(a + b)/(2s)"},
      {R"($-\frac{(i-j)^2}{2s^2}$)", "−(i − j)²/(2s²)"},
      {R"($\frac{1}{\frac{a}{b}}$)", "1/(a/b)"},
      {R"($x_0, x_{12}, x_{i+1}, x_{ij}$)", "x₀, x₁₂, x_(i+1), x_ij"},
      {R"($10^{-6}, x^2, x_i^2, x_0^2, e^{-x}$)", "10⁻⁶, x², x_i^2, x₀², e^(−x)"},
      {R"($E_{x_t}$)", "E_(x_t)"},
      {R"($\max_{j \le i} v_j$)", "max_(j≤i) v_j"},
      {R"($\prod_{i=1}^n \log x_i$)", "Π_(i=1)^n log x_i"},
      {R"($\operatorname{softmax}(S)$)", "softmax(S)"},
      {R"($\operatorname{rank} S \le \min(d, T)$)", "rank S ≤ min(d, T)"},
      {R"($f \colon x \mapsto \iota(x), \mathbb{R}^{T \times d}$)", "f: x ↦ ι(x), ℝ^(T×d)"},
      {R"($i \in \{0, \ldots, T-1\}$)", "i ∈ {0, …, T − 1}"},
      {R"($\|x\| \ne |y|$)", "‖x‖ ≠ |y|"},
      {R"($-x + -y$)", "−x + −y"},
      {R"($\hat{x}, \bar A, x', \lambda \to \infty$)", "x\u0302, A\u0304, x′, λ → ∞"},
      {R"($\left( \frac{a}{b} \right)^2$)", "(a/b)²"},
      {R"($\mathrm{lse}\,\mathbf{1}^\top$)", "lse 𝟏ᵀ"},
      {R"($A \subset B \text{ if } j \cdot k$)", "A ⊂ B if j · k"},
      {R"($a \quad b \; c$)", "a b c"},
      {R"($A_{ij}^{(h)}$)", "A_ij^(h)"},
      {R"($$\partial x$$)", "∂x"},
  };
  for (const auto& [prose, text] : cases) EXPECT_EQ(math_to_text(prose), text) << prose;
}

TEST(MathToHtml, WritesFormulasAsMathMl) {
  const Pairs cases = {
      {R"($x$)", "<math><mi>x</mi></math>"},
      {R"($$x$$)", R"(<math display="block"><mi>x</mi></math>)"},
      {R"($\frac{1}{2}$)",
       "<math><mfrac><mrow><mn>1</mn></mrow><mrow><mn>2</mn></mrow></mfrac></math>"},
      {R"($\sqrt{d_k}$)", "<math><msqrt><msub><mi>d</mi><mi>k</mi></msub></msqrt></math>"},
      {R"($x_i^{10}$)", "<math><msubsup><mi>x</mi><mi>i</mi><mn>10</mn></msubsup></math>"},
      {R"($\sum_j^n$)",
       R"(<math><munderover><mo movablelimits="true">∑</mo><mi>j</mi><mi>n</mi></munderover></math>)"},
      {R"($2\log n = \max x$)",
       R"(<math><mn>2</mn><mspace width="0.17em"></mspace><mi mathvariant="normal">log</mi>)"
       R"(<mspace width="0.17em"></mspace><mi>n</mi><mo>=</mo>)"
       R"(<mo movablelimits="true" lspace="0" rspace="0">max</mo>)"
       R"(<mspace width="0.17em"></mspace><mi>x</mi></math>)"},
      {R"($a<b$)", "<math><mi>a</mi><mo>&lt;</mo><mi>b</mi></math>"},
      {R"($-1$)", R"(<math><mo form="prefix">−</mo><mn>1</mn></math>)"},
      {R"($1.5$)", "<math><mn>1.5</mn></math>"},
      {R"($\text{if }$)", "<math><mtext>if\u00A0</mtext></math>"},
      {R"($\hat{x}$)", R"(<math><mover accent="true"><mi>x</mi><mo>^</mo></mover></math>)"},
  };
  for (const auto& [prose, html] : cases) EXPECT_EQ(math_to_html(prose), html) << prose;
}

TEST(Prose, KeepsCodeAndEmphasis) {
  EXPECT_EQ(math_to_text("a `x < $y$ * 2` and *so $a*b$ on*"), "a x < $y$ * 2 and so a * b on");
  EXPECT_EQ(math_to_html("a `x < $y$` and *so on*"),
            "a <code>x &lt; $y$</code> and <em>so on</em>");
}

TEST(Prose, LeavesMarksWithoutPartnersAlone) {
  for (const std::string prose :
       {"2 * 3 * 4", "a*b*c", "a ` b", "costs 5 $", "*", "$", "`", "\\", "", "**", "$$", "``"}) {
    EXPECT_EQ(math_to_text(prose), prose);
    EXPECT_EQ(math_to_html(prose), prose);
  }
  EXPECT_EQ(math_to_text(R"(\$5, \*, \`, \\)"), R"($5, *, `, \)");
}

TEST(Prose, KeepsPunctuationOnTheLineOfItsFormula) {
  EXPECT_EQ(math_to_html("$x$.) $y$ z"),
            R"~(<span class="joined"><math><mi>x</mi></math>.)</span> <math><mi>y</mi></math> z)~");
  EXPECT_EQ(math_to_text("($x$, $y$)"), "(x, y)");
}

TEST(Prose, CanBeMadeOfAnyText) {
  const std::string text = R"($x$ *y* `z` \$ \)";
  EXPECT_EQ(math_to_text(literal_prose(text)), text);
  EXPECT_EQ(math_to_html(literal_prose("$<$")), "$&lt;$");
}

TEST(Prose, IsEscapedInHtmlOnly) {
  EXPECT_EQ(math_to_html("<b> & \"q\" 'a'"), "&lt;b&gt; &amp; &quot;q&quot; &#39;a&#39;");
  EXPECT_EQ(math_to_text("<b> & é 😀"), "<b> & é 😀");
}

TEST(MalformedFormulas, AppearAsTheyWereTyped) {
  for (const std::string formula : {R"($\frac{1}$)", "$a_$", "$}$", "${$", R"($\foo x$)", "$a^b^c$",
                                    R"($\left( x$)", R"($\right)$)", R"($\sqrt$)", "$^^$", "$\\$",
                                    R"($\mathrm{x$)", R"($\left$)", "$ $", R"($\operatorname$)"}) {
    EXPECT_EQ(math_to_text(formula), formula);
  }
  EXPECT_EQ(math_to_html(R"($\foo <$)"), R"($\foo &lt;$)");
}

TEST(MalformedFormulas, OfAnyBytesNeitherHangNorCrash) {
  const std::string deep(100000, '{');
  EXPECT_EQ(math_to_text("$" + deep + "$"), "$" + deep + "$");
  // Every short string over the characters that mean something, and bytes that are not UTF-8.
  const std::string alphabet = "\\{}^_'a1-(\xF0\xC3*`";
  const std::size_t count = alphabet.size();
  for (std::size_t code = 0; code < count * count * count * count; ++code) {
    std::string formula = "$";
    for (std::size_t rest = code, length = 0; length < 4; ++length, rest /= count) {
      formula += alphabet[rest % count];
    }
    formula += "$";
    const std::string text = math_to_text(formula), html = math_to_html(formula);
    EXPECT_TRUE(html.starts_with("<math>") || text == formula) << formula;
  }
}

}  // namespace
}  // namespace headproof
