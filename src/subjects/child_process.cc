#include "subjects/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "subjects/protocol.h"

namespace headproof {
namespace {

using Clock = std::chrono::steady_clock;

/// What a process may print in all before the rest is left out.
constexpr std::size_t most_errors = 1 << 16;

struct Pipe {
  int read = -1, write = -1;
  /// Closed on exec, so that no child holds an end that is not its own.
  bool open() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    read = ends[0];
    write = ends[1];
    return true;
  }
};

void close_all(std::initializer_list<int> descriptors) {
  for (int descriptor : descriptors) {
    if (descriptor >= 0) ::close(descriptor);
  }
}

void make_non_blocking(int descriptor) {
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
#ifdef F_SETPIPE_SZ
  ::fcntl(descriptor, F_SETPIPE_SZ, 1 << 20);  // fewer turns; what is refused does no harm
#endif
}

/// While it lives, a pipe that is closed at its other end is an error of `write` in this thread and
/// no signal.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;
  ~WithoutSigpipe() {
    if (broken && ::sigismember(&before_, SIGPIPE) == 0) {
      const timespec at_once{};
      while (::sigtimedwait(&pipe_, nullptr, &at_once) == -1 && errno == EINTR) {
      }
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  bool broken = false;

 private:
  sigset_t pipe_{}, before_{};
};

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string seconds_text(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g s", seconds);
  return text.data();
}

}  // namespace

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const std::vector<std::string>& argv) {
  Pipe to, from, errors;
  if (!to.open() || !from.open() || !errors.open()) {
    const int why = errno;
    close_all({to.read, to.write, from.read, from.write, errors.read, errors.write});
    return Error{std::string("no pipe could be made: ") + std::strerror(why)};
  }
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, to.read, 0);
  ::posix_spawn_file_actions_adddup2(&actions, from.write, 1);
  ::posix_spawn_file_actions_adddup2(&actions, errors.write, 2);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int why =
      ::posix_spawnp(&pid, argv[0].c_str(), &actions, &attributes, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  close_all({to.read, from.write, errors.write});
  if (why != 0) {
    close_all({to.write, from.read, errors.read});
    return Error{"cannot start " + in_one_line(argv[0]) + ": " + std::strerror(why)};
  }
  for (int descriptor : {to.write, from.read, errors.read}) make_non_blocking(descriptor);
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, to.write, from.read, errors.read));
}

ChildProcess::~ChildProcess() {
  close_all({to_, from_});
  if (!ended_within(1)) end();
  forward_errors();
  close_all({errors_});
}

void ChildProcess::end() {
  if (ended_) return;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, &status_, 0) == -1 && errno == EINTR) {
  }
  ended_ = true;
}

bool ChildProcess::ended_within(double seconds) {
  const auto start = Clock::now();
  std::chrono::microseconds wait(200);
  while (!ended_) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == pid_) {
      end();  // what it has started is of no use without it
    } else if (since(start) >= seconds) {
      break;
    } else {
      std::this_thread::sleep_for(wait);
      wait = std::min(2 * wait, std::chrono::microseconds(10000));
    }
  }
  return ended_;
}

void ChildProcess::forward_errors() {
  std::array<char, 4096> part{};
  ssize_t got = 0;
  while ((got = ::read(errors_, part.data(), part.size())) > 0) {
    const auto size = static_cast<std::size_t>(got);
    const std::size_t shown = std::min(size, most_errors - forwarded_);
    if (shown > 0) {
      [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, part.data(), shown);
      forwarded_ += shown;
      if (forwarded_ == most_errors) {
        constexpr std::string_view end = "\nheadproof: what else the subject prints is left out\n";
        [[maybe_unused]] const ssize_t said = ::write(STDERR_FILENO, end.data(), end.size());
      }
    }
    error_tail_.append(part.data(), size);
    if (error_tail_.size() > part.size()) error_tail_.erase(0, error_tail_.size() - part.size());
    if (size < part.size()) return;
  }
  if (got == 0) {  // it closed its end
    ::close(errors_);
    errors_ = -1;
  }
}

std::string ChildProcess::last_words() {
  forward_errors();
  std::string_view text = error_tail_;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  text = text.substr(text.rfind('\n') + 1);  // npos + 1 is 0
  return text.empty() ? "" : "; the last line on its stderr: " + in_one_line(text);
}

Refusal ChildProcess::gone(std::size_t bytes, Index of) {
  std::string answer = "before it answered";
  if (of > 0) {
    answer =
        "after " + std::to_string(bytes) + " of the " + std::to_string(of) + " bytes of its answer";
  }
  if (!ended_within(0.5)) {
    end();
    return {Refusal::Kind::failed, "the subject closed its output " + answer + last_words()};
  }
  if (WIFSIGNALED(status_)) {
    const int signal = WTERMSIG(status_);
    return {Refusal::Kind::crashed, "the subject's process was ended by signal " +
                                        std::to_string(signal) + " (" + ::strsignal(signal) + ") " +
                                        answer + last_words()};
  }
  return {Refusal::Kind::crashed, "the subject's process ended with exit status " +
                                      std::to_string(WEXITSTATUS(status_)) + " " + answer +
                                      last_words()};
}

std::variant<ChildProcess::Reply, Refusal> ChildProcess::ask(std::string_view question,
                                                             double seconds,
                                                             const Follows& follows) {
  const auto start = Clock::now();
  WithoutSigpipe guard;
  Reply reply;
  std::size_t line_end = std::string::npos;
  Index payload = 0;
  std::array<char, 1 << 16> part;  // NOLINT(cppcoreguidelines-pro-type-member-init): only read into
  const ssize_t early = ::read(from_, part.data(), part.size());
  if (early == 0) return gone(0, 0);
  if (early > 0 || !received_.empty()) {
    const std::size_t size =
        received_.size() + static_cast<std::size_t>(std::max<ssize_t>(early, 0));
    return Refusal{Refusal::Kind::failed, "the subject wrote at least " + std::to_string(size) +
                                              " bytes before it was asked"};
  }
  for (;;) {
    if (!question.empty()) {
      const ssize_t sent = ::write(to_, question.data(), question.size());
      if (sent > 0) question.remove_prefix(static_cast<std::size_t>(sent));
      if (sent < 0 && errno == EPIPE) {  // it may have answered, or has ended
        guard.broken = true;
        question = {};
      }
    }
    const double left = seconds - since(start);
    if (left <= 0) {
      end();
      return Refusal{Refusal::Kind::timed_out, "the subject gave no answer within " +
                                                   seconds_text(seconds) + " and was ended" +
                                                   last_words()};
    }
    std::array<pollfd, 3> wait = {
        {{from_, POLLIN, 0}, {errors_, POLLIN, 0}, {question.empty() ? -1 : to_, POLLOUT, 0}}};
    // Now and then the process itself is looked at: what it has started may hold its pipe open.
    const int slice = static_cast<int>(std::min(left, 0.1) * 1000) + 1;
    const int ready = ::poll(wait.data(), wait.size(), slice);
    if (ready == 0 && ended_within(0)) return gone(0, 0);
    if (wait[1].revents != 0) forward_errors();
    if (wait[0].revents == 0) continue;
    const ssize_t got = ::read(from_, part.data(), part.size());
    if (got < 0) continue;
    if (got == 0) {
      const bool in_payload = line_end != std::string::npos;
      return gone(in_payload ? received_.size() - line_end : 0, in_payload ? payload : 0);
    }
    received_.append(part.data(), static_cast<std::size_t>(got));
    if (line_end == std::string::npos) {
      const std::size_t newline = received_.find('\n');
      if (newline == std::string::npos && received_.size() <= longest_line) continue;
      reply.line = received_.substr(0, newline);
      auto size = newline == std::string::npos
                      ? std::variant<Index, Refusal>(
                            Refusal{Refusal::Kind::failed,
                                    "the subject wrote " + std::to_string(received_.size()) +
                                        " bytes without the end of a line: " +
                                        in_one_line(std::string_view(received_).substr(0, 40))})
                      : follows(reply.line);
      if (auto* refusal = std::get_if<Refusal>(&size)) {
        received_.erase(0, std::min(newline, received_.size() - 1) + 1);
        return *refusal;
      }
      payload = std::get<Index>(size);
      line_end = newline + 1;
    }
    const std::size_t end = line_end + static_cast<std::size_t>(payload);
    if (received_.size() < end) continue;
    if (received_.size() > end) {
      return Refusal{Refusal::Kind::failed,
                     "the subject wrote at least " + std::to_string(received_.size() - end) +
                         " bytes more than the " + std::to_string(payload) + " of its answer"};
    }
    reply.payload = received_.substr(line_end);
    received_.clear();
    return reply;
  }
}

namespace {

/// The children of this process.
std::vector<pid_t> children() {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    std::string text;
    std::getline(std::ifstream(entry.path() / "stat"), text);
    // "PID (NAME) STATE PARENT ...", and a name may hold anything.
    const std::size_t name_end = text.rfind(") ");
    if (name_end == text.npos || std::atoi(text.c_str() + name_end + 4) != ::getpid()) continue;
    found.push_back(std::atoi(text.c_str()));
  }
  return found;
}

}  // namespace

EndsDescendants::EndsDescendants() : spared_(children()) { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

EndsDescendants::~EndsDescendants() {
  for (bool any = true; any;) {  // the children of those that are killed become ours in turn
    any = false;
    for (const pid_t child : children()) {
      if (std::find(spared_.begin(), spared_.end(), child) != spared_.end()) continue;
      any = true;
      ::kill(child, SIGKILL);
      while (::waitpid(child, nullptr, 0) == -1 && errno == EINTR) {
      }
    }
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace headproof
