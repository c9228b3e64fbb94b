// Subjects that answer the protocol's questions, wherever they run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "subjects/open.h"
#include "subjects/protocol.h"

namespace headproof {

/// Who answers.
class Answerer {
 public:
  virtual ~Answerer() = default;
  /// What it says of itself.
  virtual std::variant<Hello, Refusal> start() = 0;
  /// What follows the line of the reply. `accept` says how many bytes that line announces.
  virtual std::variant<std::string, Refusal> ask(
      std::string_view question, const std::function<Result<Index>(const Line&)>& accept) = 0;
};

/// The question after which an answerer says hello.
std::string hello_question();

/// The refusal that a reply's line is, or nothing when the line is ok.
std::optional<Refusal> refusal_of(const Line& line);

/// What the line of a reply to the hello says.
std::variant<Hello, Refusal> hello_of(const Line& line);

/// Starts the answerer, whose subject is a whole head when its name begins with "head:". The error
/// says why it does not answer.
Result<OpenedSubject> protocol_subject(std::string name, std::unique_ptr<Answerer> answerer);

/// A function in this process that takes the bytes of a question and gives those of its reply; what
/// it throws comes out where the subject is asked.
Result<OpenedSubject> function_subject(std::string name,
                                       std::function<std::string(std::string_view)> answer);

}  // namespace headproof
