// What goes over the pipe between the checker and a subject in a process of its own:
// docs/subjects.md as code, both sides of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headproof/attention_subject.h"
#include "headproof/result.h"
#include "headproof/subjects.h"

namespace headproof {

inline constexpr int protocol_version = 1;

/// A line is at most that long.
inline constexpr std::size_t longest_line = 1 << 16;

/// A line: a word, then key=value tokens or a sentence.
class Line {
 public:
  explicit Line(std::string_view text);
  std::string_view word() const { return word_; }
  /// What follows the word.
  std::string_view rest() const { return rest_; }
  std::optional<std::string_view> find(std::string_view key) const;
  /// The number after `key=`, or `otherwise` where there is none; an error when it is no whole
  /// number from `lowest` to 2^40.
  Result<Index> number(std::string_view key, Index otherwise, Index lowest = 0) const;
  /// The token that is no key=value with one of these keys, if any.
  std::optional<std::string_view> unknown(std::initializer_list<std::string_view> keys) const;

 private:
  std::string_view word_, rest_;
  std::vector<std::pair<std::string_view, std::string_view>> tokens_;
};

/// A text from outside as part of a sentence: one line, printable ASCII, of at most 300 characters.
std::string in_one_line(std::string_view text);

/// What a subject says of itself when it starts.
struct Hello {
  std::string name;  ///< empty: it has not said
  bool whole_head = false;
  Domain domain;
};
std::string format_hello(const Hello& hello);
/// The error is the rest of a sentence: "its hello ...".
Result<Hello> parse_hello(const Line& line);

/// A question as bytes: a line that ends with bytes=N, then N bytes.
std::string format_question(const AttentionProblem& problem, const Domain& domain);
std::string format_question(const HeadProblem& problem);

/// How many bytes follow a question's line.
Result<Index> bytes_that_follow(const Line& line);
/// The question of that line, `payload` the bytes that follow it.
Result<AttentionProblem> parse_question(const Line& line, std::string_view payload,
                                        const Domain& domain);

/// How many bytes the numbers of an answer take.
Index answer_bytes(const AttentionProblem& problem, Dtype dtype);
/// The numbers of an answer.
std::string format_answer(const AttentionAnswer& answer, const Domain& domain);
/// Precondition: payload.size() == answer_bytes(problem, domain.dtype).
AttentionAnswer parse_answer(const AttentionProblem& problem, std::string_view payload,
                             const Domain& domain);

/// The same of a head; `with_weights`: A follows out.
Index answer_bytes(const HeadProblem& problem, bool with_weights);
HeadAnswer parse_answer(const HeadProblem& problem, std::string_view payload, bool with_weights);

}  // namespace headproof
