#include <algorithm>
#include <utility>

#include "theorems/oracle.h"
#include "theorems/results.h"

namespace headproof {

std::string_view name_of(Claim claim) {
  constexpr std::string_view names[] = {"exact", "bitwise", "bounded"};
  return names[static_cast<std::size_t>(claim)];
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

const std::vector<Theorem>& theorems() {
  static const std::vector<Theorem> all = [] {
    std::vector<Theorem> list = {prop_3_1(), cor_3_2(), cor_3_3(), prop_5_1(), lemma_4_5(),
                                 ex_4(),     thm_6_1(), cor_6_2(), sec_4_5(),  ex_7()};
    for (Theorem& theorem : list) {
      // A head that gives no answer is a verdict, not the end of the program.
      theorem.check = [check = std::move(theorem.check)](const Subject& subject,
                                                         const HeadProblem& problem) {
        try {
          return check(subject, problem);
        } catch (const SubjectFailed& failure) {
          Finding finding;
          finding.what = "the head answers";
          finding.outcome = Outcome::crashed;
          finding.note = failure.what();
          return Verdict{{finding}};
        }
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
