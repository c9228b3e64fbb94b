// A head, asked as if it were attention between given queries, keys and values.
#pragma once

#include "headproof/attention_subject.h"
#include "headproof/subjects.h"

namespace headproof {

/// The problem in which q, k and v come out of the projections: x_t = (q_t, k_t, v_t), and weights
/// that select a third of it each. Products with 1 and 0 and their sums are exact where the numbers
/// are finite.
HeadProblem head_problem_of(const AttentionProblem& problem);

/// `head`, which must outlive it, as (q, k, v) -> out: causal or not, batches, one head, and A
/// where the head shows it.
std::unique_ptr<AttentionSubject> head_as_attention(const Subject& head);

}  // namespace headproof
