#include "lecture/lecture.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "lecture/sections.h"

namespace headproof {

const Array& Lecture::tensor(std::string_view name) const {
  return std::find_if(tensors.begin(), tensors.end(),
                      [&](const auto& entry) { return entry.first == name; })
      ->second;
}

Outcome Lecture::outcome() const {
  Verdict all;
  for (const Section& section : sections) {
    for (const Item& item : section.items) {
      if (const auto* result = std::get_if<ResultItem>(&item)) {
        const auto& findings = result->verdict.findings;
        all.findings.insert(all.findings.end(), findings.begin(), findings.end());
      }
    }
  }
  return all.outcome();
}

Section& Course::begin(std::string id, std::string title) {
  lecture.sections.push_back({std::move(id), std::move(title), {}});
  return lecture.sections.back();
}

void Course::keep_weights(const std::string& name, const HeadWeights& weights) {
  keep(name + "_key", weights.key);
  keep(name + "_query", weights.query);
  keep(name + "_value", weights.value);
}

ResultItem examine(std::string_view theorem, const HeadProblem& problem) {
  return {std::string(theorem), find_theorem(theorem)->check(*reference_subject(), problem)};
}

Tensor<float, 2> softmax_rows(View<const float, 2> scores, Causal causal) {
  const Index keys = scores.shape[1];
  Tensor<float, 2> identity({keys, keys});
  for (Index j = 0; j < keys; ++j) identity(j, j) = 1;
  const auto one_head = [](View<const float, 2> matrix) {
    return matrix.with_axis(0).with_axis(0);
  };
  const auto stages = attention_reference<float>(one_head(scores), one_head(identity),
                                                 one_head(identity), {causal, 1.0});
  return Tensor<float, 2>(stages.A.view()[0][0]);
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

std::string with_commas(Index value) {
  std::string text = std::to_string(value);
  for (auto at = static_cast<Index>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return text;
}

std::string shape_text(const Array& array) {
  std::string text;
  for (Index extent : array.shape) text += (text.empty() ? "" : " × ") + std::to_string(extent);
  return text;
}

Result<Lecture> run_lecture(const Text& text, std::string_view text_name, std::uint64_t seed) {
  if (static_cast<Index>(text.characters.size()) < shown_characters) {
    return Error{std::string(text_name) + " has " + std::to_string(text.characters.size()) +
                 " characters, and the pictures show the first " +
                 std::to_string(shown_characters) + ": give a longer text"};
  }
  Course course{{}, Generator(seed), text, {}};
  course.lecture.seed = seed;
  course.lecture.text_name = text_name;
  course.lecture.shown = text.characters.substr(0, shown_characters);
  section_4_1(course);
  section_4_2(course);
  section_4_3(course);
  section_4_4(course);
  section_4_5(course);
  exercise_7(course);
  course.lecture.saturation = sample_saturation({4, 8, 16, 32, 64, 128, 256, 512, 1024}, 32);
  return std::move(course.lecture);
}

void run_counterexamples(Lecture& lecture) {
  for (Section& section : lecture.sections) {
    for (Item& item : section.items) {
      auto* result = std::get_if<ResultItem>(&item);
      if (result == nullptr) continue;
      const Theorem& theorem = *find_theorem(result->theorem);
      result->mutant = theorem.breaks;
      result->broken = theorem.check(*mutant_subject(theorem.breaks), lecture.problem);
    }
  }
}

}  // namespace headproof
