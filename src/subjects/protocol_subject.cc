#include "subjects/protocol_subject.h"

#include <algorithm>
#include <utility>

namespace headproof {

std::string hello_question() { return "hello protocol=" + std::to_string(protocol_version) + "\n"; }

/// The refusal that a reply's line is, or nothing when the line is ok.
std::optional<Refusal> refusal_of(const Line& line) {
  const auto refused = [&](Refusal::Kind kind, std::string_view otherwise) {
    const std::string_view why = line.rest().empty() ? otherwise : line.rest();
    return Refusal{kind, in_one_line(why)};
  };
  if (line.word() == "ok") return std::nullopt;
  if (line.word() == "unsupported") {
    return refused(Refusal::Kind::unsupported, "the subject says that it does not do this");
  }
  if (line.word() == "error") {
    return refused(Refusal::Kind::failed, "the subject replied with an error and no reason");
  }
  if (line.word() == "crashed") {
    return refused(Refusal::Kind::crashed, "the subject was found to have crashed");
  }
  return Refusal{Refusal::Kind::failed, "the subject's reply begins with '" +
                                            in_one_line(line.word().substr(0, 40)) +
                                            "' instead of ok, unsupported or error"};
}

std::variant<Hello, Refusal> hello_of(const Line& line) {
  if (auto refusal = refusal_of(line)) return *refusal;
  auto read = parse_hello(line);
  if (read) return std::move(*read);
  return Refusal{Refusal::Kind::failed, "the subject's hello " + read.error().message};
}

namespace {

/// How many bytes follow, when the reply says nothing else.
Result<Index> expected_bytes(const Line& line, Index expected, const std::string& what) {
  const auto announced = line.number("bytes", expected);
  if (!announced) return announced.error();
  if (*announced != expected) {
    return Error{"announces " + std::to_string(*announced) + " bytes; " + what + " takes " +
                 std::to_string(expected)};
  }
  return expected;
}

Result<Index> no_such_key(std::string_view key) {
  return Error{"has '" + in_one_line(key) + "', which is not known here"};
}

class ProtocolAttention final : public AttentionSubject {
 public:
  ProtocolAttention(std::string name, Domain domain, std::unique_ptr<Answerer> answerer)
      : name_(std::move(name)), domain_(std::move(domain)), answerer_(std::move(answerer)) {}

  std::string name() const override { return name_; }
  Domain domain() const override { return domain_; }

  AttentionReply attend(const AttentionProblem& problem) override {
    bool inputs_changed = false;
    const auto accept = [&](const Line& line) -> Result<Index> {
      if (const auto key = line.unknown({"bytes", "inputs_changed"})) return no_such_key(*key);
      inputs_changed = line.find("inputs_changed").has_value();
      return expected_bytes(line, answer_bytes(problem, domain_.dtype), "what was asked for");
    };
    auto payload = answerer_->ask(format_question(problem, domain_), accept);
    if (auto* refusal = std::get_if<Refusal>(&payload)) return std::move(*refusal);
    AttentionAnswer answer = parse_answer(problem, std::get<std::string>(payload), domain_);
    answer.inputs_changed = inputs_changed;
    return answer;
  }

 private:
  std::string name_;
  Domain domain_;
  std::unique_ptr<Answerer> answerer_;
};

class ProtocolHead final : public Subject {
 public:
  ProtocolHead(std::string name, Domain domain, std::unique_ptr<Answerer> answerer)
      : name_(std::move(name)), domain_(std::move(domain)), answerer_(std::move(answerer)) {}

  std::string_view name() const override { return name_; }

  Result<HeadAnswer> head(const HeadProblem& problem) const override {
    if (!domain_.features.has(problem.causal ? Feature::causal : Feature::non_causal)) {
      return Error{problem.causal ? "the subject does not offer the causal mask"
                                  : "the subject does not offer a head without mask"};
    }
    bool with_weights = false;
    const auto accept = [&](const Line& line) -> Result<Index> {
      if (const auto key = line.unknown({"bytes", "weights"})) return no_such_key(*key);
      with_weights = line.find("weights").has_value();
      return expected_bytes(line, answer_bytes(problem, with_weights), "what it gives");
    };
    auto payload = answerer_->ask(format_question(problem), accept);
    if (auto* refusal = std::get_if<Refusal>(&payload)) return Error{std::move(refusal->why)};
    return parse_answer(problem, std::get<std::string>(payload), with_weights);
  }

 private:
  std::string name_;
  Domain domain_;
  std::unique_ptr<Answerer> answerer_;
};

class FunctionAnswerer final : public Answerer {
 public:
  explicit FunctionAnswerer(std::function<std::string(std::string_view)> answer)
      : answer_(std::move(answer)) {}

  std::variant<Hello, Refusal> start() override {
    return hello_of(Line(answer_(hello_question())));
  }

  std::variant<std::string, Refusal> ask(
      std::string_view question, const std::function<Result<Index>(const Line&)>& accept) override {
    const std::string reply = answer_(question);
    const std::size_t end = std::min(reply.find('\n'), reply.size());
    const Line line(std::string_view(reply).substr(0, end));
    if (auto refusal = refusal_of(line)) return *refusal;
    const std::string payload = reply.substr(std::min(end + 1, reply.size()));
    const auto size = accept(line);
    if (!size) return Refusal{Refusal::Kind::failed, "the subject's reply " + size.error().message};
    if (static_cast<Index>(payload.size()) == *size) return payload;
    return Refusal{Refusal::Kind::failed, "the subject's reply has " +
                                              std::to_string(payload.size()) +
                                              " bytes instead of " + std::to_string(*size)};
  }

 private:
  std::function<std::string(std::string_view)> answer_;
};

}  // namespace

Result<OpenedSubject> protocol_subject(std::string name, std::unique_ptr<Answerer> answerer) {
  const bool whole_head = name.starts_with("head:");
  auto started = answerer->start();
  if (auto* refusal = std::get_if<Refusal>(&started)) return Error{name + ": " + refusal->why};
  auto& hello = std::get<Hello>(started);
  if (hello.whole_head != whole_head) {
    return Error{name + (hello.whole_head ? ": it is a whole head; write head: before its name"
                                          : ": it is no whole head; write its name without head:")};
  }
  if (!hello.name.empty()) name += " (" + hello.name + ")";
  OpenedSubject opened;
  if (whole_head) {
    opened.head = std::make_unique<ProtocolHead>(std::move(name), std::move(hello.domain),
                                                 std::move(answerer));
  } else {
    opened.attention = std::make_unique<ProtocolAttention>(std::move(name), std::move(hello.domain),
                                                           std::move(answerer));
  }
  return opened;
}

Result<OpenedSubject> function_subject(std::string name,
                                       std::function<std::string(std::string_view)> answer) {
  return protocol_subject(std::move(name), std::make_unique<FunctionAnswerer>(std::move(answer)));
}

}  // namespace headproof
