#include <cmath>
#include <string>
#include <vector>

#include "theorems/attention_results.h"

namespace headproof {

const std::vector<AttentionTheorem>& attention_theorems() {
  static const std::vector<AttentionTheorem> all = {
      attention_prop_3_1(),
      attention_cor_3_2(),
      attention_cor_3_3(),
      attention_prop_5_1(),
      attention_lemma_4_5(),
      attention_ex_4(),
      attention_thm_6_1(),
      attention_cor_6_2(),
      attention_sec_4_5(),
      attention_ex_7(),
      num_accuracy(),
      num_shift_invariance(),
      num_linearity_in_v(),
      num_key_permutation(),
      num_head_independence(),
      num_poison(),
      num_nan_visible(),
      num_extreme_scores(),
      num_empty_rows(),
      num_zero_sizes(),
      num_strides(),
      num_inputs_untouched(),
      num_history(),
      num_options(),
      num_grouped_heads(),
      num_window(),
      num_softcap(),
      num_mask(),
      num_lse(),
      num_gradient(),
      num_decode(),
      num_determinism(),
      num_thread_invariance(),
      num_batch_invariance(),
      num_prefix(),
      num_decode_equals_prefill(),
  };
  return all;
}

std::optional<Tensor<double, 4>> result_of(const AttentionAnswer& answer, Place::Result result) {
  const auto& gradients = answer.gradients;
  switch (result) {
    case Place::Result::out:
      return answer.out;
    case Place::Result::A:
      return answer.weights;
    case Place::Result::d_q:
      return gradients ? std::optional(gradients->d_q) : std::nullopt;
    case Place::Result::d_k:
      return gradients ? std::optional(gradients->d_k) : std::nullopt;
    case Place::Result::d_v:
      return gradients ? std::optional(gradients->d_v) : std::nullopt;
    case Place::Result::lse:
      break;
  }
  if (!answer.lse) return std::nullopt;
  const auto [batch, heads, rows] = answer.lse->shape();
  Tensor<double, 4> lse({batch, heads, rows, 1});
  std::copy(answer.lse->begin(), answer.lse->end(), lse.begin());
  return lse;
}

Place place_of(const Tensor<double, 4>& values, Index at, Place origin) {
  const auto [batch, heads, rows, columns] = values.shape();
  if (origin.result != Place::Result::lse) origin.column = at % columns;
  origin.row += at / columns % rows;
  origin.head += at / columns / rows % heads;
  origin.batch += at / columns / rows / heads;
  return origin;
}

Told told(const Place& place) {
  using Result = Place::Result;
  const bool is_usual = place.result == Result::out || place.result == Result::A;
  const bool of_keys = place.result == Result::d_k || place.result == Result::d_v;
  std::string text = is_usual ? "" : std::string(name_of(place.result)) + " of ";
  text += "batch " + std::to_string(place.batch) + ", head " + std::to_string(place.head) +
          (of_keys ? ", key " : ", query ") + std::to_string(place.row);
  if (place.column) {
    text += (place.result == Result::A ? ", key " : ", channel ") + std::to_string(*place.column);
  }
  return {text, place};
}

void compare_out(Checked& claim, const AttentionAnswer& got, const AttentionOracle& oracle,
                 const Conventions& conventions) {
  const auto [batch, heads, rows, channels] = got.out.shape();
  const Index keys = oracle.allowed().shape()[3];
  for (Index b = 0; b < batch; ++b) {
    for (Index h = 0; h < heads; ++h) {
      for (Index i = 0; i < rows; ++i) {
        bool empty = true;
        for (Index j = 0; j < keys && empty; ++j) empty = !oracle.allowed(b, h, i, j);
        if (empty && conventions.empty_row != "zero") continue;
        for (Index c = 0; c < channels; ++c) {
          const double expected = oracle.stages.out(b, h, i, c), value = got.out(b, h, i, c);
          const auto describe = [&] {
            return place(b, h, i, c) + ": " + number(value) + ", the definition gives " +
                   number(expected);
          };
          if (std::isfinite(expected)) {
            claim.within(std::fabs(value - expected), oracle.out_error(b, h, i, c), describe);
          } else {
            claim.require(!std::isfinite(value), describe);
          }
        }
      }
    }
  }
}

}  // namespace headproof
