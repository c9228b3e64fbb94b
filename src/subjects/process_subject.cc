#include "subjects/process_subject.h"

#include <chrono>
#include <functional>
#include <utility>
#include <variant>

#include "subjects/child_process.h"
#include "subjects/protocol_subject.h"

namespace headproof {
namespace {

/// A program that answers questions, started when it is needed.
class SubjectProcess final : public Answerer {
 public:
  SubjectProcess(std::vector<std::string> argv, const SubjectOptions& options)
      : argv_(std::move(argv)), options_(options), first_seconds_(options.first_call_seconds) {}

  /// Starts it unless it runs.
  std::variant<Hello, Refusal> start() override {
    auto child = ChildProcess::start(argv_);
    if (!child) return Refusal{Refusal::Kind::crashed, child.error().message};
    child_ = std::move(*child);
    answered_ = false;
    Hello hello;
    const auto follows = [&](std::string_view text) -> std::variant<Index, Refusal> {
      auto said = hello_of(Line(text));
      if (auto* refusal = std::get_if<Refusal>(&said)) return *refusal;
      hello = std::move(std::get<Hello>(said));
      return Index{0};
    };
    auto reply = child_->ask(hello_question(), first_seconds_, follows);
    if (auto* refusal = std::get_if<Refusal>(&reply)) {
      drop();
      return *refusal;
    }
    return hello;
  }

  /// The line of the reply as `accept` takes it, which says how many bytes follow, and these bytes.
  std::variant<std::string, Refusal> ask(
      std::string_view question, const std::function<Result<Index>(const Line&)>& accept) override {
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

}  // namespace

Result<OpenedSubject> start_subject(std::string name, std::vector<std::string> argv,
                                    const SubjectOptions& options) {
  return protocol_subject(std::move(name),
                          std::make_unique<SubjectProcess>(std::move(argv), options));
}

}  // namespace headproof
