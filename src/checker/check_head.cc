// Checks a whole head: the theorems about (x, weights) -> out, and those about attention as a black
// box, for which x carries the queries, keys and values.

#include <algorithm>
#include <cmath>

#include "checker/cases.h"
#include "checker/expectations.h"
#include "checker/shrinker.h"
#include "headproof/check.h"
#include "subjects/head_adapter.h"
#include "theorems/head_num_poison.h"
#include "theorems/oracle.h"

namespace headproof {
namespace {

/// Theorems whose head-level check asks with the mask on, whatever it is given.
bool asks_masked(std::string_view id) {
  return id == "prop-5.1" || id == "ex-4" || id == "num-poison";
}

/// Theorems whose head-level check asks about a problem of its own, whatever it is given.
bool asks_its_own(std::string_view id) { return id == "sec-4.5" || id == "ex-7"; }

/// x, weights and whether the mask is on, in sizes that the head-level checks (a gradient for each
/// output, a call for each position) get through quickly.
HeadProblem draw_head(Draw& draw) {
  const Sizes sizes = draw.sizes();
  const bool tiny = draw.case_number < 12;
  const Index seq_len = draw.length(std::min<Index>(sizes.seq_len_k, 17));
  const Index head_dim = draw.dim(std::min<Index>(sizes.head_dim, 8));
  const Index model_dim = 1 + draw.below(tiny ? 3 : 9);
  HeadProblem problem;
  problem.causal = draw.either_causal();
  problem.x = Tensor<float, 3>({sizes.batch, seq_len, model_dim});
  const Tensor<float, 4> x = draw.tensor({1, sizes.batch, seq_len, model_dim});
  if (draw.regime == "tied") {
    // Equal scores come from queries of 0; values tell positions apart.
    problem.x = draw.generator.randn(sizes.batch, seq_len, model_dim);
  } else {
    std::copy(x.begin(), x.end(), problem.x.begin());
  }
  for (Tensor<float, 2>* weights :
       {&problem.weights.key, &problem.weights.query, &problem.weights.value}) {
    *weights = draw.generator.randn(head_dim, model_dim);
    for (float& weight : *weights) weight /= std::sqrt(static_cast<float>(model_dim));
  }
  if (draw.regime == "tied") {
    std::fill(problem.weights.query.begin(), problem.weights.query.end(), 0.0F);
  }
  return problem;
}

std::vector<Axis<HeadProblem>> axes_of(const HeadProblem& problem, Index length_multiple) {
  const auto [batch, seq_len, model_dim] = problem.x.shape();
  const auto of_weights = [](HeadProblem& p, std::size_t axis, Index first, Index count) {
    for (auto* weights : {&p.weights.key, &p.weights.query, &p.weights.value}) {
      cut(*weights, axis, first, count);
    }
  };
  return {
      {batch, 1, [](HeadProblem& p, Index first, Index count) { cut(p.x, 0, first, count); }},
      {seq_len, length_multiple,
       [](HeadProblem& p, Index first, Index count) { cut(p.x, 1, first, count); }},
      {model_dim, 1,
       [=](HeadProblem& p, Index first, Index count) {
         cut(p.x, 2, first, count);
         of_weights(p, 1, first, count);
       }},
      {problem.weights.head_dim(), 1,
       [=](HeadProblem& p, Index first, Index count) { of_weights(p, 0, first, count); }},
  };
}

Anatomy<HeadProblem> anatomy_within(const Domain& domain) {
  const auto tensors = [](HeadProblem& p) {
    std::vector<std::span<float>> all = {{p.x.begin(), p.x.end()}};
    for (auto* weights : {&p.weights.query, &p.weights.key, &p.weights.value}) {
      all.emplace_back(weights->begin(), weights->end());
    }
    return all;
  };
  const auto inside = [&domain](const HeadProblem& p) {
    const auto& dims = domain.head_dims;
    return p.x.shape()[1] % domain.length_multiple == 0 &&
           (dims.empty() ||
            std::find(dims.begin(), dims.end(), p.weights.head_dim()) != dims.end());
  };
  const auto axes = [&domain](const HeadProblem& p) { return axes_of(p, domain.length_multiple); };
  const auto no_changes = [](const HeadProblem&) {
    return std::vector<std::function<void(HeadProblem&)>>();
  };
  return {axes, tensors, no_changes, inside, domain.head_dims, Dtype::float32};
}

Judged judge(const Theorem& theorem, const Subject& head, const HeadProblem& problem) {
  Judged judged;
  judged.verdict = theorem.check(head, problem);
  judged.outcome = judged.verdict.outcome();
  for (const Finding& finding : judged.verdict.findings) {
    const bool says_why = judged.outcome != Outcome::holds && judged.outcome != Outcome::violated;
    if (says_why && finding.outcome == judged.outcome) judged.why = finding.note;
  }
  return judged;
}

/// The projections in float32 and what came of them, heads axis put in.
Counterexample counterexample_of(const Subject& head, HeadProblem problem) {
  Counterexample example;
  const auto with_heads = [](const auto& tensor, auto wide) {
    std::copy(tensor.begin(), tensor.end(), wide.begin());
    return wide;
  };
  const auto [batch, seq_len, model_dim] = problem.x.shape();
  const std::array<Index, 4> rows = {batch, 1, seq_len, problem.weights.head_dim()};
  const std::array<Index, 4> square = {batch, 1, seq_len, seq_len};
  const HeadWeights& w = problem.weights;
  AttentionProblem& attention = example.problem;
  attention.q = with_heads(project<float>(problem.x, w.query), Tensor<float, 4>(rows));
  attention.k = with_heads(project<float>(problem.x, w.key), Tensor<float, 4>(rows));
  attention.v = with_heads(project<float>(problem.x, w.value), Tensor<float, 4>(rows));
  attention.causal = problem.causal ? Causal::top_left : Causal::none;

  const Oracle oracle(problem);
  example.should_be.out = with_heads(oracle.out, Tensor<double, 4>(rows));
  example.should_be.weights = with_heads(oracle.A, Tensor<double, 4>(square));
  try {
    const HeadAnswer answer = ask(head, problem);
    AttentionAnswer came;
    came.out = with_heads(answer.out, Tensor<double, 4>(rows));
    if (answer.A) came.weights = with_heads(*answer.A, Tensor<double, 4>(square));
    example.reply = std::move(came);
    example.A_used = with_heads(recover_A(head, problem), Tensor<double, 4>(square));
  } catch (const SubjectFailed& failure) {
    example.reply = Refusal{Refusal::Kind::failed, failure.what()};
  }
  example.head = std::move(problem);
  return example;
}

void go_on(const Theorem& theorem, const Subject& head, const Domain& domain,
           const CheckOptions& options, Clock::time_point deadline, TheoremReport& report) {
  report.id = theorem.id;
  report.title = theorem.title;
  report.statement = theorem.statement;
  const std::string seed_name = "head " + report.id;
  CheckOptions chosen = options;
  if (asks_its_own(theorem.id)) chosen.cases = 1;
  // Weights may shrink to zeros for which a hypothesis fails: then the right head is blamed too.
  const auto right = reference_subject();
  const auto judge_it = [&](const HeadProblem& problem) { return judge(theorem, head, problem); };
  run_cases(
      chosen, regimes_for({"gaussian", "single", "one-hot", "tied", "lanes", "long"}, options),
      deadline, report,
      [&](int n, std::string_view regime) {
        Draw draw(domain, case_seed(options.seed, seed_name, n), n, regime);
        HeadProblem problem = draw_head(draw);
        problem.causal |= asks_masked(theorem.id);
        return problem;
      },
      judge_it,
      [&](HeadProblem problem, Judged judged, int n, std::string_view regime) {
        const int calls = calls_to_shrink(judged.outcome);
        make_smaller(options, problem, judged, judge_it,
                     [&](const HeadProblem& larger, const auto& fails) {
                       const Anatomy<HeadProblem> anatomy = anatomy_within(domain);
                       const std::function<bool(const HeadProblem&)> head_alone_fails =
                           [&](const HeadProblem& smaller) {
                             return fails(smaller) &&
                                    judge(theorem, *right, smaller).outcome == Outcome::holds;
                           };
                       return Shrinker(larger, anatomy, calls, head_alone_fails).run();
                     });
        write_down(options, n, regime, std::move(judged),
                   counterexample_of(head, std::move(problem)), report);
      });
}

bool has_answer(const TheoremReport& report) {
  return report.outcome == Outcome::holds || report.outcome == Outcome::violated ||
         report.outcome == Outcome::crashed || report.outcome == Outcome::gave_up;
}

/// One report from what a theorem found about the head and about the head as a black box: the
/// graver of the two, the head's own where both are violated.
TheoremReport merged(TheoremReport black_box, const TheoremReport& head) {
  if (black_box.counterexample && black_box.counterexample->problem.q.size() > 0) {
    black_box.counterexample->note += "; asked with x_t = (q_t, k_t, v_t) and weights that select";
  }
  const int cases = black_box.cases + head.cases;
  const double used = std::max(black_box.used, head.used);
  const bool out_of_time = black_box.out_of_time || head.out_of_time;
  const bool prefer_head = !has_answer(black_box) || black_box.outcome == Outcome::holds ||
                           (head.outcome == Outcome::violated && !asks_its_own(head.id));
  if (has_answer(head) && prefer_head &&
      (head.outcome != Outcome::holds || !has_answer(black_box))) {
    black_box = head;
  } else if (black_box.outcome == Outcome::holds && head.outcome == Outcome::holds) {
    black_box.findings.insert(black_box.findings.end(), head.findings.begin(), head.findings.end());
  }
  black_box.cases = cases;
  black_box.used = used;
  black_box.out_of_time = out_of_time;
  return black_box;
}

}  // namespace

Report check(const Subject& head, const CheckOptions& options) {
  const auto black_box = head_as_attention(head);
  std::vector<Theorem> about_heads = theorems();
  about_heads.push_back(head_num_poison());
  return check_in_turns(*black_box, options, [&](Turn turn, const Domain& domain) {
    const auto theorem = std::find_if(about_heads.begin(), about_heads.end(),
                                      [&](const Theorem& each) { return each.id == turn.id; });
    const bool is_about_heads = theorem != about_heads.end();
    TheoremReport nothing;
    nothing.outcome = Outcome::not_applicable;
    return Turn{turn.id, [=, &head, &domain, &options, of_black_box = nothing, of_head = nothing](
                             Clock::time_point deadline, TheoremReport& report) mutable {
                  const auto half = (deadline - Clock::now()) / 2;
                  turn.go_on(is_about_heads ? deadline - half : deadline, of_black_box);
                  if (is_about_heads) go_on(*theorem, head, domain, options, deadline, of_head);
                  report = merged(of_black_box, of_head);
                }};
  });
}

}  // namespace headproof
