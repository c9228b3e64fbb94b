// Reports of small faulty functions and of reports made by hand.

#include "checker/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "checker/cases.h"
#include "checker/expectations.h"
#include "checker/testing.h"

namespace headproof {
namespace {

AttentionReply right(const AttentionProblem& problem) {
  return builtin_attention("reference")->attend(problem);
}

/// A quarter of the last key's value reaches the first query.
AttentionReply leaky(const AttentionProblem& problem) {
  AttentionReply reply = right(problem);
  if (problem.causal == Causal::none || problem.seq_len_q() == 1) return reply;
  auto& out = std::get<AttentionAnswer>(reply).out;
  for (Index c = 0; c < problem.value_dim(); ++c) {
    out(0, 0, 0, c) += 0.25 * problem.v(0, 0, problem.seq_len_k() - 1, c);
  }
  return reply;
}

CheckOptions few() {
  CheckOptions options;
  options.command = "headproof check ./libmine.so";
  options.theorems = {"prop-5.1", "num-accuracy"};
  options.cases = 12;
  return options;
}

TheoremReport made(std::string id, Claim claim, Outcome outcome) {
  TheoremReport theorem;
  theorem.id = std::move(id);
  theorem.title = "A title with $A_{ij}$";
  theorem.statement = "A statement.";
  theorem.claim = claim;
  theorem.outcome = outcome;
  theorem.cases = 3;
  if (outcome != Outcome::holds) theorem.why = "why <it> & \"so\"";
  return theorem;
}

/// One theorem of each kind; `options` say what is known.
Report one_of_each(const CheckOptions& options = {}) {
  Report report;
  report.subject = "mine <&> \"yours\" \x01\xff";
  report.theorems = {made("num-a", Claim::exact, Outcome::holds),
                     made("num-b", Claim::bounded, Outcome::violated),
                     made("num-c", Claim::bitwise, Outcome::violated),
                     made("num-d", Claim::exact, Outcome::not_applicable),
                     made("num-e", Claim::exact, Outcome::unsupported)};
  compare_with_expectations(report, options);
  return report;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Report, ExitCodesPutFailureBeforeViolation) {
  EXPECT_EQ(Report().exit_code(), 0);
  Report report = one_of_each();
  EXPECT_EQ(report.exit_code(), 1);
  report.theorems.push_back(made("num-f", Claim::exact, Outcome::gave_up));
  EXPECT_EQ(report.exit_code(), 3);
  report.theorems.back().outcome = Outcome::crashed;
  EXPECT_EQ(report.exit_code(), 3);
}

TEST(Report, DifferentBitsCountOnlyWhenTheyAreRequired) {
  Report report;
  report.theorems = {made("num-c", Claim::bitwise, Outcome::violated)};
  compare_with_expectations(report, {});
  EXPECT_EQ(report.exit_code(), 0);
  EXPECT_TRUE(contains(report.text(), "~ num-c  differs"));
  EXPECT_TRUE(contains(report_html(report), ">~ differs</span>"));
  EXPECT_TRUE(contains(report_markdown(report), "| ~ differs |"));
  EXPECT_TRUE(contains(report.text(), "1 theorem: 1 differs"));
  CheckOptions strict;
  strict.require_bitwise = true;
  compare_with_expectations(report, strict);
  EXPECT_EQ(report.exit_code(), 1);
  EXPECT_TRUE(contains(report.text(), "✗ num-c  differs"));
}

TEST(Report, KnownViolationsDoNotCountAndThoseThatAreGoneAreNamed) {
  CheckOptions options;
  options.expected = {{"num-b", "see issue 12"}, {"num-a", "was so"}};
  Report report = one_of_each(options);
  EXPECT_EQ(report.exit_code(), 0);
  EXPECT_TRUE(contains(report.text(), "num-a is listed as violated and holds"));
  EXPECT_TRUE(contains(report.text(), "expected: see issue 12"));
  options.strict = true;
  report = one_of_each(options);
  EXPECT_EQ(report.exit_code(), 1);
  EXPECT_TRUE(contains(report_junit(report), "name=\"listed-num-a\""));
  // What has not been judged is not gone.
  options.expected = {{"num-b", ""}, {"num-d", ""}};
  EXPECT_EQ(one_of_each(options).exit_code(), 0);
}

TEST(Report, AnExpectedConventionThatIsAnotherIsAViolation) {
  Report report;
  report.conventions.corner = "top_left";
  report.conventions.scale = "0.3 at head_dim 4";
  CheckOptions options;
  options.expect = {{"corner", "bottom_right"}, {"scale", "0.3"}, {"kv_map", "grouped"}};
  compare_with_expectations(report, options);
  ASSERT_EQ(report.theorems.size(), 3U);
  EXPECT_EQ(report.theorems[0].id, "expect-corner");
  EXPECT_EQ(report.theorems[0].why, "corner is top_left, and bottom_right was expected");
  EXPECT_EQ(report.theorems[0].outcome, Outcome::violated);
  EXPECT_EQ(report.theorems[1].outcome, Outcome::holds);
  EXPECT_EQ(report.theorems[2].outcome, Outcome::not_applicable);
  EXPECT_EQ(report.exit_code(), 1);
}

TEST(Report, OfARightFunctionSaysThatAllHolds) {
  const Report report = check(right, few());
  EXPECT_EQ(report.exit_code(), 0) << report.text();
  EXPECT_TRUE(contains(report.text(), "2 theorems: 2 hold; seed 0")) << report.text();
}

TEST(Report, ShowsTheSmallestCounterexampleWithTheWrongEntryMarked) {
  const Report report = check(leaky, few());
  EXPECT_EQ(report.exit_code(), 1);
  const std::string text = report.text();
  EXPECT_TRUE(contains(text, "✗ prop-5.1      violated")) << text;
  EXPECT_TRUE(contains(text, "1 head, 2 queries, 2 keys, head_dim 1; causal")) << text;
  EXPECT_TRUE(contains(text, "A as it is")) << text;
  EXPECT_TRUE(contains(text, "0 │   1  [0.25]")) << text;
  EXPECT_TRUE(contains(text, "0 │   1   [0]")) << text;
  EXPECT_TRUE(contains(text, "replay: headproof check ./libmine.so --theorem prop-5.1 --seed 0 "))
      << text;
  EXPECT_FALSE(contains(text, "\x1b")) << "colours";
  EXPECT_TRUE(contains(report_text(report, true), "\x1b[31;1m[0.25]"));
  EXPECT_FALSE(contains(text, " \n")) << "spaces at the end of a line";
}

TEST(Report, ShortensLongMatrices) {
  CheckOptions options = few();
  options.regimes = {"long"};
  const Report report = check(
      [](const AttentionProblem& problem) {
        AttentionReply reply = right(problem);
        if (problem.seq_len_q() > 90 && problem.causal != Causal::none) {
          std::get<AttentionAnswer>(reply).out(0, 0, 3, 0) += problem.v(0, 0, 50, 0);
        }
        return reply;
      },
      options);
  const std::string text = report.text();
  EXPECT_EQ(report.exit_code(), 1);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 90) << text;
  EXPECT_TRUE(contains(text, "   3 │")) << text;
  EXPECT_TRUE(contains(text, "…")) << text;
  EXPECT_TRUE(contains(text, "[1]")) << text;
}

TEST(Report, WhatAFunctionThrowsIsNoAnswer) {
  const Report report = check(
      [](const AttentionProblem&) -> AttentionReply { throw std::runtime_error("no such tile"); });
  EXPECT_EQ(report.exit_code(), 3);
  EXPECT_TRUE(contains(report.text(), "it threw: no such tile")) << report.text();
}

Domain domain_with(std::initializer_list<Feature> features) {
  Domain domain = plain_domain();
  for (Feature feature : features) domain.features.set(feature, true);
  return domain;
}

TEST(Report, ShowsTheHeadAndTheResultThatTheSentenceNames) {
  CheckOptions options = few();
  options.theorems = {"num-lse"};
  const auto wrong_in_head_1 = [](const AttentionProblem& problem) {
    AttentionReply reply = right(problem);
    auto& lse = std::get<AttentionAnswer>(reply).lse;
    if (lse && problem.num_heads() > 1) (*lse)(0, 1, 0) += 1;
    return reply;
  };
  const Report report = check(wrong_in_head_1, options, domain_with({Feature::lse}));
  const std::string text = report.text();
  EXPECT_TRUE(contains(text, "shown: batch 0, head 1")) << text;
  EXPECT_TRUE(contains(text, "lse as it is        lse as it should be\n")) << text;
  EXPECT_TRUE(contains(text, "0 │ [1]             0 │ [0]\n")) << text;
  EXPECT_FALSE(contains(text, "out as it is")) << text;
  EXPECT_TRUE(contains(text, "lse of batch 0, head 1,")) << text;
  EXPECT_TRUE(contains(report_html(report), "<figcaption>lse, the difference</figcaption>"));
  EXPECT_TRUE(contains(report_markdown(report), "lse of batch 0, head 1, query 0: "));
  const auto document = nlohmann::json::parse(report_json(report));
  const auto& example = document["theorems"][0]["counterexample"];
  EXPECT_EQ(example["place"],
            nlohmann::json(
                {{"result", "lse"}, {"batch", 0}, {"head", 1}, {"row", 0}, {"column", nullptr}}));
  EXPECT_EQ(example["lse"]["values"].size(), 2U);
  EXPECT_NEAR(example["reply"]["lse"]["values"][1].get<double>(),
              example["lse"]["values"][1].get<double>() + 1, 1e-6);
}

TEST(Report, ShowsTheGradientThatIsWrongAndAHeadThatReadsIt) {
  CheckOptions options = few();
  options.theorems = {"num-gradient"};
  options.cases = 64;
  const auto wrong_in_key_head_1 = [](const AttentionProblem& problem) {
    AttentionReply reply = right(problem);
    auto& gradients = std::get<AttentionAnswer>(reply).gradients;
    if (gradients && problem.num_kv_heads() == 2 && problem.num_heads() == 4) {
      gradients->d_k(0, 1, 0, 0) += 8;
    }
    return reply;
  };
  const Report report =
      check(wrong_in_key_head_1, options, domain_with({Feature::backward, Feature::grouped_heads}));
  const std::string text = report.text();
  EXPECT_TRUE(contains(text, "shown: batch 0, head 2")) << text;
  EXPECT_TRUE(contains(text, "d_k as it is        d_k as it should be")) << text;
  EXPECT_TRUE(contains(text, "0 │ [8]             0 │ [0]")) << text;
  EXPECT_FALSE(contains(text, "out as it is")) << text;
  EXPECT_TRUE(contains(text, "d_k of batch 0, head 1, key 0,")) << text;
  EXPECT_TRUE(contains(report_html(report), "<figcaption>d_k, the difference</figcaption>"));
}

TEST(Report, APlaceIsOneOfTheProblem) {
  // Batch elements, heads and rows of questions that are asked of a part alone.
  const auto place_found = [](const char* id, auto&& is_part, std::array<Index, 4> added) {
    CheckOptions options = few();
    options.theorems = {id};
    options.regimes = {"gaussian"};
    const Report report = check(
        [&](const AttentionProblem& problem) {
          AttentionReply reply = right(problem);
          auto& out = std::get<AttentionAnswer>(reply).out;
          const auto [b, h, i, c] = added;
          if (is_part(problem)) out(b, h, i, c) += 1;
          return reply;
        },
        options, domain_with({Feature::rectangular}));
    return report.theorems[0].counterexample.value().place.value();
  };
  const auto element_alone = [](const AttentionProblem& p) {
    return p.batch() == 1 && p.num_heads() > 1;
  };
  EXPECT_EQ(place_found("num-batch-invariance", element_alone, {0, 1, 0, 0}).head, 1);
  const Place decoded = place_found(
      "num-decode", [](const AttentionProblem& p) { return p.seq_len_q() < p.seq_len_k(); },
      {0, 0, 0, 0});
  EXPECT_EQ(decoded.row, 1);
  EXPECT_EQ(decoded.column, 0);
}

TEST(Report, AppearsAsItBecomesKnown) {
  CheckOptions options = few();
  options.theorems = {"prop-5.1", "num-accuracy"};
  options.expected = {{"num-accuracy", "known"}};
  options.expect = {{"lse_base", "2"}};
  std::vector<std::string> told;
  options.identified = [&](const Report& so_far) {
    EXPECT_TRUE(so_far.theorems.empty());
    EXPECT_EQ(so_far.conventions.scale, "1/sqrt(head_dim)");
    told.push_back(subject_text(so_far, false) + "\n");
  };
  options.progress = [&](std::string_view id, double) { told.emplace_back(id); };
  options.ended = [&](const TheoremReport& theorem) {
    told.push_back(theorem_line(theorem, 15, false));
  };
  const Report report = check(leaky, options);
  ASSERT_EQ(told.size(), 6U);
  EXPECT_EQ(told[1], "prop-5.1");
  EXPECT_TRUE(contains(told[2], "✗ prop-5.1         violated"));
  EXPECT_EQ(told[3], "num-accuracy");
  EXPECT_TRUE(contains(told[4], "(known)"));
  EXPECT_TRUE(contains(told[5], "expect-lse_base"));
  EXPECT_EQ(told[0] + told[2] + told[4] + told[5] + faults_text(report, false) + end_text(report),
            report.text());
}

TEST(Report, ADeclarationThatIsNotKeptIsTold) {
  Domain domain = plain_domain();
  domain.features.set(Feature::lse, true);
  domain.features.set(Feature::weights, true);
  domain.features.set(Feature::strides, true);
  const auto breaks = [](const AttentionProblem& problem) -> AttentionReply {
    if (problem.want_lse) return Refusal{Refusal::Kind::crashed, "signal 11"};
    if (problem.want_weights) return Refusal{Refusal::Kind::failed, "no weights today"};
    if (problem.strided) return Refusal{Refusal::Kind::unsupported, "dense inputs only"};
    return right(problem);
  };
  const Report report = check(breaks, few(), domain);
  EXPECT_EQ(report.exit_code(), 3);
  ASSERT_EQ(report.theorems.size(), 3U);
  EXPECT_EQ(report.theorems[0].id, "answers");
  EXPECT_EQ(report.theorems[0].outcome, Outcome::crashed);
  EXPECT_EQ(report.theorems[0].why, "asked for lse: signal 11");
  EXPECT_EQ(report.theorems[1].outcome, Outcome::holds);
  const std::string text = report.text();
  EXPECT_TRUE(contains(text, "fails at        lse: signal 11")) << text;
  EXPECT_TRUE(contains(text, "weights: no weights today")) << text;
  EXPECT_FALSE(contains(text, "dense inputs only")) << text;
}

TEST(Report, DomainsOfFewSizesAreAskedInside) {
  Domain domain = plain_domain();
  domain.head_dims = {40};
  domain.length_multiple = 3;
  domain.max_length = 10;
  const auto strict = [](const AttentionProblem& problem) -> AttentionReply {
    const Index length = problem.seq_len_q();
    if (problem.head_dim() != 40 || length % 3 != 0 || length > 10) {
      return Refusal{Refusal::Kind::failed, "outside"};
    }
    return right(problem);
  };
  const Report report = check(strict, few(), domain);
  EXPECT_EQ(report.exit_code(), 0) << report.text();
  EXPECT_TRUE(report.declined.empty()) << report.text();
  EXPECT_TRUE(contains(report.text(), "in multiples of 3 up to 10")) << report.text();

  domain.max_length = 2;
  const Report none = check(right, few(), domain);
  EXPECT_EQ(none.exit_code(), 3);
  EXPECT_TRUE(contains(none.text(), "max_length 2 is below its length_multiple 3")) << none.text();
}

TEST(Report, AnswersThatVaryAreToldAsTheyWere) {
  int calls = 0;
  const auto now_and_then = [&calls](const AttentionProblem& problem) {
    AttentionReply reply = right(problem);
    if (++calls % 64 == 0) *std::get<AttentionAnswer>(reply).out.begin() += 1;
    return reply;
  };
  CheckOptions options = few();
  options.theorems = {"num-accuracy"};
  options.cases = 64;
  const Report report = check(now_and_then, options);
  ASSERT_EQ(report.theorems.size(), 1U);
  EXPECT_EQ(report.theorems[0].outcome, Outcome::violated) << calls;
  EXPECT_TRUE(contains(report.theorems[0].counterexample->note, "the answers vary"));
}

TEST(Report, TimeThatRunsOutIsTold) {
  CheckOptions options = few();
  options.seconds = 1e-9;
  const Report report = check(right, options);
  EXPECT_TRUE(contains(report.text(), "2 hold; time ran out on 2")) << report.text();
  options.seconds = 60;
  EXPECT_FALSE(contains(check(right, options).text(), "time ran out"));
}

TEST(Report, CasesGoOnWhereTimeRanOutAndEndWithAFault) {
  CheckOptions options;
  options.cases = 5;
  TheoremReport theorem;
  std::vector<int> asked;
  const auto ask_until = [&](Clock::time_point deadline) {
    run_cases(
        options, {"gaussian"}, deadline, theorem, [](int n, std::string_view) { return n; },
        [&](int n) {
          asked.push_back(n);
          Judged judged;
          judged.outcome = n == 3 ? Outcome::violated : Outcome::holds;
          return judged;
        },
        [&](int, const Judged& judged, int, std::string_view) {
          theorem.outcome = judged.outcome;
        });
  };
  ask_until(Clock::time_point::min());
  ask_until(Clock::time_point::min());
  EXPECT_EQ(asked, (std::vector<int>{0, 1}));
  EXPECT_TRUE(theorem.out_of_time);
  ask_until(Clock::time_point::max());
  ask_until(Clock::time_point::max());
  EXPECT_EQ(asked, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_FALSE(theorem.out_of_time);
  EXPECT_EQ(theorem.outcome, Outcome::violated);
}

TEST(Report, AsJsonHoldsEverything) {
  const auto document = nlohmann::json::parse(report_json(check(leaky, few())));
  EXPECT_EQ(document["schema_version"], 1);
  EXPECT_EQ(document["command"], "check");
  EXPECT_EQ(document["exit_code"], 1);
  EXPECT_EQ(document["domain"]["dtype"], "float32");
  EXPECT_EQ(document["domain"]["features"]["causal"], true);
  EXPECT_EQ(document["domain"]["features"]["window"], false);
  for (const char* key : {"corner", "empty_row", "scale", "mask_true", "softcap_order", "kv_map",
                          "window_counts_self", "nan_policy", "lse_base"}) {
    EXPECT_TRUE(document["conventions"].contains(key)) << key;
  }
  EXPECT_EQ(document["conventions"]["scale"], "1/sqrt(head_dim)");
  EXPECT_TRUE(document["conventions"]["corner"].is_null());
  for (const char* key : {"determinism", "threads", "batch", "prefix", "decode"}) {
    EXPECT_TRUE(document["conventions"]["bitwise"].contains(key)) << key;
  }
  ASSERT_EQ(document["theorems"].size(), 2U);
  const auto& first = document["theorems"][0];
  EXPECT_EQ(first["id"], "prop-5.1");
  EXPECT_EQ(first["outcome"], "violated");
  EXPECT_EQ(first["fails"], true);
  const auto& example = first["counterexample"];
  EXPECT_EQ(example["problem"]["q"]["shape"], (std::vector<Index>{1, 1, 2, 1}));
  EXPECT_EQ(example["A"]["values"], (std::vector<double>{1, 0, 0.5, 0.5}));
  EXPECT_EQ(example["A_used"]["values"], (std::vector<double>{1, 0.25, 0.5, 0.5}));
  EXPECT_EQ(example["problem"]["causal"], "top_left");
}

TEST(Report, AsJsonHasWordsForNumbersThatAreNone) {
  Report report = one_of_each();
  Counterexample example;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  example.problem.q = example.problem.k = example.problem.v = Tensor<float, 4>({1, 1, 3, 1});
  std::copy_n(std::array{std::nanf(""), infinity, -infinity}.data(), 3, example.problem.v.data());
  example.reply = Refusal{Refusal::Kind::crashed, "gone \xff"};
  report.theorems[1].counterexample = example;
  const auto document = nlohmann::json::parse(report_json(report));
  const auto& shown = document["theorems"][1]["counterexample"];
  EXPECT_EQ(shown["problem"]["v"]["values"], nlohmann::json({"NaN", "Infinity", "-Infinity"}));
  EXPECT_EQ(shown["reply"]["refused"], "gone \xEF\xBF\xBD");
}

TEST(Report, AsJunitHasACaseForEachTheorem) {
  CheckOptions options;
  options.expected = {{"num-f", "slow"}};
  Report report = one_of_each();
  report.theorems.push_back(made("num-f", Claim::exact, Outcome::crashed));
  report.theorems.push_back(made("num-g", Claim::exact, Outcome::violated));
  report.theorems.back().expected = true;
  const std::string xml = report_junit(report);
  EXPECT_EQ(xml_fault(xml), "") << xml;
  EXPECT_TRUE(contains(xml, "tests=\"7\" failures=\"1\" errors=\"1\" skipped=\"3\"")) << xml;
  EXPECT_TRUE(contains(xml, "<testcase classname=\"headproof\" name=\"num-a\"/>")) << xml;
  EXPECT_TRUE(contains(xml, "message=\"why &lt;it&gt; &amp; &quot;so&quot;\"")) << xml;
  const Report found = check(leaky, few());
  EXPECT_EQ(xml_fault(report_junit(found)), "");
  EXPECT_TRUE(contains(report_junit(found), "\nreplay: headproof check ./libmine.so --theorem "));
}

TEST(Report, AsMarkdownIsATableThatNothingBreaks) {
  Report report = one_of_each();
  report.theorems[1].why = "a | b\nc";
  const std::string text = report_markdown(report);
  EXPECT_TRUE(contains(text, "| num\\-b | ❌ violated | 0.0 % | 3 | a \\| b?c |")) << text;
  EXPECT_TRUE(contains(report_markdown(check(leaky, few())),
                       "\n    headproof check ./libmine.so --theorem prop-5.1"));
}

TEST(Report, AsAPageDrawsTheCounterexampleAndLoadsNothing) {
  const std::string page = report_html(check(leaky, few()));
  EXPECT_TRUE(contains(page, "A as it should be")) << page;
  EXPECT_TRUE(contains(page, "A as it is"));
  EXPECT_TRUE(contains(page, "A, the difference"));
  EXPECT_TRUE(contains(page, "class=\"wrong\""));
  EXPECT_TRUE(contains(page, "row 0, column 1: 0.25"));
  for (const char* outside : {"http:", "https:", "src=", "<script", "<link", "url("}) {
    EXPECT_FALSE(contains(page.substr(0, page.find("<math")), outside)) << outside;
  }
  EXPECT_TRUE(contains(report_html(one_of_each()), "mine &lt;&amp;&gt; &quot;yours&quot;"));
}

}  // namespace
}  // namespace headproof
