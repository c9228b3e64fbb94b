// headproof check as users meet it: exit codes, flags, files, and what is refused.

#include <csignal>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "checker/testing.h"
#include "command.h"
#include "headproof/check.h"

namespace headproof {
namespace {

class CliCheck : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    setenv("FAULTY", HEADPROOF_EXAMPLES "/subjects/libfaulty.so", 1);
    setenv("FAULTS", HEADPROOF_EXAMPLES "/subjects/libfaults.so", 1);
    unsetenv("GITHUB_STEP_SUMMARY");
  }
  /// A check of few theorems and cases, so that it is quick.
  Ended check(const std::string& arguments) const {
    return run("check --theorem prop-5.1 --theorem num-accuracy --cases 12 " + arguments);
  }
};

constexpr const char* right = "builtin:reference ";
constexpr const char* faulty = "\"$FAULTY\" ";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(CliCheck, ARightSubjectHolds) {
  const Ended ended = check(right);
  EXPECT_EQ(ended.exit_code, 0) << ended.out;
  EXPECT_EQ(ended.err, "");
  EXPECT_TRUE(ended.out.starts_with("reference\n  accepts         float32, ")) << ended.out;
  EXPECT_TRUE(contains(ended.out, "\n  corner ")) << ended.out;
  EXPECT_TRUE(contains(ended.out, "\n2 theorems: 2 hold; seed 0")) << ended.out;
}

TEST_F(CliCheck, AFaultySubjectIsToldWithALineThatReplaysIt) {
  const Ended ended = check(faulty);
  EXPECT_EQ(ended.exit_code, 1) << ended.out << ended.err;
  EXPECT_TRUE(contains(ended.out, "✗ prop-5.1      violated")) << ended.out;
  EXPECT_TRUE(contains(ended.out, "2 queries, 2 keys")) << ended.out;
  std::smatch line;
  ASSERT_TRUE(std::regex_search(ended.out, line, std::regex("replay: headproof (.*)\n")));
  const Ended again = run(line[1]);
  EXPECT_EQ(again.exit_code, 1) << again.out << again.err;
  const auto example = [](const std::string& text) {
    const auto begin = text.find("the smallest counterexample found");
    return text.substr(begin, text.find("replay:", begin) - begin);
  };
  EXPECT_EQ(example(again.out), example(ended.out));
  EXPECT_TRUE(contains(again.out, "1 theorem: 1 violated")) << again.out;
}

TEST_F(CliCheck, ASubjectThatCrashesFails) {
  const Ended ended = check("\"$FAULTS:faults_crash_when_long\" --regime long");
  EXPECT_EQ(ended.exit_code, 3) << ended.out << ended.err;
  EXPECT_TRUE(contains(ended.out, "crashed")) << ended.out;
  EXPECT_TRUE(contains(ended.out, " --regime long --theorem prop-5.1 ")) << ended.out;
}

TEST_F(CliCheck, TheReportAppearsWhileTheSubjectIsAsked) {
  if (shell("${HEADPROOF_PYTHON:-python3} -c 'import numpy'").exit_code != 0) {
    GTEST_SKIP() << "Python has no NumPy";
  }
  write("subject.py", run("check --template python").out);
  write("spy.py",
        "import subject\n"
        "def f(q, k, v, is_causal=True):\n"
        "  with open('report') as report, open('seen', 'a') as seen: seen.write(report.read())\n"
        "  return subject.my_attention(q, k, v, is_causal)\n");
  shell(
      "\"$HEADPROOF\" check python:spy:f --theorem prop-3.1 --theorem prop-5.1 --cases 2 >report");
  EXPECT_TRUE(contains(content("seen"), "\n  scale ")) << content("report");
  EXPECT_TRUE(contains(content("seen"), "✓ prop-3.1")) << content("report");
  EXPECT_FALSE(contains(content("seen"), "✓ prop-5.1")) << content("report");
}

TEST_F(CliCheck, WhatIsNoneIsRefusedWithAListOfWhatThereIs) {
  const auto refused = [&](const std::string& arguments, const std::vector<std::string>& named) {
    expect_refused("\"$HEADPROOF\" check " + arguments, named);
  };
  refused("", {"SUBJECT", "--template"});
  refused("nothing", {"nothing", "builtin:NAME"});
  refused("builtin:nothing", {"builtin:nothing", "reference"});
  refused("./nothing.so", {"./nothing.so"});
  refused("builtin:reference --theorem prop-9.9", {"prop-9.9", "prop-5.1", "num-accuracy"});
  refused("builtin:reference --regime odd", {"odd", "gaussian", "long"});
  refused("builtin:reference --seed x", {"--seed x"});
  refused("builtin:reference --seconds 0", {"--seconds 0"});
  refused("builtin:reference --seconds nan", {"--seconds nan"});
  refused("builtin:reference --call-seconds -1", {"--call-seconds -1"});
  refused("builtin:reference --cases 0", {"--cases 0"});
  refused("builtin:reference --case -1", {"--case"});
  refused("builtin:reference --expect corner", {"--expect corner", "KEY=VALUE"});
  refused("builtin:reference --expect edge=top", {"edge", "corner", "bitwise.batch"});
  refused("builtin:reference --expect corner=top", {"top_left", "bottom_right"});
  refused("builtin:reference --expect scale=x", {"1/sqrt(head_dim)", "a number"});
  refused("builtin:reference --expect corner=top_left --expect corner=top_left", {"twice"});
  refused("builtin:reference --require speed", {"--require", "bitwise"});
  refused("builtin:reference --dtype int8", {"--dtype", "bfloat16"});
  refused("builtin:reference --layout sbhd", {"--layout", "bshd"});
  refused("builtin:reference --framework mxnet", {"--framework", "torch"});
  refused("builtin:reference --template c", {"--template", "SUBJECT"});
  refused("--template cobol", {"--template", "python"});
  refused("builtin:reference --strict", {"--strict", "--expected"});
  refused("builtin:reference --expected none", {"cannot read none"});
  write("known", "prop-5.1\nprop-9.9 # gone\n");
  refused("builtin:reference --expected known", {"line 2 of known", "prop-9.9", "prop-5.1"});
  write("known", "prop-5.1\n\nprop-5.1 # again\n");
  refused("builtin:reference --expected known", {"line 3 of known", "prop-5.1", "twice"});
}

TEST_F(CliCheck, OptionsThatSayNothingToASubjectAreRefused) {
  const auto refused = [&](const std::string& arguments, const std::vector<std::string>& named) {
    expect_refused("\"$HEADPROOF\" check " + arguments, named);
  };
  for (const char* option : {"--python python3", "--framework torch", "--device cpu",
                             "--dtype float32", "--layout bhsd"}) {
    const std::string flag(option, std::string_view(option).find(' '));
    refused(faulty + std::string(option), {flag + " is for Python callables", "libfaulty.so is"});
    refused(right + std::string(option), {flag + " is for Python callables"});
    refused("mutant:leak-one-pair " + std::string(option), {flag});
  }
  refused("mutant:leak-one-pair --call-seconds 2",
          {"--call-seconds is for subjects in processes of their own, and mutant:leak-one-pair"});
  refused("head:mutant:no-scale --first-call-seconds 2", {"--first-call-seconds"});
  for (const char* name : {"q", "k", "v", "out"}) save<float>(name, {1, 1}, {1});
  write("problem.json", R"({"causal": true})");
  refused("recorded:. --regime long", {"--regime is for subjects that may be asked anything"});
  // What is wrong with the subject is said first.
  refused("builtin:nothing --dtype float16", {"there is no builtin:nothing"});
  const Ended heeded = check(std::string(faulty) + "--call-seconds 2 --first-call-seconds 3");
  EXPECT_EQ(heeded.exit_code, 1) << heeded.err;
}

TEST_F(CliCheck, WhatASubjectLeavesBehindIsEndedAndNothingElse) {
  // A daemon in a session of its own whose parent has ended, and what it has started; and a child
  // of the checker's that was there before.
  write("daemon.sh", "echo $$ >> left\nsleep 300 &\necho $! >> left\nwait\n");
  write("subject.sh", "(setsid sh daemon.sh &)\nread -r line\nsleep 0.5\necho ok\n");
  write("run.sh",
        "sleep 300 &\necho $! > before\n"
        "exec \"$HEADPROOF\" check 'command:sh subject.sh' --identify\n");
  shell("sh run.sh");
  std::istringstream left(content("left")), before(content("before"));
  pid_t first = 0, second = 0, spared = 0;
  ASSERT_TRUE(left >> first >> second);
  ASSERT_TRUE(before >> spared);
  EXPECT_EQ(kill(first, 0), -1);
  EXPECT_EQ(kill(second, 0), -1);
  EXPECT_EQ(kill(spared, SIGKILL), 0);
}

TEST_F(CliCheck, KnownViolationsAreExpected) {
  write("known", "# what we know\r\n\nprop-5.1  # one key too many, issue 7\nnum-accuracy\n");
  const Ended ended = check(std::string(faulty) + "--expected known --strict");
  EXPECT_EQ(ended.exit_code, 0) << ended.out;
  EXPECT_TRUE(contains(ended.out, "~ prop-5.1      expected")) << ended.out;
  EXPECT_TRUE(contains(ended.out, "(one key too many, issue 7)")) << ended.out;
  EXPECT_TRUE(contains(ended.out, "2 theorems: 2 expected")) << ended.out;

  const Ended gone = check(std::string(right) + "--expected known");
  EXPECT_EQ(gone.exit_code, 0) << gone.out;
  EXPECT_TRUE(contains(gone.out, "prop-5.1 is listed as violated and holds")) << gone.out;
  EXPECT_EQ(check(std::string(right) + "--expected known --strict").exit_code, 1);
}

TEST_F(CliCheck, AnExpectedConventionIsCompared) {
  const Ended met = check(std::string(right) + "--expect corner=as_asked --expect lse_base=e");
  EXPECT_EQ(met.exit_code, 0) << met.out;
  EXPECT_TRUE(contains(met.out, "4 theorems: 4 hold")) << met.out;
  const Ended other = check(std::string(right) + "--identify --expect lse_base=2");
  EXPECT_EQ(other.exit_code, 1) << other.out;
  EXPECT_TRUE(contains(other.out, "lse_base is e, and 2 was expected")) << other.out;
}

TEST_F(CliCheck, IdentifyStopsAfterTheConventions) {
  const Ended ended = run("check builtin:reference --identify");
  EXPECT_EQ(ended.exit_code, 0) << ended.out;
  EXPECT_TRUE(contains(ended.out, "kv_map")) << ended.out;
  EXPECT_FALSE(contains(ended.out, "prop-5.1")) << ended.out;
  EXPECT_FALSE(contains(ended.out, " theorem")) << ended.out;
}

TEST_F(CliCheck, JsonGoesToAFileOrToStdout) {
  const Ended ended = check(std::string(faulty) + "--json");
  EXPECT_EQ(ended.exit_code, 1);
  const auto document = nlohmann::json::parse(ended.out);
  EXPECT_EQ(document["schema_version"], 1);
  EXPECT_EQ(document["theorems"].size(), 2U);
  EXPECT_TRUE(contains(ended.err, "2 theorems: 2 violated")) << ended.err;
  const Ended to_file = check(std::string(faulty) + "--json 'a b/report.json'");
  EXPECT_TRUE(contains(to_file.out, "2 theorems: 2 violated"));
  auto other = nlohmann::json::parse(content("a b/report.json"));
  other["seconds"] = document["seconds"];
  EXPECT_EQ(other, document);
}

TEST_F(CliCheck, JunitAndPageAreWritten) {
  const Ended ended = check(std::string(faulty) + "--junit report.xml --html report.html");
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_EQ(xml_fault(content("report.xml")), "");
  EXPECT_TRUE(contains(content("report.xml"), "tests=\"2\" failures=\"2\" errors=\"0\""));
  EXPECT_TRUE(content("report.html").starts_with("<!doctype html>"));
  EXPECT_TRUE(contains(content("report.html"), "class=\"wrong\""));
  const Ended nowhere = check(std::string(right) + "--junit /dev/null/report.xml");
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_TRUE(contains(nowhere.err, "cannot write /dev/null/report.xml")) << nowhere.err;
}

TEST_F(CliCheck, OnGitHubTheStepSummaryGetsATable) {
  write("summary.md", "before\n");
  const Ended ended = shell(
      "GITHUB_STEP_SUMMARY=summary.md \"$HEADPROOF\" check --cases 12 "
      "--theorem prop-5.1 " +
      std::string(faulty));
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_TRUE(content("summary.md").starts_with("before\n### headproof check "));
  EXPECT_TRUE(contains(content("summary.md"), "\n| prop\\-5.1 | ❌ violated | exact | "));
}

TEST_F(CliCheck, ATemplateIsASubject) {
  for (const char* language : {"c", "cpp", "python", "pipe"}) {
    const Ended ended = run("check --template " + std::string(language));
    EXPECT_EQ(ended.exit_code, 0) << language;
    EXPECT_TRUE(contains(ended.out, "headproof")) << language;
  }
}

TEST_F(CliCheck, ColoursAndProgressAreForTerminals) {
  const Ended ended = check(std::string(faulty) + " 2>&1");
  EXPECT_FALSE(contains(ended.out, "\x1b"));
  if (std::system("script --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no script(1)";
  const std::string command =
      "script -qec '\"$HEADPROOF\" check --cases 12 --theorem prop-5.1 \"$FAULTY\"' /dev/null";
  EXPECT_TRUE(contains(shell("unset NO_COLOR; " + command).out, "\x1b[31;1m"));
  EXPECT_FALSE(contains(shell("NO_COLOR=1 " + command).out, "\x1b[31;1m"));
}

TEST_F(CliCheck, ASeedDecidesWhatIsDrawn) {
  const auto counted = [&](const std::string& seed) {
    auto document = nlohmann::json::parse(check(std::string(faulty) + "--json --seed " + seed).out);
    document.erase("seconds");
    return document;
  };
  EXPECT_EQ(counted("3"), counted("3"));
  EXPECT_NE(counted("3")["theorems"], counted("4")["theorems"]);
}

}  // namespace
}  // namespace headproof
