// A program that is asked questions over a pipe, under limits.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "headproof/attention_subject.h"
#include "headproof/result.h"

namespace headproof {

class ChildProcess {
 public:
  /// Starts the program argv[0], looked for in PATH, without a shell, in a process group of its
  /// own. Its stdin and stdout are the pipe; what it writes to stderr goes on to ours, up to a
  /// limit.
  static Result<std::unique_ptr<ChildProcess>> start(const std::vector<std::string>& argv);

  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  /// Closes the pipe, so that it may end, then makes it end.
  ~ChildProcess();

  struct Reply {
    std::string line, payload;
  };
  /// How many bytes follow the line of a reply; the refusal when it is no reply.
  using Follows = std::function<std::variant<Index, Refusal>(std::string_view line)>;

  /// Writes the question and reads the reply. After a refusal that `follows` did not give it is not
  /// to be asked again.
  std::variant<Reply, Refusal> ask(std::string_view question, double seconds,
                                   const Follows& follows);

  /// Ends it and what it has started, at once.
  void end();

 private:
  ChildProcess(pid_t pid, int to, int from, int errors)
      : pid_(pid), to_(to), from_(from), errors_(errors) {}

  void forward_errors();
  /// Whether it has ended within that time; its status is then known.
  bool ended_within(double seconds);
  Refusal gone(std::size_t bytes, Index of);
  std::string last_words();

  pid_t pid_;
  int to_, from_, errors_;
  int status_ = 0;
  bool ended_ = false;
  std::string received_;
  std::size_t forwarded_ = 0;
  std::string error_tail_;
};

/// While it lives, what a subject leaves behind, even in a session of its own, becomes a child of
/// this process when its parent ends. In the end all children are killed but those that were there
/// before. For a process that starts nothing but subjects.
class EndsDescendants {
 public:
  EndsDescendants();
  EndsDescendants(const EndsDescendants&) = delete;
  EndsDescendants& operator=(const EndsDescendants&) = delete;
  ~EndsDescendants();

 private:
  std::vector<pid_t> spared_;
};

}  // namespace headproof
