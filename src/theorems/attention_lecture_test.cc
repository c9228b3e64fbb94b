// The lecture's theorems hold for right black boxes, and each is broken by one that is not.

#include "theorems/attention_lecture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace headproof {
namespace {

/// The ten, in the lecture's order: every theorem about black boxes that is the lecture's.
std::vector<std::string> lecture_ids() {
  std::vector<std::string> ids;
  for (const Theorem& theorem : theorems()) ids.emplace_back(theorem.id);
  return ids;
}

/// What happens between the steps of a plain float32 attention; nothing where it is right.
struct Steps {
  std::function<float(Index i, Index j, Index length)> add_to_score;
  std::function<void(AttentionProblem&)> change_problem;
  std::function<bool(const AttentionProblem&, Index i, Index j)> allowed =
      [](const AttentionProblem& p, Index i, Index j) {
        return p.causal == Causal::none || j <= i;
      };
  float masked_score = -INFINITY;
  std::function<float(const AttentionProblem&, Index i, Index j, float weight)> change_weight;
  std::function<double(const AttentionProblem&, Index i, Index c, double out)> change_out;
  Dtype dtype = Dtype::float32;  ///< of the weights before they meet the values, and of out
};

/// softmax(mask(scale q k^T)) v as one writes it down; heads map to key heads in groups.
AttentionReply plain_attention(const AttentionProblem& asked, const Steps& steps) {
  AttentionProblem p = asked;
  if (steps.change_problem) steps.change_problem(p);
  AttentionAnswer answer;
  answer.out = Tensor<double, 4>({p.batch(), p.num_heads(), p.seq_len_q(), p.value_dim()});
  if (p.want_weights) {
    answer.weights = Tensor<double, 4>({p.batch(), p.num_heads(), p.seq_len_q(), p.seq_len_k()});
  }
  const float scale =
      static_cast<float>(p.scale.value_or(1 / std::sqrt(static_cast<double>(p.head_dim()))));
  std::vector<float> row(static_cast<std::size_t>(p.seq_len_k()));
  for_each_row(p, [&](Index b, Index h, Index i) {
    const Index kv = h / (p.num_heads() / p.num_kv_heads());
    float maximum = -INFINITY, sum = 0;
    for (Index j = 0; j < p.seq_len_k(); ++j) {
      float& score = row[static_cast<std::size_t>(j)];
      score = 0;
      for (Index c = 0; c < p.head_dim(); ++c) score += p.q(b, h, i, c) * p.k(b, kv, j, c);
      score *= scale;
      if (steps.add_to_score) score += steps.add_to_score(i, j, p.seq_len_k());
      if (!steps.allowed(p, i, j)) score = steps.masked_score;
      maximum = std::max(maximum, score);
    }
    for (float& score : row) sum += score = std::exp(score - maximum);
    for (Index j = 0; j < p.seq_len_k(); ++j) {
      float& weight = row[static_cast<std::size_t>(j)];
      weight = rounded(weight / sum, steps.dtype);
      if (steps.change_weight) weight = steps.change_weight(p, i, j, weight);
      if (answer.weights) (*answer.weights)(b, h, i, j) = weight;
    }
    for (Index c = 0; c < p.value_dim(); ++c) {
      float out = 0;
      for (Index j = 0; j < p.seq_len_k(); ++j) {
        const float weight = row[static_cast<std::size_t>(j)];
        if (weight != 0) out += weight * p.v(b, kv, j, c);
      }
      double& result = answer.out(b, h, i, c);
      result = rounded(out, steps.dtype);
      if (steps.change_out) result = steps.change_out(p, i, c, result);
    }
  });
  return answer;
}

Domain plain_features() {
  Domain domain;
  domain.features = {Feature::causal,        Feature::non_causal, Feature::batches, Feature::heads,
                     Feature::grouped_heads, Feature::value_dim,  Feature::scale};
  return domain;
}

Report check_lecture(AttentionSubject& subject, std::uint64_t seed,
                     std::vector<std::string> ids = lecture_ids()) {
  CheckOptions options;
  options.theorems = std::move(ids);
  options.seed = seed;
  options.seconds = 1000;  // as many cases, however slow the machine
  options.cases = 32;
  return check(subject, options);
}

Report check_lecture(const Steps& steps, std::uint64_t seed, std::vector<std::string> ids,
                     Domain domain = plain_features()) {
  domain.max_length = 40;
  domain.dtype = steps.dtype;
  const auto subject = function_attention(
      "plain", std::move(domain),
      [&](const AttentionProblem& problem) { return plain_attention(problem, steps); });
  return check_lecture(*subject, seed, std::move(ids));
}

/// Every theorem holds, or does not apply to the subject's domain.
void expect_right(const Report& report) {
  EXPECT_EQ(report.theorems.size(), 10U);
  for (const TheoremReport& theorem : report.theorems) {
    EXPECT_TRUE(theorem.outcome == Outcome::holds ||
                (theorem.outcome == Outcome::not_applicable && theorem.cases == 0))
        << report.subject << ", seed " << report.seed << ": " << theorem.id << " "
        << name_of(theorem.outcome) << " " << theorem.why << " "
        << (theorem.counterexample ? theorem.counterexample->note : "");
  }
}

TEST(LectureForBlackBoxes, ListsTheLectureFirstInItsOrder) {
  const std::vector<std::string> ids = lecture_ids();
  ASSERT_GE(attention_theorems().size(), ids.size());
  for (std::size_t at = 0; at < ids.size(); ++at) EXPECT_EQ(attention_theorems()[at].id, ids[at]);
}

TEST(LectureForBlackBoxes, HoldsForTheBuiltinOnes) {
  for (const char* name : {"reference", "canonical", "fused", "float64"}) {
    const bool fast = std::string_view(name) == "fused";
    for (std::uint64_t seed = 0; seed < (fast ? 3 : 1); ++seed) {
      const Report report = check_lecture(*builtin_attention(name), seed);
      expect_right(report);
      for (const TheoremReport& theorem : report.theorems) {
        EXPECT_EQ(theorem.outcome, Outcome::holds) << theorem.id << " " << theorem.why;
      }
    }
  }
}

TEST(LectureForBlackBoxes, HoldsForAPlainOneInEveryDtype) {
  for (Dtype dtype : {Dtype::float32, Dtype::float16, Dtype::bfloat16}) {
    for (std::uint64_t seed : {0U, 1U}) {
      Steps right;
      right.dtype = dtype;
      expect_right(check_lecture(right, seed, lecture_ids()));
    }
  }
}

TEST(LectureForBlackBoxes, HoldsForThoseThatAcceptLittle) {
  Domain causal_only, open_only, sixteens;
  causal_only.features = {Feature::causal};
  open_only.features = {Feature::non_causal, Feature::heads};
  sixteens.features = {Feature::causal, Feature::non_causal, Feature::batches};
  sixteens.head_dims = {16, 32};
  sixteens.length_multiple = 16;
  for (const Domain& domain : {causal_only, open_only, sixteens}) {
    for (std::uint64_t seed : {0U, 1U}) {
      const auto fused = builtin_attention("fused");
      const auto narrow =
          function_attention("narrow", domain, [&](const AttentionProblem& p) -> AttentionReply {
            const bool causal = p.causal != Causal::none;
            EXPECT_TRUE(domain.features.has(causal ? Feature::causal : Feature::non_causal));
            EXPECT_EQ(p.seq_len_q() % domain.length_multiple, 0);
            EXPECT_EQ(p.head_dim(), p.value_dim());
            if (!domain.head_dims.empty() && p.head_dim() != 16 && p.head_dim() != 32) {
              return Refusal{Refusal::Kind::failed, "head_dim is 16 or 32"};
            }
            return fused->attend(p);
          });
      const Report report = check_lecture(*narrow, seed);
      expect_right(report);
      const TheoremReport& rank = report.theorems.back();
      EXPECT_EQ(rank.outcome, Outcome::holds) << rank.why;
    }
  }
}

/// Violated, with a counterexample that a person can follow.
void expect_violated(const Steps& steps, const char* id, std::string_view note,
                     const Domain& domain = plain_features()) {
  for (std::uint64_t seed : {0U, 1U}) {
    const Report report = check_lecture(steps, seed, {id}, domain);
    ASSERT_EQ(report.theorems.size(), 1U);
    const TheoremReport& theorem = report.theorems[0];
    ASSERT_EQ(theorem.outcome, Outcome::violated) << id << ", seed " << seed << " " << theorem.why;
    const AttentionProblem& p = theorem.counterexample->problem;
    EXPECT_LE(p.seq_len_q(), 4) << id << ", seed " << seed;
    EXPECT_LE(p.head_dim(), 2) << id << ", seed " << seed;
    EXPECT_EQ(p.batch() * p.num_heads(), 1) << id << ", seed " << seed;
    EXPECT_NE(theorem.counterexample->note.find(note), std::string::npos)
        << id << ": " << theorem.counterexample->note;
  }
}

Steps with_scale(double times) {
  Steps steps;
  steps.change_problem = [times](AttentionProblem& p) {
    p.scale = times / std::sqrt(static_cast<double>(p.head_dim()));
  };
  return steps;
}

TEST(LectureForBlackBoxes, Prop31IsBrokenByRowsThatDoNotSumTo1AndByNegativeWeights) {
  Steps short_of_1, negative;
  short_of_1.change_weight = [](const AttentionProblem&, Index i, Index j, float weight) {
    return i == j ? weight * 0.999F : weight;
  };
  expect_violated(short_of_1, "prop-3.1", "sums to");
  negative.change_weight = [](const AttentionProblem& p, Index i, Index j, float weight) {
    const float sign = j == 0 ? 1.0F : -1.0F;  // the sum stays
    return p.seq_len_k() > 1 && i == 1 && j < 2 ? weight + sign : weight;
  };
  expect_violated(negative, "prop-3.1", "at least 0");
}

TEST(LectureForBlackBoxes, Cor32IsBrokenByAnOutputBeyondTheValuesAndByAnotherA) {
  Steps larger, not_linear, shown;
  larger.change_out = [](const AttentionProblem&, Index, Index, double out) { return 1.5 * out; };
  expect_violated(larger, "cor-3.2", "reaches");
  not_linear.change_out = [](const AttentionProblem&, Index, Index, double out) {
    return out > 0 && out < 0.5 ? 0.5 * out : out;
  };
  expect_violated(not_linear, "cor-3.2", "");
  shown.change_out = [](const AttentionProblem& p, Index, Index c, double) {
    return static_cast<double>(p.v(0, 0, 0, c));
  };
  Domain shows = plain_features();
  shows.features.set(Feature::weights, true);
  shows.features.set(Feature::heads, false);
  shows.features.set(Feature::batches, false);
  expect_violated(shown, "cor-3.2", "shown", shows);
}

TEST(LectureForBlackBoxes, Cor33IsBrokenByWeightsThatAreDropped) {
  Steps sparse;
  sparse.change_weight = [](const AttentionProblem&, Index, Index, float weight) {
    return weight < 1e-20F ? 0.0F : weight;
  };
  expect_violated(sparse, "cor-3.3", "the definition gives");
}

TEST(LectureForBlackBoxes, Prop51IsBrokenByLeaksFiniteMasksAndBlindRows) {
  Steps leak, bits, finite, strict;
  leak.change_out = [](const AttentionProblem& p, Index i, Index c, double out) {
    return i == 0 ? out + 0.001 * static_cast<double>(p.v(0, 0, p.seq_len_k() - 1, c)) : out;
  };
  Domain one_head = plain_features();
  one_head.features.set(Feature::heads, false);
  one_head.features.set(Feature::batches, false);
  one_head.features.set(Feature::grouped_heads, false);
  expect_violated(leak, "prop-5.1", "", one_head);
  finite.masked_score = -1e9F;
  expect_violated(finite, "prop-5.1", "above the diagonal");
  bits.change_out = [](const AttentionProblem& p, Index, Index, double out) {
    return out * (1 + 0x1p-30 * static_cast<double>(p.q(0, 0, p.seq_len_q() - 1, 0)));
  };
  expect_violated(bits, "prop-5.1", "moved too", one_head);
  strict.allowed = [](const AttentionProblem& p, Index i, Index j) {
    return p.causal == Causal::none || j < i || (i == 0 && j == 0);
  };
  expect_violated(strict, "prop-5.1", "did not");
}

TEST(LectureForBlackBoxes, Prop51DoesNotBlameBitsThatChangeByThemselves) {
  int calls = 0;
  Steps shaky;
  shaky.change_out = [&calls](const AttentionProblem&, Index, Index, double out) {
    return out * (1 + 0x1p-40 * (++calls % 1009));
  };
  const Report report = check_lecture(shaky, 0, {"prop-5.1"});
  EXPECT_EQ(report.theorems[0].outcome, Outcome::holds) << report.theorems[0].counterexample->note;
}

TEST(LectureForBlackBoxes, Prop51IsBrokenByGradientsOfTheFuture) {
  const auto reference = builtin_attention("reference");
  Domain domain = plain_features();
  domain.features.set(Feature::backward, true);
  for (bool of_keys : {true, false}) {
    const auto subject =
        function_attention("gradients", domain, [&](const AttentionProblem& p) -> AttentionReply {
          AttentionReply reply = reference->attend(p);
          auto& gradients = std::get<AttentionAnswer>(reply).gradients;
          if (gradients && p.causal != Causal::none) {
            (of_keys ? gradients->d_k : gradients->d_v)(0, 0, p.seq_len_k() - 1, 0) += 1e-6;
          }
          return reply;
        });
    const TheoremReport theorem = check_lecture(*subject, 0, {"prop-5.1"}).theorems.at(0);
    ASSERT_EQ(theorem.outcome, Outcome::violated);
    EXPECT_NE(theorem.counterexample->note.find(of_keys ? "d_k of" : "d_v of"), std::string::npos)
        << theorem.counterexample->note;
    EXPECT_EQ(theorem.counterexample->problem.seq_len_q(), 2);
  }
}

TEST(LectureForBlackBoxes, Lemma45IsBrokenByWrongScalesAndByQueriesInPlaceOfKeys) {
  Steps inverse, swapped;
  inverse.change_problem = [](AttentionProblem& p) {
    p.scale = 1 / static_cast<double>(p.head_dim());
  };
  expect_violated(inverse, "lemma-4.5", "the scale in use is 0.5");
  expect_violated(with_scale(1.01), "lemma-4.5", "the scale in use is 1.01");
  Domain one_head = plain_features();
  one_head.features.set(Feature::grouped_heads, false);
  swapped.change_problem = [](AttentionProblem& p) { std::swap(p.q, p.k); };
  expect_violated(swapped, "lemma-4.5", "ln A", one_head);
}

TEST(LectureForBlackBoxes, Ex4IsBrokenByAMaskAfterTheSoftmaxAndByNoMask) {
  Steps after, none;
  after.allowed = none.allowed = [](const AttentionProblem&, Index, Index) { return true; };
  after.change_weight = [](const AttentionProblem& p, Index i, Index j, float weight) {
    return p.causal != Causal::none && j > i ? 0.0F : weight;
  };
  expect_violated(after, "ex-4", "the zeroed softmax over its sum");
  expect_violated(none, "ex-4", "the zeroed softmax over its sum");
  Steps always;
  always.allowed = [](const AttentionProblem&, Index i, Index j) { return j <= i; };
  expect_violated(always, "ex-4", "the open row sums to");
}

TEST(LectureForBlackBoxes, Thm61IsBrokenByAPreferenceForNeighbours) {
  Steps near;
  near.add_to_score = [](Index i, Index j, Index) {
    return -0.1F * static_cast<float>(std::abs(i - j));
  };
  expect_violated(near, "thm-6.1", "rows in the order");
}

TEST(LectureForBlackBoxes, Cor62IsBrokenByAMeanThatForgetsTokensAndByAnOrder) {
  expect_violated(with_scale(0), "cor-6.2", "with positions: not equivariant");
  Steps near;
  near.add_to_score = [](Index i, Index j, Index) { return i < j ? -0.1F : 0.0F; };
  expect_violated(near, "cor-6.2", "no positions: equivariant");
}

TEST(LectureForBlackBoxes, Sec45IsBrokenByAnotherScaleAndKeepsItsPositionsWhenItShrinks) {
  expect_violated(with_scale(1.5), "sec-4.5", "bandwidth");
  Steps near;
  near.add_to_score = [](Index i, Index j, Index) {
    return -0.01F * static_cast<float>(std::abs(i - j));
  };
  expect_violated(near, "sec-4.5", "the kernel is");
}

/// What a recording may hold and nothing that is drawn does: sizes of 0, other lengths of queries
/// and keys.
TEST(LectureForBlackBoxes, EveryTheoremJudgesSizesOf0AndOtherNumbersOfKeys) {
  const auto subject = builtin_attention("reference");
  Domain domain = subject->domain();
  const std::vector<std::function<void(Sizes&)>> changes = {
      [](Sizes& s) { s.batch = 0; },     [](Sizes& s) { s.num_heads = s.num_kv_heads = 0; },
      [](Sizes& s) { s.num_heads = 0; }, [](Sizes& s) { s.seq_len_q = 0; },
      [](Sizes& s) { s.seq_len_k = 0; }, [](Sizes& s) { s.seq_len_q = s.seq_len_k = 0; },
      [](Sizes& s) { s.value_dim = 0; }, [](Sizes& s) { s.head_dim = s.value_dim = 0; },
      [](Sizes& s) { s.seq_len_k = 1; }, [](Sizes& s) { s.seq_len_k = 5; },
  };
  for (const AttentionTheorem& theorem : attention_theorems()) {
    for (Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
      for (std::size_t at = 0; at < changes.size(); ++at) {
        Sizes sizes{2, 2, 2, 3, 3, 2, 2};
        changes[at](sizes);
        AttentionProblem problem = Draw(domain, 1, 20, "gaussian").problem(sizes, true);
        problem.causal = causal;
        Asker asker(*subject, domain, {});
        try {
          EXPECT_NE(theorem.judge(asker, problem).outcome(), Outcome::violated)
              << theorem.id << ", change " << at;
        } catch (const Refused& refused) {
          EXPECT_EQ(refused.refusal.kind, Refusal::Kind::unsupported)
              << theorem.id << ", change " << at << ": " << refused.refusal.why;
        }
      }
    }
  }
}

TEST(LectureForBlackBoxes, Ex7IsBrokenByScoresOfMoreOrLessRank) {
  Steps table;
  table.add_to_score = [](Index i, Index j, Index) {
    return 0.2F * static_cast<float>((i * i + i * j + 2 * j) % 5);
  };
  Domain open_only = plain_features();
  open_only.features.set(Feature::causal, false);
  expect_violated(table, "ex-7", "rank", open_only);
  expect_violated(with_scale(0), "ex-7", "rank 0");
}

}  // namespace
}  // namespace headproof
