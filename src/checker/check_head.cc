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
  example.out = with_heads(oracle.out, Tensor<double, 4>(rows));
  example.A = with_heads(oracle.A, Tensor<double, 4>(square));
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

TheoremReport run(const Theorem& theorem, const Subject& head, const Domain& domain,
                  const CheckOptions& options, Clock::time_point deadline) {
  TheoremReport report;
  report.id = theorem.id;
  report.title = theorem.title;
  report.statement = theorem.statement;
  const std::string seed_name = "head " + report.id;
  CheckOptions chosen = options;
  if (asks_its_own(theorem.id)) chosen.cases = 1;
  run_cases(
      chosen, regimes_for({"gaussian", "single", "one-hot", "tied", "lanes", "long"}, options),
      deadline, report,
      [&](int n, std::string_view regime) {
        Draw draw(domain, case_seed(options.seed, seed_name, n), n, regime);
        HeadProblem problem = draw_head(draw);
        problem.causal |= asks_masked(theorem.id);
        return problem;
      },
      [&](const HeadProblem& problem) { return judge(theorem, head, problem); },
      [&](HeadProblem problem, Judged first, int n, std::string_view regime) {
        const auto start = Clock::now();
        const Outcome outcome = first.outcome;
        const Anatomy<HeadProblem> anatomy = anatomy_within(domain);
        // Weights may shrink to zeros for which a hypothesis fails: then the right head is blamed
        // too.
        const auto right = reference_subject();
        const std::function<bool(const HeadProblem&)> fails = [&](const HeadProblem& smaller) {
          return since(start) < 3 && judge(theorem, head, smaller).outcome == outcome &&
                 judge(theorem, *right, smaller).outcome == Outcome::holds;
        };
        problem = Shrinker(std::move(problem), anatomy, calls_to_shrink(outcome), fails).run();
        Judged judged = judge(theorem, head, problem);
        if (judged.outcome != outcome) judged = std::move(first);  // the answers vary
        Counterexample example = counterexample_of(head, std::move(problem));
        example.note = note_of(judged);
        example.regime = regime;
        example.replay = replay_line(options, theorem.id, n);
        report.outcome = outcome;
        report.why = judged.why;
        report.findings = std::move(judged.verdict.findings);
        report.counterexample = std::move(example);
      });
  return report;
}

bool has_answer(const TheoremReport& report) {
  return report.outcome == Outcome::holds || report.outcome == Outcome::violated ||
         report.outcome == Outcome::crashed || report.outcome == Outcome::gave_up;
}

/// One report from what a theorem found about the head and about the head as a black box: the
/// graver of the two, the head's own where both are violated.
void merge(TheoremReport& black_box, TheoremReport head) {
  const int cases = black_box.cases + head.cases;
  const double used = std::max(black_box.used, head.used);
  const bool prefer_head = !has_answer(black_box) || black_box.outcome == Outcome::holds ||
                           (head.outcome == Outcome::violated && !asks_its_own(head.id));
  if (has_answer(head) && prefer_head &&
      (head.outcome != Outcome::holds || !has_answer(black_box))) {
    black_box = std::move(head);
  } else if (black_box.outcome == Outcome::holds && head.outcome == Outcome::holds) {
    black_box.findings.insert(black_box.findings.end(), head.findings.begin(), head.findings.end());
  }
  black_box.cases = cases;
  black_box.used = used;
}

}  // namespace

Report check(const Subject& head, const CheckOptions& options) {
  const auto start = Clock::now();
  const auto black_box = head_as_attention(head);
  CheckOptions first_half = options;
  first_half.seconds = options.seconds / 2;
  first_half.expected.clear();  // compared once, with what both halves found
  first_half.expect.clear();
  Report report = check(*black_box, first_half);
  const bool answers = report.theorems.size() != 1 || report.theorems.front().id != "answers";
  for (TheoremReport& theorem : report.theorems) {
    if (theorem.counterexample && theorem.counterexample->problem.q.size() > 0) {
      theorem.counterexample->note += "; asked with x_t = (q_t, k_t, v_t) and weights that select";
    }
  }
  std::vector<Theorem> about_heads = theorems();
  about_heads.push_back(head_num_poison());
  for (std::size_t at = 0; answers && !options.identify_only && at < about_heads.size(); ++at) {
    const Theorem& theorem = about_heads[at];
    const auto& ids = options.theorems;
    if (!ids.empty() && std::find(ids.begin(), ids.end(), theorem.id) == ids.end()) continue;
    if (options.progress) {
      options.progress(theorem.id,
                       static_cast<double>(at) / static_cast<double>(about_heads.size()));
    }
    const double left = std::max(0.0, options.seconds - since(start));
    const std::chrono::duration<double> share(left / static_cast<double>(about_heads.size() - at));
    TheoremReport of_head = run(theorem, head, report.domain, options,
                                Clock::now() + std::chrono::duration_cast<Clock::duration>(share));
    const auto same = std::find_if(report.theorems.begin(), report.theorems.end(),
                                   [&](const TheoremReport& r) { return r.id == of_head.id; });
    if (same == report.theorems.end()) {
      report.theorems.push_back(std::move(of_head));
    } else {
      merge(*same, std::move(of_head));
    }
  }
  compare_with_expectations(report, options);
  report.seconds = since(start);
  return report;
}

}  // namespace headproof
