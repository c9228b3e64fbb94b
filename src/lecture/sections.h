// The lecture's sections, one file each, in the order in which they draw from the random stream.
#pragma once

#include <string>
#include <string_view>

#include "headproof/head.h"
#include "headproof/text.h"
#include "lecture/lecture.h"

namespace headproof {

/// The sizes of section 4.1.
inline constexpr Index model_dim = 32, head_dim = 16, max_seq_len = 8, batch = 4;

/// What one section leaves for the next.
struct Course {
  Lecture lecture;
  Generator generator;
  const Text& text;
  Tensor<float, 3> out;  ///< what it answers

  /// Begins a section.
  Section& begin(std::string id, std::string title);
  /// Keeps a tensor under its name; returns it.
  template <class T, std::size_t Rank>
  const Tensor<T, Rank>& keep(std::string name, const Tensor<T, Rank>& tensor) {
    lecture.tensors.emplace_back(std::move(name), tensor);
    return tensor;
  }
  /// Keeps the three weights of a head as NAME_key, NAME_query, NAME_value.
  void keep_weights(const std::string& name, const HeadWeights& weights);
};

void section_4_1(Course& course);
void section_4_2(Course& course);
void section_4_3(Course& course);
void section_4_4(Course& course);
void section_4_5(Course& course);
void exercise_7(Course& course);

/// What a theorem's check says of the reference head.
ResultItem examine(std::string_view theorem, const HeadProblem& problem);

/// softmax(mask(scores)) of a matrix of scores, through the reference: queries are the rows of
/// `scores`, keys and values the identity, the scale 1, so that every dot product is one score.
Tensor<float, 2> softmax_rows(View<const float, 2> scores, Causal causal);

/// C's "%.*f" and "%.*e", and 1,115,394.
std::string fixed(double value, int digits);
std::string scientific(double value);
std::string with_commas(Index value);
std::string shape_text(const Array& array);

}  // namespace headproof
