// Theorems about attention as a black box (q, k, v) -> out: how problems are drawn and judged.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headproof/attention_subject.h"
#include "headproof/check.h"
#include "headproof/random.h"
#include "subjects/rounded.h"
#include "theorems/findings.h"

namespace headproof {

/// The subject gave no answer; the engine turns it into a verdict.
struct Refused {
  Refusal refusal;
};

/// A subject with what is known about it.
class Asker {
 public:
  Asker(AttentionSubject& subject, Domain of_subject, Conventions followed)
      : domain(std::move(of_subject)), conventions(std::move(followed)), subject_(subject) {}

  const Domain domain;
  const Conventions conventions;

  bool has(Feature feature) const { return domain.features.has(feature); }

  /// The answer, its shapes checked; throws Refused.
  AttentionAnswer ask(const AttentionProblem& problem);
  AttentionReply reply(const AttentionProblem& problem);

  /// The weights that the subject uses, [batch, num_heads, seq_len_q, seq_len_k], seen through
  /// `out` alone: v becomes columns of the identity, value_dim of them a call. Throws Refused.
  Tensor<double, 4> recover_A(const AttentionProblem& problem);

  /// Asks, and forgets the answer: what state it leaves is looked for. Throws Refused where the
  /// subject doesn't do that, as a recording does not.
  void distract(const AttentionProblem& problem);

  /// Whether answers were written down earlier, so that nothing runs.
  bool is_recording() const { return subject_.only_problem().has_value(); }

  int calls() const { return calls_; }

  /// The smallest sets of things that failed when they were asked for together, though each was
  /// accepted alone.
  std::vector<Declined> failed_together() const;

 private:
  void fails_together(const std::vector<std::string_view>& extras, const Refusal& refusal);

  AttentionSubject& subject_;
  int calls_ = 0;
  std::vector<std::pair<std::vector<std::string_view>, Refusal>> failed_together_;
};

/// The numbers of a case: where it stands among the cases of its theorem decides how large it may
/// be, so that the first ones are tiny and later ones long.
struct Sizes {
  Index batch = 1, num_heads = 1, num_kv_heads = 1, seq_len_q = 1, seq_len_k = 1, head_dim = 1,
        value_dim = 1;
};

/// Draws what a case needs, from a seed of its own, within what the subject accepts.
class Draw {
 public:
  Draw(const Domain& accepted, std::uint64_t seed, int number, std::string_view family)
      : domain(accepted), case_number(number), regime(family), generator(seed) {}

  const Domain& domain;
  const int case_number;
  const std::string_view regime;
  Generator generator;

  Index below(Index n) { return n <= 1 ? 0 : generator.randint(0, n, 1)(0); }
  bool chance(int one_in) { return below(one_in) == 0; }

  /// A length near `about` that the domain accepts, at least 1.
  Index length(Index about) const;
  /// A head_dim that the domain accepts: the smallest not below `about`, else the largest.
  Index dim(Index about) const;
  /// Sizes for this case, seq_len_q = seq_len_k.
  Sizes sizes();
  /// The same with seq_len_q != seq_len_k where the subject accepts that.
  Sizes rectangular_sizes();
  /// A tensor in this case's regime, numbers that the dtype represents.
  Tensor<float, 4> tensor(std::array<Index, 4> shape);
  /// q, k and v in this case's regime; causal, where the subject accepts that, or as asked.
  AttentionProblem problem(const Sizes& sizes, bool causal);
  AttentionProblem problem(bool causal) { return problem(sizes(), causal); }
  /// causal or not, whichever the subject accepts, either where it accepts both.
  bool either_causal();
};

/// One theorem about a black box.
struct AttentionTheorem {
  std::string_view id, title, statement, bound;
  Claim claim = Claim::bounded;  ///< what gates: bitwise theorems only when asked
  /// What the subject must offer; the theorem is not applicable without.
  std::vector<Feature> needs = {};
  /// Regimes that make sense for it; empty: all.
  std::vector<std::string_view> regimes = {};
  std::function<AttentionProblem(Draw& draw)> draw;
  /// Asks the questions that `problem` gives rise to. Must be a function of the problem alone, and
  /// must make sense for problems with rows, heads and channels removed, which shrinking does.
  std::function<Verdict(Asker& asker, const AttentionProblem& problem)> judge;
};

/// All of them, the lecture's first.
const std::vector<AttentionTheorem>& attention_theorems();

/// Numbers compared as bits; any NaN equals any NaN.
bool same_bits(double a, double b);

}  // namespace headproof
