// Heads: every mutant is caught, with a small counterexample, and the right head never is.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>
#include <utility>

#include "headproof/check.h"
#include "subjects/head_adapter.h"
#include "theorems/attention_theorem.h"

namespace headproof {
namespace {

Report check_head(const Subject& head, std::uint64_t seed) {
  CheckOptions options;
  options.seed = seed;
  options.seconds = 1000;  // as many cases, however slow the machine
  options.cases = 24;
  options.command = "headproof check mutant:it";
  return check(head, options);
}

/// "2x1x1": positions, model_dim and head_dim of a head's counterexample; positions and head_dim of
/// a black box's.
std::string size_of(const Counterexample& example) {
  const std::string head_dim = std::to_string(example.problem.head_dim());
  const std::string length = std::to_string(example.problem.seq_len_q());
  if (!example.head) return length + "x" + head_dim;
  return length + "x" + std::to_string(example.head->x.shape()[2]) + "x" + head_dim;
}

TEST(CheckHead, TheReferenceHoldsForManySeeds) {
  const auto head = reference_subject();
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const Report report = check_head(*head, seed);
    ASSERT_GE(report.theorems.size(), 11U);
    for (const TheoremReport& theorem : report.theorems) {
      EXPECT_TRUE(theorem.outcome == Outcome::holds || theorem.outcome == Outcome::not_applicable ||
                  theorem.outcome == Outcome::unsupported)  // such as a NaN in a single head's q
          << "seed " << seed << ": " << theorem.id << " " << name_of(theorem.outcome) << " "
          << theorem.why << " "
          << (theorem.counterexample
                  ? theorem.counterexample->regime + ": " + theorem.counterexample->note
                  : "");
    }
    for (const Theorem& theorem : theorems()) {
      const auto found = std::find_if(report.theorems.begin(), report.theorems.end(),
                                      [&](const auto& r) { return r.id == theorem.id; });
      ASSERT_NE(found, report.theorems.end()) << theorem.id;
      EXPECT_EQ(found->outcome, Outcome::holds) << theorem.id;
    }
  }
}

TEST(CheckHead, EveryMutantIsCaughtWithASmallCounterexample) {
  for (const MutantInfo& mutant : mutants()) {
    const Report report = check_head(*mutant_subject(mutant.name), 0);
    std::printf("%-24s", std::string(mutant.name).c_str());
    // Some theorems are broken beside the one that a fault is about, and need larger numbers or
    // lengths to show it.
    int small = 0;
    for (const TheoremReport& theorem : report.theorems) {
      if (theorem.outcome != Outcome::violated) continue;
      const Counterexample& example = theorem.counterexample.value();
      std::printf(" %s:%s", theorem.id.c_str(), size_of(example).c_str());
      if (example.problem.seq_len_q() <= 4 && example.problem.head_dim() <= 2) ++small;
      EXPECT_FALSE(example.note.empty()) << mutant.name << " " << theorem.id;
      EXPECT_EQ(example.replay.rfind("headproof check mutant:it --theorem " + theorem.id, 0), 0U);
    }
    std::printf("\n");
    EXPECT_GT(small, 0) << mutant.name << ": " << mutant.what;
  }
}

TEST(CheckHead, ACounterexampleHoldsXAndTheWeightsAndWhatTheyGive) {
  const Report report = check_head(*mutant_subject("half-residual"), 0);
  const auto found = std::find_if(report.theorems.begin(), report.theorems.end(),
                                  [](const auto& r) { return r.id == "cor-3.2"; });
  ASSERT_NE(found, report.theorems.end());
  const Counterexample& example = found->counterexample.value();
  ASSERT_TRUE(example.head.has_value());
  const auto v = project<float>(example.head->x, example.head->weights.value);
  EXPECT_TRUE(std::equal(v.begin(), v.end(), example.problem.v.begin()));
  EXPECT_TRUE(example.A_used.has_value());
  EXPECT_NE(std::get_if<AttentionAnswer>(&example.reply), nullptr);
}

/// A head that answers with NaN where a course's would: masked weights are zeros that are
/// multiplied.
class MultipliesZeros final : public Subject {
 public:
  std::string_view name() const override { return "multiplies zeros"; }
  Result<HeadAnswer> head(const HeadProblem& problem) const override {
    const HeadAnswer right = reference_subject()->head(problem).value();
    const auto v = project<float>(problem.x, problem.weights.value);
    HeadAnswer answer{Tensor<float, 3>(right.out.shape()), right.A};
    const auto [batch, rows, channels] = answer.out.shape();
    for (Index b = 0; b < batch; ++b) {
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < rows; ++j) {
          for (Index c = 0; c < channels; ++c) {
            answer.out(b, i, c) += (*right.A)(b, i, j) * v(b, j, c);
          }
        }
      }
    }
    return answer;
  }
};

TEST(CheckHead, AHeadThatMultipliesMaskedZerosByNaNIsFound) {
  const Report report = check_head(MultipliesZeros(), 0);
  for (const TheoremReport& theorem : report.theorems) {
    const bool expected = theorem.id == "num-poison";
    EXPECT_EQ(theorem.outcome == Outcome::violated, expected) << theorem.id;
    if (expected) {
      EXPECT_EQ(theorem.counterexample.value().problem.seq_len_q(), 2);
    }
  }
}

/// The reference, which takes its time once it is told to.
class Pausing final : public Subject {
 public:
  mutable bool pause = false;
  std::string_view name() const override { return "pausing"; }
  Result<HeadAnswer> head(const HeadProblem& problem) const override {
    if (std::exchange(pause, false)) std::this_thread::sleep_for(std::chrono::milliseconds(2200));
    return reference_subject()->head(problem);
  }
};

TEST(CheckHead, WhatRanOutOfTimeGoesOnInTheTimeThatOthersLeft) {
  const Pausing head;
  CheckOptions options;
  options.theorems = {"prop-3.1", "thm-6.1"};
  options.seconds = 4;
  options.cases = 8;
  std::vector<std::string> ended;
  options.identified = [&](const Report&) { head.pause = true; };
  options.ended = [&](const TheoremReport& theorem) { ended.push_back(theorem.id); };
  const Report report = check(head, options);
  EXPECT_EQ(ended, (std::vector<std::string>{"thm-6.1", "prop-3.1"}));
  ASSERT_EQ(report.theorems.size(), 2U);
  EXPECT_EQ(report.theorems[0].id, "prop-3.1");
  for (const TheoremReport& theorem : report.theorems) {
    EXPECT_EQ(theorem.cases, 16) << theorem.id << ", a head and as a black box";
    EXPECT_FALSE(theorem.out_of_time) << theorem.id;
  }
}

class Silent final : public Subject {
 public:
  std::string_view name() const override { return "silent"; }
  Result<HeadAnswer> head(const HeadProblem&) const override { return Error{"no answer today"}; }
};

TEST(CheckHead, AHeadWithoutAnAnswerIsAVerdict) {
  const Report report = check_head(Silent(), 0);
  ASSERT_EQ(report.theorems.size(), 1U);
  EXPECT_EQ(report.theorems[0].outcome, Outcome::crashed);
  EXPECT_EQ(report.theorems[0].why, "it answers no plain question: no answer today");
}

TEST(HeadAdapter, GivesTheBitsOfAttentionAndRefusesTheRest) {
  const auto head = reference_subject();
  const auto black_box = head_as_attention(*head);
  const auto definition = builtin_attention("reference");
  Domain domain = black_box->domain();
  Draw draw(domain, 1, 20, "gaussian");
  for (bool causal : {true, false}) {
    AttentionProblem problem = draw.problem(causal);
    problem.want_weights = true;
    const auto one = std::get<AttentionAnswer>(black_box->attend(problem));
    const auto other = std::get<AttentionAnswer>(definition->attend(problem));
    EXPECT_TRUE(std::equal(one.out.begin(), one.out.end(), other.out.begin(), same_bits));
    EXPECT_TRUE(
        std::equal(one.weights->begin(), one.weights->end(), other.weights->begin(), same_bits));
    problem.scale = 1;
    EXPECT_EQ(std::get<Refusal>(black_box->attend(problem)).kind, Refusal::Kind::unsupported);
    problem.scale.reset();
    problem.v(0, 0, 0, 0) = INFINITY;
    EXPECT_EQ(std::get<Refusal>(black_box->attend(problem)).kind, Refusal::Kind::unsupported);
  }
}

}  // namespace
}  // namespace headproof
