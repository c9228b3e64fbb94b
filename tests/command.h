// Runs the headproof command as a user does, through the shell, and keeps what comes back.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "headproof/files.h"
#include "headproof/npy.h"

namespace headproof {

/// How a command ended: as the shell says it, 128 + the signal's number when one ended it.
struct Ended {
  int exit_code = -1;
  std::string out, err;
};

/// A test in an empty folder of its own, which is the current one of every command it runs.
class CommandTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "command_test.XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    folder_ = root_ / "folder";
    std::filesystem::create_directory(folder_);
    setenv("HEADPROOF", HEADPROOF_BINARY, 1);
    // What fontconfig keeps when a thread that drew text ends is no leak of the program.
    std::ofstream(root_ / "suppressions") << "leak:libfontconfig\n";
    const std::string options =
        "print_suppressions=0:suppressions=" + (root_ / "suppressions").string();
    setenv("LSAN_OPTIONS", options.c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  /// Runs a line of shell, in which "$HEADPROOF" is the program.
  Ended shell(const std::string& line) const {
    const std::string redirected =
        "cd '" + folder_.string() + "' && { " + line + "\n} >../out 2>../err </dev/null";
    const int status = std::system(redirected.c_str());
    return {WEXITSTATUS(status), read_file(root_ / "out").value(),
            read_file(root_ / "err").value()};
  }
  /// Runs headproof with arguments that are written as for the shell.
  Ended run(const std::string& arguments) const { return shell("\"$HEADPROOF\" " + arguments); }

  void write(const std::string& name, std::string_view bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  /// Writes `name`.npy.
  template <class T>
  void save(const std::string& name, std::vector<Index> shape, std::vector<T> values) const {
    Array array;
    array.shape = std::move(shape);
    array.values = std::move(values);
    write(name + ".npy", format_npy(array));
  }
  std::string content(const std::filesystem::path& name) const {
    return read_file(folder_ / name).value();
  }
  /// Everything below a folder: a folder's or link's name with "", a file's with its bytes.
  std::map<std::string, std::string> tree(const std::string& below = ".") const {
    std::map<std::string, std::string> found;
    const auto top = folder_ / below;
    if (!std::filesystem::exists(top)) return found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(top)) {
      const bool has_bytes = !entry.is_symlink() && entry.is_regular_file();
      found[entry.path().lexically_relative(top).string()] =
          has_bytes ? read_file(entry.path()).value() : "";
    }
    return found;
  }

  /// The command is used wrongly: exit code 2, nothing on stdout, one line on stderr in which every
  /// one of `named` occurs, and the folder is as it was.
  void expect_refused(const std::string& line, const std::vector<std::string>& named) const {
    SCOPED_TRACE(line);
    const auto before = tree();
    const Ended ended = shell(line);
    EXPECT_EQ(ended.exit_code, 2);
    EXPECT_EQ(ended.out, "");
    EXPECT_TRUE(ended.err.starts_with("headproof: ")) << ended.err;
    EXPECT_EQ(ended.err.find('\n'), ended.err.size() - 1) << ended.err;
    for (const std::string& part : named) {
      EXPECT_NE(ended.err.find(part), std::string::npos) << part << " is missing in " << ended.err;
    }
    EXPECT_TRUE(tree() == before) << "the folder has changed";
  }

  std::filesystem::path root_, folder_;
};

}  // namespace headproof
