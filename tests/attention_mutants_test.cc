// The checker can fail: every wrong attention is caught, and no right one is.

#include "subjects/attention_mutants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "headproof/check.h"
#include "subjects/rounded.h"
#include "theorems/attention_theorem.h"

namespace headproof {
namespace {

using Ids = std::vector<std::string_view>;

/// What a case asks depends on the seed, the theorem and the case's number alone, so that a theorem
/// comes out the same whatever else is checked; and no result hangs on the time that it takes.
CheckOptions options_for(std::uint64_t seed, const Ids& theorems = {}) {
  CheckOptions options;
  options.seed = seed;
  options.seconds = 1000;
  options.theorems.assign(theorems.begin(), theorems.end());
  return options;
}

bool found_fault(const TheoremReport& theorem) {
  return theorem.outcome == Outcome::violated || theorem.outcome == Outcome::crashed ||
         theorem.outcome == Outcome::gave_up;
}

bool contains(const Ids& ids, std::string_view id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

/// The larger length and the larger number of channels of a counterexample.
struct Size {
  Index seq_len = 0, head_dim = 0;
  auto operator<=>(const Size&) const = default;
  bool within(const AttentionMutantInfo::Smallest& most) const {
    return seq_len <= most.seq_len && head_dim <= most.head_dim;
  }
};
Size size_of(const TheoremReport& theorem) {
  const AttentionProblem& problem = theorem.counterexample->problem;
  return {std::max(problem.seq_len_q(), problem.seq_len_k()),
          std::max(problem.head_dim(), problem.value_dim())};
}

/// "prop-5.1 2x1, num-accuracy 2x1": by which theorems it is caught, with the sizes of the
/// counterexamples.
std::string caught_by(const Report& report) {
  std::string text;
  for (const TheoremReport& theorem : report.theorems) {
    if (!found_fault(theorem)) continue;
    text += (text.empty() ? "" : ", ") + theorem.id;
    if (!theorem.counterexample) continue;
    const Size size = size_of(theorem);
    text += " " + std::to_string(size.seq_len) + "x" + std::to_string(size.head_dim);
  }
  return text;
}

const AttentionTheorem& find_attention_theorem(std::string_view id) {
  const auto& all = attention_theorems();
  return *std::find_if(all.begin(), all.end(),
                       [&](const AttentionTheorem& theorem) { return theorem.id == id; });
}

void print_row(std::string_view name, const std::string& text) {
  std::printf("%-34s %s\n", std::string(name).c_str(), text.c_str());
  std::fflush(stdout);
}

TEST(AttentionMutants, EveryOneIsCaughtInASmallCounterexampleAndEveryTheoremCatchesOne) {
  std::set<std::string> broken;
  const auto right = plain_attention("plain");
  const Report of_right = check(*right, options_for(0, {"num-accuracy"}));
  Asker asks_right(*right, of_right.domain, of_right.conventions);
  for (const AttentionMutantInfo& mutant : attention_mutants()) {
    const auto subject = attention_mutant(mutant.name);
    const Report report = check(*subject, options_for(0, mutant.caught_by));
    print_row(mutant.name, caught_by(report));
    for (const TheoremReport& theorem : report.theorems) {
      if (!found_fault(theorem)) continue;
      broken.insert(theorem.id);
      // It is the fault that the counterexample shows.
      const Verdict verdict =
          find_attention_theorem(theorem.id).judge(asks_right, theorem.counterexample->problem);
      EXPECT_NE(verdict.outcome(), Outcome::violated) << mutant.name << ": " << theorem.id;
    }
    const bool small = std::any_of(
        report.theorems.begin(), report.theorems.end(), [&](const TheoremReport& theorem) {
          return theorem.outcome == Outcome::violated && size_of(theorem).within(mutant.smallest);
        });
    EXPECT_TRUE(small) << mutant.name << ": " << mutant.what;
  }
  for (const AttentionTheorem& theorem : attention_theorems()) {
    EXPECT_TRUE(broken.contains(std::string(theorem.id))) << theorem.id;
  }
}

TEST(AttentionMutants, AreNamedOnceAndNameTheoremsThatExist) {
  Ids names, ids;
  for (const AttentionTheorem& theorem : attention_theorems()) ids.push_back(theorem.id);
  for (const AttentionMutantInfo& mutant : attention_mutants()) {
    EXPECT_FALSE(contains(names, mutant.name)) << mutant.name;
    names.push_back(mutant.name);
    EXPECT_FALSE(mutant.what.empty()) << mutant.name;
    EXPECT_FALSE(mutant.caught_by.empty()) << mutant.name;
    for (std::string_view id : mutant.caught_by) EXPECT_TRUE(contains(ids, id)) << id;
    const bool small = Size{mutant.smallest.seq_len, mutant.smallest.head_dim}.within({});
    EXPECT_EQ(small, mutant.smallest.why.empty()) << mutant.name;
  }
  EXPECT_EQ(attention_mutant("no such mutant"), nullptr);
  EXPECT_GE(names.size(), 100U);
}

TEST(AttentionMutants, WhatIsRightUpToRoundingBreaksBitwiseTheoremsOnly) {
  for (const AttentionMutantInfo& mutant : attention_mutants()) {
    if (!mutant.bitwise_only) continue;
    const Report report = check(*attention_mutant(mutant.name), options_for(0));
    for (const TheoremReport& theorem : report.theorems) {
      EXPECT_TRUE(!found_fault(theorem) || theorem.claim == Claim::bitwise)
          << mutant.name << ": " << caught_by(report);
    }
  }
}

/// A kernel made of tiles: other sizes are an error.
std::unique_ptr<AttentionSubject> tiles_only(std::shared_ptr<AttentionSubject> inside) {
  return function_attention(
      inside->name() + " in tiles", inside->domain(),
      [inside](const AttentionProblem& problem) -> AttentionReply {
        const auto is_dim = [](Index dim) {
          return dim == 16 || dim == 32 || dim == 64 || dim == 128;
        };
        if (!is_dim(problem.head_dim()) || !is_dim(problem.value_dim())) {
          return Refusal{Refusal::Kind::failed, "head_dim is 16, 32, 64 or 128"};
        }
        if (problem.seq_len_q() % 16 != 0 || problem.seq_len_k() % 16 != 0) {
          return Refusal{Refusal::Kind::failed, "lengths are multiples of 16"};
        }
        return inside->attend(problem);
      });
}

/// Products and sums in float32; weights, outputs and gradients rounded to a shorter dtype.
std::unique_ptr<AttentionSubject> rounding(Dtype dtype, Steps steps = {}) {
  const auto round = [dtype](Tensor<float, 1>& values) {
    for (float& value : values) value = rounded(value, dtype);
  };
  steps.softmax = [round](Row& row) {
    plain::softmax(row);
    round(row.weights);
  };
  steps.combine = [round, combine = steps.combine](Row& row) {
    combine(row);
    round(row.out);
  };
  steps.finish = [dtype](const AttentionProblem&, AttentionAnswer& answer) {
    if (!answer.gradients) return;
    for (auto* gradient :
         {&answer.gradients->d_q, &answer.gradients->d_k, &answer.gradients->d_v}) {
      for (double& value : *gradient) value = rounded(static_cast<float>(value), dtype);
    }
  };
  Domain domain = plain_attention_domain();
  domain.dtype = dtype;
  return plain_attention(std::string(name_of(dtype)), std::move(steps), domain);
}

struct Right {
  const char* name;
  std::function<std::unique_ptr<AttentionSubject>()> make;
};

const std::vector<Right>& right_subjects() {
  static const std::vector<Right> all = {
      {"plain", [] { return plain_attention("plain"); }},
      {"online softmax in blocks of 16",
       [] {
         return plain_attention("online",
                                {.softmax = [](Row& row) { plain::online_softmax(row, 16); }});
       }},
      {"in tiles of 16 only", [] { return tiles_only(plain_attention("plain")); }},
      {"bfloat16", [] { return rounding(Dtype::bfloat16); }},
      {"float16", [] { return rounding(Dtype::float16); }},
  };
  return all;
}

/// What a right subject comes out as.
::testing::AssertionResult is_clean(const Report& report) {
  if (report.theorems.size() == attention_theorems().size() && caught_by(report).empty()) {
    return ::testing::AssertionSuccess();
  }
  auto failure = ::testing::AssertionFailure();
  for (const TheoremReport& theorem : report.theorems) {
    if (!found_fault(theorem)) continue;
    failure << "\n  " << theorem.id << ": " << theorem.why;
    if (theorem.counterexample) failure << " " << theorem.counterexample->note;
  }
  return failure;
}

TEST(RightAttention, ComesOutClean) {
  for (const Right& right : right_subjects()) {
    const Report report = check(*right.make(), options_for(0));
    EXPECT_TRUE(is_clean(report)) << right.name;
  }
}

TEST(WrongAttention, IsCaughtWhereOnlyTilesAreAccepted) {
  for (const char* name : {"mask-one-too-many", "maximum-from-0", "last-key-dropped"}) {
    const Report report = check(*tiles_only(attention_mutant(name)), options_for(0));
    EXPECT_EQ(report.domain.head_dims, (std::vector<Index>{16, 32, 64, 128})) << name;
    EXPECT_EQ(report.domain.length_multiple, 16) << name;
    for (const TheoremReport& theorem : report.theorems) {
      if (theorem.id != "num-accuracy") continue;
      ASSERT_EQ(theorem.outcome, Outcome::violated) << name;
      EXPECT_EQ(size_of(theorem).seq_len, 16) << name;
      EXPECT_EQ(size_of(theorem).head_dim, 16) << name;
    }
  }
}

/// The sum over the keys kept in the short dtype too.
Steps short_accumulator(Dtype dtype) {
  return {.combine = [dtype](Row& row) {
    for (Index j = 0; j < row.seq_len_k(); ++j) {
      for (Index c = 0; c < row.problem.value_dim() && row.allowed(j); ++c) {
        row.out(c) = rounded(row.out(c) + row.weights(j) * row.v(j, c), dtype);
      }
    }
  }};
}

/// Scores rounded to the short dtype before the softmax.
Steps short_scores(Dtype dtype) {
  return {.score = [dtype](Row& row) {
    plain::score(row);
    for (float& score : row.scores) score = rounded(score, dtype);
  }};
}

TEST(WrongAttention, IsCaughtInShorterDtypes) {
  for (Dtype dtype : {Dtype::bfloat16, Dtype::float16}) {
    for (const Steps& steps : {short_accumulator(dtype), short_scores(dtype)}) {
      const Report report = check(*rounding(dtype, steps), options_for(0, {"num-accuracy"}));
      print_row(name_of(dtype), caught_by(report));
      EXPECT_NE(caught_by(report), "") << name_of(dtype);
    }
  }
}

/// Runs job(0), job(1), ... on as many threads as there are cores.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& job) {
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned n = 0; n < std::max(1U, std::thread::hardware_concurrency()); ++n) {
    threads.emplace_back([&] {
      for (std::size_t at; (at = next++) < count;) job(at);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

constexpr std::size_t seeds = 20;

/// Over all seeds: how often each theorem caught a mutant, and the smallest counterexample.
struct Catches {
  std::map<std::string, std::size_t> times;
  std::optional<Size> smallest;

  void add(const Report& report) {
    for (const TheoremReport& theorem : report.theorems) {
      if (!found_fault(theorem)) continue;
      ++times[theorem.id];
      if (!theorem.counterexample) continue;
      const Size size = size_of(theorem);
      smallest = std::min(smallest.value_or(size), size);
    }
  }

  /// "| mask-one-too-many | num-accuracy, prop-5.1 (19 of 20) | 2 x 1 |"
  void print_row(std::string_view mutant) const {
    std::string theorems;
    for (const auto& [id, count] : times) {
      theorems += (theorems.empty() ? "" : ", ") + id;
      if (count < seeds) theorems += " (" + std::to_string(count) + " of 20)";
    }
    const Size size = smallest.value_or(Size{});
    std::printf("| %s | %s | %td x %td |\n", std::string(mutant).c_str(), theorems.c_str(),
                size.seq_len, size.head_dim);
  }
};

TEST(MutantsSweep, OverTwentySeedsEveryMutantIsCaughtAndEveryRightOnePasses) {
  if (std::getenv("HEADPROOF_MUTANTS") == nullptr) {
    GTEST_SKIP() << "takes minutes; ./run mutants runs it, as does any run with HEADPROOF_MUTANTS "
                    "set";
  }
  const auto& mutants = attention_mutants();
  const auto& right_ones = right_subjects();
  std::vector<Catches> catches(mutants.size());
  std::size_t caught = 0, passed = 0;
  for (std::size_t seed = 0; seed < seeds; ++seed) {
    std::vector<std::string> failures(right_ones.size() + mutants.size());
    // Right ones first: they take longest.
    in_parallel(failures.size(), [&](std::size_t at) {
      if (at < right_ones.size()) {
        const auto clean = is_clean(check(*right_ones[at].make(), options_for(seed)));
        if (!clean) failures[at] = std::string(right_ones[at].name) + clean.message();
        return;
      }
      const AttentionMutantInfo& mutant = mutants[at - right_ones.size()];
      const Report report =
          check(*attention_mutant(mutant.name), options_for(seed, mutant.caught_by));
      catches[at - right_ones.size()].add(report);
      if (caught_by(report).empty()) failures[at] = std::string(mutant.name) + " is not caught";
    });
    const auto middle = failures.begin() + static_cast<std::ptrdiff_t>(right_ones.size());
    const auto good = [](auto begin, auto end) {
      return static_cast<std::size_t>(std::count(begin, end, ""));
    };
    passed += good(failures.begin(), middle);
    caught += good(middle, failures.end());
    std::printf("seed %zu: mutants caught so far: %zu of %zu; right ones passed: %zu of %zu\n",
                seed, caught, (seed + 1) * mutants.size(), passed, (seed + 1) * right_ones.size());
    std::fflush(stdout);
    for (const std::string& failure : failures) EXPECT_EQ(failure, "") << "seed " << seed;
  }
  std::printf(
      "\n| mutant | caught by | smallest counterexample: positions x channels |\n"
      "|---|---|---|\n");
  for (std::size_t at = 0; at < mutants.size(); ++at) catches[at].print_row(mutants[at].name);
  std::printf(
      "\nmutants caught by a theorem that they name: %zu of %zu\n"
      "right implementations passed: %zu of %zu\n",
      caught, seeds * mutants.size(), passed, seeds * right_ones.size());
}

}  // namespace
}  // namespace headproof
