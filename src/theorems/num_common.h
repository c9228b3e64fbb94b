// What the num-* theorems share: sizes, options, parts of problems, comparisons.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "theorems/attention_results.h"

namespace headproof {

/// The sizes, made smaller where the definition in double would take more than a millisecond or so.
Sizes modest(const Draw& draw, Sizes sizes);

/// Modest sizes, seq_len_q != seq_len_k and the causal mask or not where the subject accepts
/// either.
AttentionProblem draw_plain(Draw& draw);

/// Options; precondition: the subject offers them.
void add_mask(Draw& draw, AttentionProblem& problem);
void add_bias(Draw& draw, AttentionProblem& problem);
void add_key_length(Draw& draw, AttentionProblem& problem);
void add_window(Draw& draw, AttentionProblem& problem);
void add_query_offset(Draw& draw, AttentionProblem& problem);
void add_softcap(Draw& draw, AttentionProblem& problem);
void add_scale(Draw& draw, AttentionProblem& problem);
/// A gradient of out, rows of zeros among it.
void add_d_out(Draw& draw, AttentionProblem& problem);

/// One or two of the options that hide keys, of those that the subject offers.
void hide_keys(Draw& draw, AttentionProblem& problem);
/// Each of the subject's options now and then.
void add_options(Draw& draw, AttentionProblem& problem);

/// Why the subject's conventions leave open what this combination of options means; nothing when
/// they don't.
std::optional<std::string> open_question(const Asker& asker, const AttentionProblem& problem);

/// `count` positions of an axis from `first` on. With `broadcast`, an axis of size 1 stays.
template <class T, std::size_t Rank>
Tensor<T, Rank> part(const Tensor<T, Rank>& tensor, std::size_t axis, Index first, Index count,
                     bool broadcast = false) {
  if (broadcast && tensor.shape()[axis] == 1) return tensor;
  View<const T, Rank> view = tensor.view();
  if (view.data != nullptr) view.data += first * view.strides[axis];
  view.shape[axis] = count;
  return Tensor<T, Rank>(view);
}

/// The problem of one batch element alone, of one query head alone, of the first tokens alone.
AttentionProblem batch_element(const AttentionProblem& problem, Index b);
AttentionProblem one_head(const AttentionProblem& problem, const Conventions& conventions, Index h);
AttentionProblem queries(const AttentionProblem& problem, Index first, Index count);
AttentionProblem first_keys(const AttentionProblem& problem, Index count);

/// The head of keys and values that query head h reads.
Index kv_head(const AttentionProblem& problem, const Conventions& conventions, Index h);

/// A few positions of 0 .. count - 1: all of up to four, else the ends and the middle.
std::vector<Index> few(Index count);

bool sees_any(const AttentionOracle& oracle, Index b, Index h, Index i);

/// Which rows of out a comparison looks at.
using Rows = std::function<bool(Index b, Index h, Index i)>;

/// Two answers that are equal but for rounding: apart by at most `times` the error at each place.
/// Where both are not finite, nothing is asked. Row 0 of both is row `first` of the problem's out.
void compare_close(Checked& claim, const Tensor<double, 4>& got, const Tensor<double, 4>& other,
                   const Tensor<double, 4>& error, double times, std::string_view other_name,
                   const Rows& rows, Index first = 0);

/// Two answers with the same bits: out, and lse and gradients where both have them. Their first
/// entries are the problem's at `origin`.
void compare_bits(Checked& claim, const AttentionAnswer& got, const AttentionAnswer& other,
                  const std::string& what, const Place& origin = {});

}  // namespace headproof
