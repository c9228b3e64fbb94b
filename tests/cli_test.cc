// The command line as users meet it: help, exit codes, what is refused and with which sentence.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "command.h"
#include "headproof/theorems.h"

namespace headproof {
namespace {

using Cli = CommandTest;

constexpr const char* verbs[] = {"lecture", "theorems", "attend", "conform", "bench", "check"};

TEST_F(Cli, AloneOrAskedForHelpItListsItsVerbs) {
  const Ended alone = run("");
  EXPECT_EQ(alone.exit_code, 0);
  EXPECT_EQ(alone.err, "");
  for (const char* verb : verbs) EXPECT_NE(alone.out.find(verb), std::string::npos) << verb;
  for (const char* flag : {"--help", "-h"}) {
    EXPECT_EQ(run(flag).exit_code, 0) << flag;
    EXPECT_EQ(run(flag).out, alone.out) << flag;
  }
  EXPECT_TRUE(tree().empty());
}

TEST_F(Cli, EveryVerbHasHelp) {
  for (const char* verb : verbs) {
    const Ended help = run(std::string(verb) + " --help");
    EXPECT_EQ(help.exit_code, 0) << verb;
    EXPECT_NE(help.out.find("Usage: headproof " + std::string(verb)), std::string::npos) << verb;
    EXPECT_EQ(help.err, "") << verb;
  }
}

TEST_F(Cli, VersionNamesCompilerInstructionSetsAndThreads) {
  const Ended version = run("--version");
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_TRUE(std::regex_search(version.out, std::regex("^headproof \\d+\\.\\d+\\.\\d+\n")))
      << version.out;
  EXPECT_TRUE(std::regex_search(version.out, std::regex("built with (g\\+\\+|clang) \\d+")))
      << version.out;
  EXPECT_TRUE(std::regex_search(version.out, std::regex("instruction sets here: \\w+")))
      << version.out;
  EXPECT_TRUE(std::regex_search(version.out, std::regex("threads here: [1-9]\\d*\n")))
      << version.out;
}

TEST_F(Cli, WhatIsUnknownIsNamedWithTheWayOut) {
  expect_refused("\"$HEADPROOF\" conjure", {"conjure", "headproof --help"});
  expect_refused("\"$HEADPROOF\" --conjure", {"--conjure", "headproof --help"});
  expect_refused("\"$HEADPROOF\" lecture --conjure", {"--conjure", "headproof lecture --help"});
  expect_refused("\"$HEADPROOF\" lecture conjure", {"conjure", "headproof lecture --help"});
  expect_refused("\"$HEADPROOF\" lecture theorems", {"theorems"});
  expect_refused("\"$HEADPROOF\" attend --conjure --out x", {"--conjure"});
  expect_refused("\"$HEADPROOF\" theorems ex-7 ex-4", {"ex-4"});
}

TEST_F(Cli, AnEmptyArgumentIsNotTakenForAnAbsentOne) {
  for (const char* option : {"text", "seed", "out", "only", "dump"}) {
    const std::string flag = "--" + std::string(option);
    expect_refused("\"$HEADPROOF\" lecture " + flag + " ''", {flag + ": an empty argument"});
  }
  for (const char* option : {"q", "k", "v", "x", "weights", "scale", "d-out", "out"}) {
    const std::string flag = "--" + std::string(option);
    expect_refused("\"$HEADPROOF\" attend " + flag + " ''", {flag + ": an empty argument"});
  }
  for (const char* option : {"mask", "softcap", "query-offset", "window", "first-key"}) {
    const std::string flag = "--" + std::string(option);
    expect_refused("\"$HEADPROOF\" attend " + flag + " ''", {flag + ": an empty argument"});
  }
  expect_refused("\"$HEADPROOF\" conform ''", {"DIR: an empty argument"});
  expect_refused("\"$HEADPROOF\" lecture --format ''", {"--format"});
  expect_refused("\"$HEADPROOF\" attend --causal ''", {"--causal"});
  expect_refused("\"$HEADPROOF\" theorems ''", {"ID: an empty argument"});
}

TEST_F(Cli, AnOptionWithoutItsArgumentIsNamed) {
  expect_refused("\"$HEADPROOF\" lecture --seed", {"--seed"});
  expect_refused("\"$HEADPROOF\" lecture --seed 1 --seed 2", {"--seed"});
  expect_refused("\"$HEADPROOF\" attend --q q --k k --v v", {"--out", "required"});
}

TEST_F(Cli, AStandardOutputThatTakesNothingIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  for (const std::string arguments :
       {"", "--help", "--version", "theorems", "theorems ex-7", "theorems --markdown",
        "theorems --json", "lecture --only 4.1", "lecture --json"}) {
    for (const std::string target : {">/dev/full", ">&-"}) {
      const Ended ended = run(arguments + " " + target);
      EXPECT_EQ(ended.exit_code, 2) << arguments << target;
      const std::string sentence =
          "headproof: cannot write to the standard output: it is full or "
          "closed\n";
      // With --json alone the text of the lecture goes to stderr, before the sentence.
      EXPECT_TRUE(ended.err.ends_with(sentence)) << arguments << target << ": " << ended.err;
      if (arguments != "lecture --json") {
        EXPECT_EQ(ended.err, sentence) << arguments << target;
      }
    }
  }
}

TEST_F(Cli, AStandardErrorThatTakesNothingChangesNoExitCode) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  for (const std::string target : {"2>/dev/full", "2>&-"}) {
    EXPECT_EQ(run("lecture --text none " + target).exit_code, 2) << target;
    EXPECT_EQ(run("conjure " + target).exit_code, 2) << target;
    const Ended ended = run("lecture --json " + target);
    EXPECT_EQ(ended.exit_code, 0) << target;
    EXPECT_TRUE(nlohmann::json::accept(ended.out)) << target;
  }
}

TEST_F(Cli, AReaderThatLeavesEarlyHarmsNoFile) {
  const Ended whole = run("lecture --out whole");
  EXPECT_EQ(whole.exit_code, 0);
  EXPECT_EQ(tree("whole").size(), 7U);
  const Ended cut = shell("\"$HEADPROOF\" lecture --out cut | head -n 1");
  EXPECT_EQ(cut.out, whole.out.substr(0, whole.out.find('\n') + 1));
  EXPECT_EQ(cut.err, "");
  EXPECT_TRUE(tree("cut") == tree("whole"));
}

TEST_F(Cli, TheoremsListsEveryResult) {
  const Ended list = run("theorems");
  EXPECT_EQ(list.exit_code, 0);
  EXPECT_EQ(list.err, "");
  for (const Theorem& theorem : theorems()) {
    EXPECT_NE(("\n" + list.out).find("\n" + std::string(theorem.id) + " "), std::string::npos)
        << theorem.id;
  }
}

TEST_F(Cli, TheoremsShowsOneResultWhole) {
  for (const Theorem& theorem : theorems()) {
    const std::string id(theorem.id);
    const Ended one = run("theorems " + id);
    EXPECT_EQ(one.exit_code, 0) << id;
    EXPECT_TRUE(one.out.starts_with(id + " ")) << one.out;
    for (const char* part :
         {"\nStatement\n", "\nProof\n", "\nHow it is executed\n", "\nBound\n", "\nSource\n"}) {
      EXPECT_NE(one.out.find(part), std::string::npos) << id << part;
    }
    EXPECT_NE(one.out.find("mutant:" + std::string(theorem.breaks)), std::string::npos) << id;
  }
}

TEST_F(Cli, TheoremsNamesTheResultsWhenItIsAskedForAnother) {
  std::vector<std::string> named = {"prop-9.9"};
  for (const Theorem& theorem : theorems()) named.emplace_back(theorem.id);
  expect_refused("\"$HEADPROOF\" theorems prop-9.9", named);
  expect_refused("\"$HEADPROOF\" theorems prop-9.9 --json", named);
}

TEST_F(Cli, TheoremsAsJsonHoldsWhatTheRegistryHolds) {
  const Ended ended = run("theorems --json");
  EXPECT_EQ(ended.exit_code, 0);
  const auto document = nlohmann::json::parse(ended.out);
  EXPECT_EQ(document["schema_version"], 1);
  ASSERT_GT(document["theorems"].size(), theorems().size());  // those of the checker come after
  for (std::size_t i = 0; i < theorems().size(); ++i) {
    EXPECT_EQ(document["theorems"][i]["id"], theorems()[i].id);
    EXPECT_EQ(document["theorems"][i]["statement_tex"], theorems()[i].statement);
  }
  const auto one = nlohmann::json::parse(run("theorems ex-7 --json").out);
  ASSERT_EQ(one["theorems"].size(), 1U);
  EXPECT_EQ(one["theorems"][0]["id"], "ex-7");

  const Ended to_file = run("theorems --json 'a b/list.json'");
  EXPECT_EQ(to_file.exit_code, 0);
  EXPECT_EQ(to_file.out, "");
  EXPECT_EQ(content("a b/list.json"), ended.out);
  for (const char* stdout_name : {"-", "/dev/stdout"}) {
    EXPECT_EQ(run("theorems --json " + std::string(stdout_name)).out, ended.out) << stdout_name;
  }
}

TEST_F(Cli, TheoremsAsMarkdownAreAllOfThem) {
  const Ended ended = run("theorems --markdown");
  EXPECT_EQ(ended.exit_code, 0);
  for (const Theorem& theorem : theorems()) {
    EXPECT_NE(ended.out.find("\n## " + std::string(theorem.id) + ": "), std::string::npos);
    EXPECT_NE(ended.out.find(theorem.statement), std::string::npos) << theorem.id;
  }
  for (const MutantInfo& mutant : mutants()) {
    EXPECT_NE(ended.out.find("\n| `" + std::string(mutant.name) + "` | "), std::string::npos);
  }
  expect_refused("\"$HEADPROOF\" theorems ex-7 --markdown", {"--markdown"});
  expect_refused("\"$HEADPROOF\" theorems --json --markdown", {"--markdown", "--json"});
  expect_refused("\"$HEADPROOF\" theorems --json list.json --markdown", {"--markdown"});
}

}  // namespace
}  // namespace headproof
