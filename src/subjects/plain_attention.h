// Attention in float32, row by row, as a chain of steps that may be replaced one by one: what the
// wrong ones stand on.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "headproof/attention_subject.h"

namespace headproof {

/// One query and what becomes of it, step by step.
struct Row {
  const AttentionProblem& problem;
  Index b, h, i;       ///< which: batch, query head, query
  Index kv_head = 0;   ///< whose keys and values it reads
  Index keys = 0;      ///< how many keys are no padding
  Index position = 0;  ///< of the query among the keys
  float scale = 0;
  Tensor<bool, 1> allowed;   ///< [seq_len_k], which keys the query may see
  Tensor<float, 1> scores;   ///< scale q k^T, of all keys
  Tensor<float, 1> logits;   ///< the scores after softcap and bias
  Tensor<float, 1> weights;  ///< 0 where not allowed
  float lse = 0;
  Tensor<float, 1> out;  ///< [value_dim]

  Row(const AttentionProblem& of, Index batch, Index head, Index query)
      : problem(of),
        b(batch),
        h(head),
        i(query),
        allowed({of.seq_len_k()}),
        scores({of.seq_len_k()}),
        logits({of.seq_len_k()}),
        weights({of.seq_len_k()}),
        out({of.value_dim()}) {}

  Index seq_len_q() const { return problem.seq_len_q(); }
  Index seq_len_k() const { return problem.seq_len_k(); }
  float q(Index c) const { return problem.q(b, h, i, c); }
  float k(Index j, Index c) const { return problem.k(b, kv_head, j, c); }
  float v(Index j, Index c) const { return problem.v(b, kv_head, j, c); }
};

/// The steps, each right.
namespace plain {

// Whether the query may see key j, one reason each.
bool causal_allows(const Row& row, Index j);
bool window_allows(const Row& row, Index j);
bool mask_allows(const Row& row, Index j);
/// The element of a mask or bias for this row and key; axes of size 1 stand for all.
template <class T>
T element(const Tensor<T, 4>& tensor, const Row& row, Index j) {
  const auto shape = tensor.shape();
  return tensor(row.b % shape[0], row.h % shape[1], row.i % shape[2], j % shape[3]);
}

void place(Row& row);    ///< kv_head, keys, position, scale
void mask(Row& row);     ///< allowed
void score(Row& row);    ///< scores
void logits(Row& row);   ///< logits
void softmax(Row& row);  ///< weights and lse
void combine(Row& row);  ///< out
/// d_q, d_k and d_v of this row added to what the others gave.
void gradient(const Row& row, AttentionGradients<float>& gradients);

/// The softmax in one pass over blocks of keys, under a running maximum; `rescale` brings what
/// came before to the new maximum.
void online_softmax(Row& row, Index block, bool rescale = true);
/// out in `parts` sums, key j in part j % parts, which are then added.
void combine_in_parts(Row& row, Index parts);
/// A row with its logits.
Row with_logits(const AttentionProblem& problem, Index b, Index h, Index i);

}  // namespace plain

struct Steps {
  using Step = std::function<void(Row&)>;
  /// What is computed instead of what is asked.
  std::function<void(AttentionProblem&)> prepare = [](AttentionProblem&) {};
  Step place = plain::place;
  Step mask = plain::mask;
  Step score = plain::score;
  Step logits = plain::logits;
  Step softmax = plain::softmax;
  Step combine = plain::combine;
  std::function<void(const Row&, AttentionGradients<float>&)> gradient = plain::gradient;
  /// What happens to the answer last; the problem is the one that was asked.
  std::function<void(const AttentionProblem&, AttentionAnswer&)> finish =
      [](const AttentionProblem&, AttentionAnswer&) {};
};

/// float32, every feature.
Domain plain_attention_domain();

std::unique_ptr<AttentionSubject> plain_attention(std::string name, Steps steps = {},
                                                  Domain domain = plain_attention_domain());

}  // namespace headproof
