#include <algorithm>
#include <utility>

#include "theorems/findings.h"
#include "theorems/oracle.h"
#include "theorems/results.h"

namespace headproof {

std::string_view name_of(Claim claim) {
  constexpr std::string_view names[] = {"exact", "bitwise", "bounded"};
  return names[static_cast<std::size_t>(claim)];
}

std::string_view name_of(Place::Result result) {
  constexpr std::string_view names[] = {"out", "A", "lse", "d_q", "d_k", "d_v"};
  return names[static_cast<std::size_t>(result)];
}

std::string_view name_of(Outcome outcome) {
  constexpr std::string_view names[] = {"holds",       "violated", "not applicable",
                                        "unsupported", "gave up",  "crashed"};
  return names[static_cast<std::size_t>(outcome)];
}

Outcome Verdict::outcome() const {
  // From the gravest down; what is not applicable or unsupported leaves the rest to speak.
  for (Outcome grave : {Outcome::crashed, Outcome::violated, Outcome::gave_up, Outcome::holds,
                        Outcome::unsupported, Outcome::not_applicable}) {
    for (const Finding& finding : findings) {
      if (finding.outcome == grave) return grave;
    }
  }
  return Outcome::not_applicable;
}

double Verdict::used() const {
  double most = 0;
  for (const Finding& finding : findings) {
    if (finding.bound > 0) most = std::max(most, finding.error / finding.bound);
  }
  return most;
}

HeadProblem draw_problem(Index batch, Index seq_len, Index model_dim, Index head_dim,
                         Generator& generator) {
  HeadProblem problem;
  problem.weights = draw_head_weights(model_dim, head_dim, generator);
  problem.x = generator.randn(batch, seq_len, model_dim);
  return problem;
}

namespace {

Verdict one_finding(std::string what, Outcome outcome, std::string note) {
  Finding finding;
  finding.what = std::move(what);
  finding.outcome = outcome;
  finding.note = std::move(note);
  return {{finding}};
}

/// What every check relies on: weights that fit x, and at least one number everywhere.
Verdict checked(const Theorem& theorem, const Subject& subject, const HeadProblem& problem) {
  const HeadWeights& w = problem.weights;
  const auto& shape = w.key.shape();
  if (w.query.shape() != shape || w.value.shape() != shape || shape[1] != problem.x.shape()[2]) {
    return one_finding(
        "the weights fit x", Outcome::unsupported,
        "x is [batch, seq_len, model_dim], and each of the weights [head_dim, model_dim]");
  }
  if (problem.x.size() == 0 || w.key.size() == 0) {
    return not_applicable("the problem is empty");
  }
  try {
    return theorem.check(subject, problem);
  } catch (const SubjectFailed& failure) {
    // A head that gives no answer is a verdict, not the end of the program.
    return one_finding("the head answers", Outcome::crashed, failure.what());
  }
}

}  // namespace

const std::vector<Theorem>& theorems() {
  static const std::vector<Theorem> all = [] {
    std::vector<Theorem> list = {prop_3_1(), cor_3_2(), cor_3_3(), prop_5_1(), lemma_4_5(),
                                 ex_4(),     thm_6_1(), cor_6_2(), sec_4_5(),  ex_7()};
    for (Theorem& theorem : list) {
      theorem.check = [unchecked = theorem](const Subject& subject, const HeadProblem& problem) {
        return checked(unchecked, subject, problem);
      };
    }
    return list;
  }();
  return all;
}

const Theorem* find_theorem(std::string_view id) {
  for (const Theorem& theorem : theorems()) {
    if (theorem.id == id) return &theorem;
  }
  return nullptr;
}

}  // namespace headproof
