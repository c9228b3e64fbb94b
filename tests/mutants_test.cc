// The checks can fail: every wrong head is caught, and no right one is.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>

#include "headproof/theorems.h"

namespace headproof {
namespace {

HeadProblem lecture_problem(std::uint64_t seed) {
  Generator generator(seed);
  return draw_problem(4, 8, 32, 16, generator);
}

std::string describe(const Theorem& theorem, const Verdict& verdict) {
  std::string text = std::string(theorem.id) + " " + std::string(name_of(verdict.outcome()));
  for (const Finding& finding : verdict.findings) {
    text += "\n  " + finding.what + ": " + std::string(name_of(finding.outcome)) + " " +
            std::to_string(finding.error) + " / " + std::to_string(finding.bound) + " " +
            finding.note;
  }
  return text;
}

TEST(Mutants, EveryOneIsCaughtByATheoremAndTheTableShowsByWhich) {
  const HeadProblem problem = lecture_problem(0);
  std::printf("%-24s", "mutant");
  for (const Theorem& theorem : theorems()) std::printf(" %9s", std::string(theorem.id).c_str());
  std::printf("\n");
  for (const MutantInfo& mutant : mutants()) {
    const auto subject = mutant_subject(mutant.name);
    std::printf("%-24s", std::string(mutant.name).c_str());
    int caught = 0;
    for (const Theorem& theorem : theorems()) {
      const bool holds = theorem.check(*subject, problem).outcome() == Outcome::holds;
      caught += holds ? 0 : 1;
      std::printf(" %9s", holds ? "." : "caught");
    }
    std::printf("\n");
    EXPECT_GT(caught, 0) << mutant.name << ": " << mutant.what;
  }
}

TEST(Mutants, EachTheoremIsBrokenByTheMutantThatItNames) {
  const HeadProblem problem = lecture_problem(0);
  for (const Theorem& theorem : theorems()) {
    const auto subject = mutant_subject(theorem.breaks);
    ASSERT_NE(subject, nullptr) << theorem.breaks;
    EXPECT_EQ(theorem.check(*subject, problem).outcome(), Outcome::violated)
        << theorem.id << " with " << theorem.breaks;
  }
}

// The two statements that lemma-4.5 makes about its own sample are the only ones that no head can
// break; saturation_test.cc shows how sharp that sample is.
TEST(Mutants, EveryClaimOfEveryTheoremIsBrokenByOneOfThem) {
  const HeadProblem problem = lecture_problem(0);
  for (const Theorem& theorem : theorems()) {
    std::map<std::string, int> broken;
    for (const MutantInfo& mutant : mutants()) {
      for (const Finding& finding : theorem.check(*mutant_subject(mutant.name), problem).findings) {
        broken[finding.what] += finding.outcome == Outcome::violated ? 1 : 0;
      }
    }
    for (const auto& [claim, times] : broken) {
      const bool about_the_sample =
          theorem.id == "lemma-4.5" && (claim.find("variance") != std::string::npos ||
                                        claim.find("Jacobian") != std::string::npos);
      EXPECT_EQ(times == 0, about_the_sample) << theorem.id << ": " << claim;
    }
  }
}

/// A head that answers nothing, and one whose answer has the wrong shape.
class Useless final : public Subject {
 public:
  explicit Useless(bool answers) : answers_(answers) {}
  std::string_view name() const override { return "useless"; }
  Result<HeadAnswer> head(const HeadProblem&) const override {
    if (answers_) return HeadAnswer{Tensor<float, 3>({1, 1, 1}), std::nullopt};
    return Error{"no answer today"};
  }

 private:
  bool answers_;
};

TEST(Theorems, AHeadWithoutAnAnswerIsAVerdict) {
  for (bool answers : {false, true}) {
    for (const Theorem& theorem : theorems()) {
      const Verdict verdict = theorem.check(Useless(answers), lecture_problem(0));
      EXPECT_EQ(verdict.outcome(), Outcome::crashed) << theorem.id;
      EXPECT_FALSE(verdict.findings.back().note.empty()) << theorem.id;
    }
  }
}

/// The reference's `out` alone: a black box that shows neither A nor gradients.
class BlackBox final : public Subject {
 public:
  std::string_view name() const override { return "black box"; }
  Result<HeadAnswer> head(const HeadProblem& problem) const override {
    auto answer = reference_subject()->head(problem);
    answer->A.reset();
    return answer;
  }
};

TEST(Theorems, HoldForABlackBoxThatShowsOnlyItsOutput) {
  for (const Theorem& theorem : theorems()) {
    const Verdict verdict = theorem.check(BlackBox(), lecture_problem(0));
    EXPECT_EQ(verdict.outcome(), Outcome::holds) << describe(theorem, verdict);
  }
}

TEST(Theorems, AreNotHeldAgainstAHeadWhereTheirHypothesesFail) {
  HeadProblem saturated = lecture_problem(0), no_queries = saturated, far = saturated;
  for (float& value : saturated.x) value *= 10;
  for (float& value : far.x) value *= 100;
  std::fill(no_queries.weights.query.begin(), no_queries.weights.query.end(), 0.0F);
  Generator generator(1);
  const HeadProblem one_position = draw_problem(2, 1, 8, 4, generator);
  const HeadProblem no_batch = draw_problem(0, 5, 8, 4, generator);
  for (const HeadProblem& problem : {saturated, far, no_queries, one_position, no_batch}) {
    for (const Theorem& theorem : theorems()) {
      const Verdict verdict = theorem.check(*reference_subject(), problem);
      EXPECT_TRUE(verdict.outcome() == Outcome::holds ||
                  verdict.outcome() == Outcome::not_applicable)
          << describe(theorem, verdict);
    }
  }
}

TEST(Theorems, WeightsThatDoNotFitAreUnsupported) {
  HeadProblem problem = lecture_problem(0);
  problem.weights.value = Tensor<float, 2>({5, 32});
  for (const Theorem& theorem : theorems()) {
    EXPECT_EQ(theorem.check(*reference_subject(), problem).outcome(), Outcome::unsupported);
  }
}

/// The reference, but one output is not a number when there is no mask.
class NotANumber final : public Subject {
 public:
  std::string_view name() const override { return "not a number"; }
  Result<HeadAnswer> head(const HeadProblem& problem) const override {
    auto answer = reference_subject()->head(problem);
    if (!problem.causal) answer->out(0, 0, 0) = std::nanf("");
    return answer;
  }
};

TEST(Theorems, NotANumberIsSeen) {
  for (const char* id : {"prop-3.1", "cor-3.2", "ex-4", "thm-6.1", "cor-6.2", "ex-7"}) {
    EXPECT_EQ(find_theorem(id)->check(NotANumber(), lecture_problem(0)).outcome(),
              Outcome::violated)
        << id;
  }
}

TEST(Theorems, HoldForTheReferenceWhateverTheSeed) {
  const auto subject = reference_subject();
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    const HeadProblem problem = lecture_problem(seed);
    for (const Theorem& theorem : theorems()) {
      const Verdict verdict = theorem.check(*subject, problem);
      EXPECT_EQ(verdict.outcome(), Outcome::holds)
          << "seed " << seed << ": " << describe(theorem, verdict);
    }
  }
}

TEST(Theorems, HoldForTheReferenceAtAwkwardSizes) {
  const auto subject = reference_subject();
  for (Index seq_len : {2, 3, 7, 8, 9, 15, 17, 33}) {
    for (Index head_dim : {1, 2, 5, 16}) {
      Generator generator(1000);
      const HeadProblem problem = draw_problem(2, seq_len, 13, head_dim, generator);
      for (const Theorem& theorem : theorems()) {
        const Verdict verdict = theorem.check(*subject, problem);
        EXPECT_EQ(verdict.outcome(), Outcome::holds)
            << "T " << seq_len << " d_k " << head_dim << ": " << describe(theorem, verdict);
      }
    }
  }
}

}  // namespace
}  // namespace headproof
