#include "headproof/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <set>

namespace headproof {
namespace {

namespace fs = std::filesystem;

/// A folder of its own for each test.
class Files : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "files_test.XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, std::string_view bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  std::string content(const std::string& name) const {
    const Result<std::string> bytes = read_file(folder_ / name);
    return bytes ? *bytes : "no " + name;
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      found.insert(entry.path().filename().string());
    }
    return found;
  }
  /// The error of `status` without "cannot VERB FILE: ", or what came instead.
  template <class T>
  static std::string reason(const Result<T>& result, const std::string& verb,
                            const fs::path& file) {
    if (result) return "no error";
    const std::string start = "cannot " + verb + " " + file.string() + ": ";
    const std::string& message = result.error().message;
    return message.starts_with(start) ? message.substr(start.size()) : message;
  }

  fs::path folder_;
};
using Names = std::set<std::string>;

TEST_F(Files, ReadsEveryByte) {
  std::string bytes(200'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  for (const std::size_t size : {0UL, 1UL, 65'535UL, 65'536UL, 65'537UL, 200'000UL}) {
    write("a", std::string_view(bytes).substr(0, size));
    EXPECT_EQ(content("a"), bytes.substr(0, size)) << size;
  }
}

TEST_F(Files, ReadingSaysWhichFileAndWhy) {
  EXPECT_EQ(reason(read_file(folder_ / "absent"), "read", folder_ / "absent"),
            "No such file or directory");
  EXPECT_EQ(reason(read_file(folder_), "read", folder_), "Is a directory");
}

TEST_F(Files, AppearOnlyAtCommit) {
  OutputFiles files;
  ASSERT_TRUE(files.add(folder_ / "a", "one"));
  ASSERT_TRUE(files.add(folder_ / "b", std::string("two\0\n", 5)));
  EXPECT_FALSE(fs::exists(folder_ / "a"));
  EXPECT_FALSE(fs::exists(folder_ / "b"));
  ASSERT_TRUE(files.commit());
  EXPECT_EQ(names(), (Names{"a", "b"}));
  EXPECT_EQ(content("a"), "one");
  EXPECT_EQ(content("b"), std::string("two\0\n", 5));
}

TEST_F(Files, WithoutCommitNothingIsLeftOrChanged) {
  write("old", "old");
  {
    OutputFiles files;
    ASSERT_TRUE(files.add(folder_ / "old", "new"));
    ASSERT_TRUE(files.add(folder_ / "new/deep/er/b", "two"));
    ASSERT_TRUE(files.add(folder_ / "new/c", "three"));
  }
  EXPECT_EQ(names(), Names{"old"});
  EXPECT_EQ(content("old"), "old");
}

TEST_F(Files, NewFoldersStayAfterCommit) {
  {
    OutputFiles files;
    ASSERT_TRUE(files.add(folder_ / "new/deep/b", "two"));
    ASSERT_TRUE(files.commit());
  }
  EXPECT_EQ(content("new/deep/b"), "two");
}

TEST_F(Files, ANewFolderInWhichSomethingElseAppearedStays) {
  {
    OutputFiles files;
    ASSERT_TRUE(files.add(folder_ / "new/b", "two"));
    write("new/mine", "mine");
  }
  EXPECT_EQ(names(), Names{"new"});
  EXPECT_EQ(content("new/mine"), "mine");
}

TEST_F(Files, ReplaceKeepsThePermissionsOfTheOldFile) {
  write("a", "a long old content");
  fs::permissions(folder_ / "a", fs::perms::owner_read | fs::perms::owner_write);
  OutputFiles files;
  ASSERT_TRUE(files.add(folder_ / "a", "new"));
  ASSERT_TRUE(files.commit());
  EXPECT_EQ(names(), Names{"a"});
  EXPECT_EQ(content("a"), "new");
  EXPECT_EQ(fs::status(folder_ / "a").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(Files, ARenameThatFailsHalfWayBringsTheOldFilesBack) {
  write("a", "old");
  {
    OutputFiles files;
    ASSERT_TRUE(files.add(folder_ / "a", "new"));
    ASSERT_TRUE(files.add(folder_ / "b", "new"));
    ASSERT_TRUE(files.add(folder_ / "c", "new"));
    ASSERT_TRUE(files.add(folder_ / "d", "new"));
    fs::create_directory(folder_ / "c");  // A file cannot be renamed to a folder's name.
    EXPECT_EQ(reason(files.commit(), "write", folder_ / "c"), "Is a directory");
    EXPECT_EQ(content("a"), "old");
  }
  EXPECT_EQ(names(), (Names{"a", "c"}));
  EXPECT_EQ(content("a"), "old");
  EXPECT_TRUE(fs::is_directory(folder_ / "c"));
}

TEST_F(Files, ASymbolicLinkKeepsPointing) {
  fs::create_directory(folder_ / "place");
  write("place/target", "old");
  fs::create_symlink("place/target", folder_ / "link");
  fs::create_symlink("place/not yet", folder_ / "dangling");
  fs::create_symlink("dangling", folder_ / "chain");
  OutputFiles files;
  ASSERT_TRUE(files.add(folder_ / "link", "one"));
  ASSERT_TRUE(files.add(folder_ / "chain", "two"));
  ASSERT_TRUE(files.commit());
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "dangling"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "chain"));
  EXPECT_EQ(content("place/target"), "one");
  EXPECT_EQ(content("place/not yet"), "two");
  EXPECT_EQ(names(), (Names{"place", "link", "dangling", "chain"}));
}

TEST_F(Files, ALoopOfSymbolicLinksIsAnError) {
  fs::create_symlink("b", folder_ / "a");
  fs::create_symlink("a", folder_ / "b");
  OutputFiles files;
  EXPECT_EQ(reason(files.add(folder_ / "a", "x"), "write", folder_ / "a"),
            "Too many levels of symbolic links");
}

TEST_F(Files, APlaceThatCannotHoldAFileIsNamed) {
  write("file", "x");
  fs::create_directory(folder_ / "folder");
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  const Names before = names();
  const auto refusal = [&](const fs::path& file) {
    OutputFiles files;
    return reason(files.add(file, "x"), "write", file);
  };
  EXPECT_EQ(refusal(folder_ / "folder"), "it is a folder");
  EXPECT_EQ(refusal(folder_ / "folder/"), "it names a folder, not a file");
  EXPECT_EQ(refusal(folder_ / "absent/.."), "it names a folder, not a file");
  EXPECT_EQ(refusal(""), "it names a folder, not a file");
  EXPECT_EQ(refusal(folder_ / "file/below"), "Not a directory");
  EXPECT_EQ(refusal(folder_ / "file/below/deep"), "Not a directory");
  EXPECT_EQ(refusal(folder_ / std::string(256, 'n')), "File name too long");
  EXPECT_EQ(refusal(folder_ / "pipe"),
            "it is not an ordinary file, so it cannot be replaced as a whole");
  EXPECT_EQ(names(), before);
}

TEST_F(Files, TheLongestNameIsFine) {
  const std::string name(255, 'n');
  OutputFiles files;
  ASSERT_TRUE(files.add(folder_ / name, "x"));
  ASSERT_TRUE(files.commit());
  EXPECT_EQ(content(name), "x");
}

TEST_F(Files, TwoOutputsOfOneNameAreRefused) {
  OutputFiles files;
  ASSERT_TRUE(files.add(folder_ / "a", "x"));
  const fs::path again = folder_ / "." / "a";
  EXPECT_EQ(reason(files.add(again, "y"), "write", again), "another output has the same name");
  ASSERT_TRUE(files.commit());
  EXPECT_EQ(content("a"), "x");
}

TEST_F(Files, ARelativeNameIsThatOfTheFolderAtAdd) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  OutputFiles files;
  const bool added = files.add("a", "x").has_value();
  fs::current_path(before);
  ASSERT_TRUE(added);
  ASSERT_TRUE(files.commit());
  EXPECT_EQ(content("a"), "x");
}

TEST_F(Files, TwoSetsAtOnceDoNotMix) {
  OutputFiles one, two;
  ASSERT_TRUE(one.add(folder_ / "a", "one"));
  ASSERT_TRUE(two.add(folder_ / "a", "two"));
  ASSERT_TRUE(two.commit());
  EXPECT_EQ(content("a"), "two");
  ASSERT_TRUE(one.commit());
  EXPECT_EQ(content("a"), "one");
  EXPECT_EQ(names(), Names{"a"});
}

TEST_F(Files, AProtectedFileOrFolderIsAnError) {
  fs::create_directory(folder_ / "protected");
  fs::permissions(folder_ / "protected", fs::perms(0555));
  write("a", "old");
  fs::permissions(folder_ / "a", fs::perms(0444));
  fs::permissions(folder_, fs::perms::all);
  // Root may write everywhere, so root looks with the eyes of nobody.
  const bool is_root = geteuid() == 0;
  if (is_root) {
    ASSERT_EQ(seteuid(65'534), 0);
  }
  for (const std::string name : {"a", "protected/b", "protected/c/d"}) {
    OutputFiles files;
    EXPECT_EQ(reason(files.add(folder_ / name, "new"), "write", folder_ / name),
              "Permission denied");
  }
  if (is_root) {
    ASSERT_EQ(seteuid(0), 0);
  }
}

TEST_F(Files, NoRoomLeftIsAnErrorAndLeavesNothing) {
  write("a", "old");
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{100'000, limit.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  {
    OutputFiles files;
    ASSERT_TRUE(files.add(folder_ / "b", "fits"));
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const Status status = files.add(folder_ / "a", std::string(150'000, 'x'));
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_EQ(reason(status, "write", folder_ / "a"), "File too large");
  }
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(names(), Names{"a"});
  EXPECT_EQ(content("a"), "old");
}

}  // namespace
}  // namespace headproof
