#include "subjects/process_subject.h"

#include <chrono>
#include <functional>
#include <utility>
#include <variant>

#include "subjects/child_process.h"
#include "subjects/protocol.h"

namespace headproof {
namespace {

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

/// A program that answers questions, started when it is needed.
class SubjectProcess {
 public:
  SubjectProcess(std::vector<std::string> argv, const SubjectOptions& options)
      : argv_(std::move(argv)), options_(options), first_seconds_(options.first_call_seconds) {}

  /// Starts it unless it runs.
  std::variant<Hello, Refusal> start() {
    auto child = ChildProcess::start(argv_);
    if (!child) return Refusal{Refusal::Kind::crashed, child.error().message};
    child_ = std::move(*child);
    answered_ = false;
    Hello hello;
    const auto follows = [&](std::string_view text) -> std::variant<Index, Refusal> {
      const Line line(text);
      if (auto refusal = refusal_of(line)) return *refusal;
      auto read = parse_hello(line);
      if (!read) {
        return Refusal{Refusal::Kind::failed, "the subject's hello " + read.error().message};
      }
      hello = std::move(*read);
      return Index{0};
    };
    auto reply = child_->ask("hello protocol=" + std::to_string(protocol_version) + "\n",
                             first_seconds_, follows);
    if (auto* refusal = std::get_if<Refusal>(&reply)) {
      drop();
      return *refusal;
    }
    return hello;
  }

  /// The line of the reply as `accept` takes it, which says how many bytes follow, and these bytes.
  std::variant<std::string, Refusal> ask(std::string_view question,
                                         const std::function<Result<Index>(const Line&)>& accept) {
    const auto begin = std::chrono::steady_clock::now();
    if (!child_) {
      auto started = start();
      if (auto* refusal = std::get_if<Refusal>(&started)) return *refusal;
    }
    bool usable = false;  // by its own word, in spite of a refusal
    const auto follows = [&](std::string_view text) -> std::variant<Index, Refusal> {
      const Line line(text);
      if (auto refusal = refusal_of(line)) {
        usable = refusal->kind == Refusal::Kind::unsupported || line.word() == "error";
        return *refusal;
      }
      const auto size = accept(line);
      if (!size)
        return Refusal{Refusal::Kind::failed, "the subject's reply " + size.error().message};
      return *size;
    };
    auto reply = child_->ask(question, answered_ ? options_.call_seconds : first_seconds_, follows);
    if (auto* refusal = std::get_if<Refusal>(&reply)) {
      if (!usable) drop();
      return *refusal;
    }
    if (!answered_) {
      // A process that is started again compiles again, and nothing takes much longer then.
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      first_seconds_ =
          std::min(options_.first_call_seconds, options_.call_seconds + 2 * took.count());
      answered_ = true;
    }
    return std::move(std::get<ChildProcess::Reply>(reply).payload);
  }

 private:
  /// What does not keep to the protocol is not waited for.
  void drop() {
    child_->end();
    child_.reset();
  }

  std::vector<std::string> argv_;
  SubjectOptions options_;
  double first_seconds_;
  bool answered_ = false;  // the process that runs now
  std::unique_ptr<ChildProcess> child_;
};

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

class ProcessAttention final : public AttentionSubject {
 public:
  ProcessAttention(std::string name, Domain domain, std::unique_ptr<SubjectProcess> process)
      : name_(std::move(name)), domain_(std::move(domain)), process_(std::move(process)) {}

  std::string name() const override { return name_; }
  Domain domain() const override { return domain_; }

  AttentionReply attend(const AttentionProblem& problem) override {
    bool inputs_changed = false;
    const auto accept = [&](const Line& line) -> Result<Index> {
      if (const auto key = line.unknown({"bytes", "inputs_changed"})) return no_such_key(*key);
      inputs_changed = line.find("inputs_changed").has_value();
      return expected_bytes(line, answer_bytes(problem, domain_.dtype), "what was asked for");
    };
    auto payload = process_->ask(format_question(problem, domain_), accept);
    if (auto* refusal = std::get_if<Refusal>(&payload)) return std::move(*refusal);
    AttentionAnswer answer = parse_answer(problem, std::get<std::string>(payload), domain_);
    answer.inputs_changed = inputs_changed;
    return answer;
  }

 private:
  std::string name_;
  Domain domain_;
  std::unique_ptr<SubjectProcess> process_;
};

class ProcessHead final : public Subject {
 public:
  ProcessHead(std::string name, Domain domain, std::unique_ptr<SubjectProcess> process)
      : name_(std::move(name)), domain_(std::move(domain)), process_(std::move(process)) {}

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
    auto payload = process_->ask(format_question(problem), accept);
    if (auto* refusal = std::get_if<Refusal>(&payload)) return Error{std::move(refusal->why)};
    return parse_answer(problem, std::get<std::string>(payload), with_weights);
  }

 private:
  std::string name_;
  Domain domain_;
  std::unique_ptr<SubjectProcess> process_;
};

}  // namespace

Result<OpenedSubject> start_subject(std::string name, std::vector<std::string> argv,
                                    const SubjectOptions& options) {
  const bool whole_head = name.starts_with("head:");
  auto process = std::make_unique<SubjectProcess>(std::move(argv), options);
  auto started = process->start();
  if (auto* refusal = std::get_if<Refusal>(&started)) return Error{name + ": " + refusal->why};
  auto& hello = std::get<Hello>(started);
  if (hello.whole_head != whole_head) {
    return Error{name + (hello.whole_head ? ": it is a whole head; write head: before its name"
                                          : ": it is no whole head; write its name without head:")};
  }
  if (!hello.name.empty()) name += " (" + hello.name + ")";
  OpenedSubject opened;
  if (whole_head) {
    opened.head =
        std::make_unique<ProcessHead>(std::move(name), std::move(hello.domain), std::move(process));
  } else {
    opened.attention = std::make_unique<ProcessAttention>(std::move(name), std::move(hello.domain),
                                                          std::move(process));
  }
  return opened;
}

}  // namespace headproof
