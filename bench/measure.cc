// Wall time and memory of a command as a whole, from its start to its end:
//
//   headproof_measure RUNS COMMAND [ARGUMENT...]
//
// The command runs once to warm up and then RUNS times, its standard output thrown away. This is a
// program of its own because the kernel counts the memory of the process that starts a command
// among the command's: it must be small.

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

int main(int argc, char** argv) {
  const int runs = argc > 2 ? std::atoi(argv[1]) : 0;
  if (runs < 1) {
    std::fputs("usage: headproof_measure RUNS COMMAND [ARGUMENT...]\n", stderr);
    return 2;
  }
  posix_spawn_file_actions_t silent;
  posix_spawn_file_actions_init(&silent);
  posix_spawn_file_actions_addopen(&silent, 1, "/dev/null", O_WRONLY, 0);

  std::vector<double> milliseconds;
  double largest_mebibytes = 0;
  for (int run = 0; run <= runs; ++run) {
    const auto start = std::chrono::steady_clock::now();
    pid_t child = 0;
    if (const int error = posix_spawnp(&child, argv[2], &silent, nullptr, argv + 2, environ)) {
      std::fprintf(stderr, "headproof_measure: cannot run %s: %s\n", argv[2], std::strerror(error));
      return 2;
    }
    int status = 0;
    rusage usage{};
    wait4(child, &status, 0, &usage);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      std::fprintf(stderr, "headproof_measure: %s failed\n", argv[2]);
      return 3;
    }
    largest_mebibytes = std::max(largest_mebibytes, static_cast<double>(usage.ru_maxrss) / 1024);
    if (run > 0) milliseconds.push_back(time.count());
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  std::printf(
      "%d runs: median %.0f ms, fastest %.0f ms, slowest %.0f ms; largest memory %.1f MiB\n", runs,
      milliseconds[milliseconds.size() / 2], milliseconds.front(), milliseconds.back(),
      largest_mebibytes);
}
