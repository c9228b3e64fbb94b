// Subjects in processes of their own: what they answer, and what is said of those that don't.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "headproof/check.h"
#include "headproof/files.h"
#include "headproof/npy.h"
#include "headproof/random.h"
#include "subjects/open.h"
#include "theorems/attention_oracle.h"
#include "theorems/attention_theorem.h"

namespace headproof {
namespace {

class Processes : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "process_test.XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    setenv("PYTHONPATH", folder.c_str(), 1);
    setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    // A crash under a sanitizer ends as it does without, and what a subject keeps is its own.
    setenv("ASAN_OPTIONS", "handle_segv=0:handle_abort=0:detect_leaks=0", 1);
    setenv("UBSAN_OPTIONS", "handle_segv=0:handle_abort=0", 1);
    setenv("TSAN_OPTIONS", "handle_segv=0:handle_abort=0", 1);
#ifdef HEADPROOF_BINARY
    options.program = HEADPROOF_BINARY;
#else
    GTEST_SKIP() << "the command is not built";
#endif
    if (const char* named = std::getenv("HEADPROOF_PYTHON")) options.python = named;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void write(const std::string& name, std::string_view text) const {
    std::ofstream(folder / name, std::ios::binary) << text;
  }

  static std::string library(const std::string& name) {
    return HEADPROOF_EXAMPLES "/subjects/lib" + name;
  }
  /// The subject tests/subjects/faults.cc has under that name.
  static std::string fault(const std::string& name) { return library("faults.so:faults_" + name); }
  /// A subject on the pipe as a shell script; `$line` is the question after the hello.
  static std::string script(const std::string& answer) {
    return "command:sh -c 'read -r line; echo ok; read -r line; " + answer + "'";
  }

  std::unique_ptr<AttentionSubject> open(const std::string& name) const {
    auto opened = open_subject(name, options);
    if (!opened) {
      ADD_FAILURE() << opened.error().message;
      return builtin_attention("reference");
    }
    EXPECT_NE(opened->attention, nullptr);
    return std::move(opened->attention);
  }

  void expect_error(const std::string& name, const std::string& part) const {
    SCOPED_TRACE(name);
    const auto opened = open_subject(name, options);
    ASSERT_FALSE(opened.has_value());
    EXPECT_NE(opened.error().message.find(part), std::string::npos) << opened.error().message;
    EXPECT_EQ(opened.error().message.find('\n'), std::string::npos) << opened.error().message;
  }

  static void expect_refused(const AttentionReply& reply, Refusal::Kind kind,
                             const std::string& part) {
    const auto* refusal = std::get_if<Refusal>(&reply);
    ASSERT_NE(refusal, nullptr) << "there is an answer instead of: " << part;
    EXPECT_EQ(refusal->kind, kind) << refusal->why;
    EXPECT_NE(refusal->why.find(part), std::string::npos) << refusal->why;
    EXPECT_EQ(refusal->why.find('\n'), std::string::npos) << refusal->why;
  }

  bool has_python_module(const std::string& module) const {
    const std::string line = options.python + " -c 'import " + module + "' 2>/dev/null";
    return std::system(line.c_str()) == 0;
  }

  std::filesystem::path folder;
  SubjectOptions options;
};

AttentionProblem draw(Index seq_len_q, Index seq_len_k, Index head_dim, Index value_dim,
                      Index heads = 2, Index kv_heads = 2) {
  Generator generator(7);
  AttentionProblem problem;
  problem.q = generator.randn(2, heads, seq_len_q, head_dim);
  problem.k = generator.randn(2, kv_heads, seq_len_k, head_dim);
  problem.v = generator.randn(2, kv_heads, seq_len_k, value_dim);
  return problem;
}
AttentionProblem plain() { return draw(3, 3, 4, 4); }

/// The answer's out is that of the definition within its bound.
void expect_right(const AttentionReply& reply, const AttentionProblem& problem,
                  const Domain& domain) {
  const auto* answer = std::get_if<AttentionAnswer>(&reply);
  ASSERT_NE(answer, nullptr) << std::get<Refusal>(reply).why;
  const AttentionOracle oracle(problem, domain, {});
  ASSERT_EQ(answer->out.shape(), oracle.stages.out.shape());
  auto got = answer->out.begin();
  auto bound = oracle.out_error.begin();
  for (double expected : oracle.stages.out) EXPECT_NEAR(*got++, expected, *bound++);
  EXPECT_FALSE(answer->inputs_changed);
}

template <std::size_t Rank>
void expect_same(const Tensor<double, Rank>& a, const Tensor<double, Rank>& b) {
  ASSERT_EQ(a.shape(), b.shape());
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), same_bits));
}

/// Every option once, and all results that `fused` gives.
std::vector<AttentionProblem> problems_with_options() {
  std::vector<AttentionProblem> all(9, draw(3, 5, 4, 2, 4, 2));
  all[0].causal = Causal::bottom_right;
  all[0].scale = 0.1;
  all[1].query_offset = 1;
  all[1].window = 2;
  all[1].strided = true;
  all[2].softcap = 1.25;
  all[2].key_length = {2, 5};
  all[3].causal = Causal::none;
  all[3].mask = Tensor<bool, 4>({1, 4, 3, 5});
  for (Index at = 0; at < all[3].mask->size(); ++at) all[3].mask->data()[at] = at % 3 != 0;
  all[4].bias = Generator(9).randn(2, 1, 1, 5);
  all[5].d_out = Generator(9).randn(2, 4, 3, 2);
  all[5].want_lse = true;
  all[6].q = Tensor<float, 4>({0, 4, 3, 4});
  all[6].k = Tensor<float, 4>({0, 2, 5, 4});
  all[6].v = Tensor<float, 4>({0, 2, 5, 2});
  all[7].v.data()[3] = std::numeric_limits<float>::quiet_NaN();
  all[7].v.data()[4] = std::numeric_limits<float>::infinity();
  all[7].v.data()[5] = -0.0F;
  all[8].strided = all[8].strided_channels = true;
  for (Index b = 0; b < 2; ++b) {  // heads that are equal, and so may be one
    for (auto* tensor : {&all[1].k, &all[8].k, &all[8].v}) {
      std::copy_n((*tensor)[b][0].data, 5 * tensor->shape()[3], (*tensor)[b][1].data);
    }
  }
  return all;
}

// A library that hands every question on to headproof's own kernel has the kernel's bits, whatever
// the options: nothing gets lost on the way.
TEST_F(Processes, LibraryHasTheKernelsBits) {
  for (const char* name : {"right", "bshd"}) {
    SCOPED_TRACE(name);
    const auto subject = open(fault(name)), fused = builtin_attention("fused");
    for (const AttentionProblem& problem : problems_with_options()) {
      const auto got = subject->attend(problem), expected = fused->attend(problem);
      ASSERT_TRUE(std::holds_alternative<AttentionAnswer>(got)) << std::get<Refusal>(got).why;
      const auto& a = std::get<AttentionAnswer>(got);
      const auto& b = std::get<AttentionAnswer>(expected);
      expect_same(a.out, b.out);
      EXPECT_FALSE(a.inputs_changed);
      ASSERT_EQ(a.lse.has_value(), b.lse.has_value());
      if (a.lse) expect_same(*a.lse, *b.lse);
      ASSERT_EQ(a.gradients.has_value(), b.gradients.has_value());
      if (!a.gradients) continue;
      expect_same(a.gradients->d_q, b.gradients->d_q);
      expect_same(a.gradients->d_k, b.gradients->d_k);
      expect_same(a.gradients->d_v, b.gradients->d_v);
    }
  }
  const auto wide = open(fault("double_bshd"));
  EXPECT_EQ(wide->domain().dtype, Dtype::float64);
  EXPECT_EQ(wide->domain().layout, Layout::bshd);
  for (const AttentionProblem& problem : problems_with_options()) {
    if (!std::isnan(problem.v.size() > 3 ? problem.v.data()[3] : 0)) {
      expect_right(wide->attend(problem), problem, wide->domain());
    }
  }
}

TEST_F(Processes, LibraryDeclaresItsDomain) {
  const Domain domain = open(fault("picky"))->domain();
  EXPECT_EQ(domain.head_dims, (std::vector<Index>{16, 32}));
  EXPECT_EQ(domain.length_multiple, 16);
  EXPECT_EQ(domain.max_length, 4096);
  EXPECT_TRUE(domain.features.has(Feature::lse));
  EXPECT_FALSE(domain.features.has(Feature::weights));
  EXPECT_NE(open(fault("picky"))->name().find("picky_one"), std::string::npos);
}

// Half-precision numbers reach a library as they are, and come back as they are.
TEST_F(Processes, LibraryIsHandedHalfPrecision) {
  for (const char* name : {"half", "bfloat16"}) {
    SCOPED_TRACE(name);
    const auto subject = open(fault(name));
    const bool half = subject->domain().dtype == Dtype::float16;
    AttentionProblem problem = draw(1, 1, 8, 8, 1, 1);
    const float smallest = half ? 0x1p-24F : 0x1p-133F, largest = half ? 65504 : 0x1.FEp127F;
    const float values[] = {0,       -0.0F,     smallest, -3 * smallest,
                            largest, HUGE_VALF, -1.375F,  half ? 0x1p-14F : 0x1p-126F};
    std::copy(std::begin(values), std::end(values), problem.v.begin());
    problem.v.data()[15] = std::numeric_limits<float>::quiet_NaN();
    const auto reply = subject->attend(problem);
    ASSERT_TRUE(std::holds_alternative<AttentionAnswer>(reply)) << std::get<Refusal>(reply).why;
    const auto& out = std::get<AttentionAnswer>(reply).out;
    for (Index c = 0; c < 8; ++c) EXPECT_TRUE(same_bits(out(0, 0, 0, c), values[c])) << c;
    EXPECT_TRUE(std::isnan(out(1, 0, 0, 7)));
  }
}

TEST_F(Processes, LibraryIsToldThreadsAndDecodeAndGivesWeights) {
  AttentionProblem problem = draw(1, 1, 2, 2, 1, 1);
  problem.q = Tensor<float, 4>({1, 1, 1, 2});
  problem.k = problem.v = problem.q;
  problem.threads = 3;
  problem.decode = problem.want_weights = true;
  const auto reply = open(fault("tell"))->attend(problem);
  ASSERT_TRUE(std::holds_alternative<AttentionAnswer>(reply)) << std::get<Refusal>(reply).why;
  const auto& answer = std::get<AttentionAnswer>(reply);
  EXPECT_EQ(answer.out(0, 0, 0, 0), 3);
  EXPECT_EQ(answer.out(0, 0, 0, 1), 1);
  EXPECT_EQ((*answer.weights)(0, 0, 0, 0), 1);
}

TEST_F(Processes, ExamplesAnswerAsTheDefinitionDoes) {
  for (const char* name : {"subject_c.so", "subject_cpp.so"}) {
    SCOPED_TRACE(name);
    const auto subject = open(library(name));
    for (Causal causal : {Causal::none, Causal::top_left}) {
      AttentionProblem problem = draw(7, 7, 4, 3, 4, 2);
      problem.causal = causal;
      expect_right(subject->attend(problem), problem, subject->domain());
      problem.scale = 0.3;
      expect_right(subject->attend(problem), problem, subject->domain());
    }
  }
  for (const char* language : {"c", "cpp", "python", "pipe"}) {
    EXPECT_NE(subject_template(language).find("attention"), std::string_view::npos);
  }
  EXPECT_EQ(subject_template("fortran"), "");
}

void expect_holds(AttentionSubject& subject, const CheckOptions& options) {
  for (const TheoremReport& theorem : check(subject, options).theorems) {
    const bool right = theorem.outcome == Outcome::holds ||
                       theorem.outcome == Outcome::not_applicable ||
                       theorem.claim == Claim::bitwise;
    EXPECT_TRUE(right) << theorem.id << ", seed " << options.seed << ": " << theorem.why
                       << (theorem.counterexample ? theorem.counterexample->note : "");
  }
}

/// All theorems for a short time, and all cases of those that ask what templates easily get wrong.
void expect_right_template(AttentionSubject& subject) {
  CheckOptions options;
  for (options.seed = 0; options.seed < 3; ++options.seed) {
    options.theorems.clear();
    options.seconds = 2;
    expect_holds(subject, options);
    options.theorems = {"num-poison", "num-empty-rows", "num-mask"};
    options.seconds = 20;
    options.cases = 40;
    expect_holds(subject, options);
  }
}

TEST_F(Processes, TemplatesOfLibrariesHold) {
  for (const char* name : {"subject_c.so", "subject_cpp.so"}) {
    SCOPED_TRACE(name);
    expect_right_template(*open(library(name)));
  }
}

TEST_F(Processes, TheCheckerFindsTheFaultyExample) {
  const auto subject = open(library("faulty.so"));
  CheckOptions few;
  few.seconds = 2;
  const Report report = check(*subject, few);
  const auto found = std::find_if(report.theorems.begin(), report.theorems.end(),
                                  [](const auto& theorem) { return theorem.id == "prop-5.1"; });
  ASSERT_NE(found, report.theorems.end());
  EXPECT_EQ(found->outcome, Outcome::violated);
  EXPECT_LE(found->counterexample->problem.seq_len_q(), 4);
}

// Whatever a library does, the next question finds it at work again.
TEST_F(Processes, LibraryThatCrashesIsStartedAgain) {
  const auto subject = open(fault("crash_when_long"));
  const AttentionProblem small = plain(), large = draw(5, 5, 4, 4);
  for (int turn = 0; turn < 2; ++turn) {
    expect_right(subject->attend(small), small, subject->domain());
    expect_refused(subject->attend(large), Refusal::Kind::crashed,
                   "the subject's process was ended by signal 11 (Segmentation fault) before it "
                   "answered");
  }
}

TEST_F(Processes, LibrariesThatFailAreEachToldInASentence) {
  using Kind = Refusal::Kind;
  const struct {
    const char* name;
    Kind kind;
    const char* part;
  } all[] = {
      {"stop", Kind::crashed,
       "signal 6 (Aborted) before it answered; the last line on its stderr: the sum is negative"},
      {"leave", Kind::crashed, "ended with exit status 0 before it answered"},
      {"leave_7", Kind::crashed, "ended with exit status 7 before it answered"},
      {"write_after", Kind::crashed,
       "it wrote 8 bytes outside of out, up to 8 bytes after its last number"},
      {"write_before", Kind::crashed,
       "it wrote 4 bytes outside of out, up to 12 bytes before its first number"},
      {"refuse", Kind::unsupported, "no such matter"},
      {"fail", Kind::failed, "xxxx"},
      {"say_42", Kind::failed, "the library returned 42, which is no status"},
      {"throws", Kind::failed, "an exception left the library: thrown on purpose"},
  };
  for (const auto& [name, kind, part] : all) {
    SCOPED_TRACE(name);
    expect_refused(open(fault(name))->attend(plain()), kind, part);
  }
  AttentionProblem with_lse = plain();
  with_lse.want_lse = true;
  expect_refused(open(fault("write_after_lse"))->attend(with_lse), Kind::crashed,
                 "outside of lse, up to 4 bytes after its last number");
}

TEST_F(Processes, WhatALibraryPrintsDoesNoHarm) {
  for (const char* name : {"print", "chatter"}) {
    SCOPED_TRACE(name);
    testing::internal::CaptureStderr();
    const auto subject = open(fault(name));
    for (int turn = 0; turn < 2; ++turn) {
      expect_right(subject->attend(plain()), plain(), subject->domain());
    }
    const std::string printed = testing::internal::GetCapturedStderr();
    EXPECT_LT(printed.size(), 70000);
    if (name == std::string("chatter")) {
      EXPECT_NE(printed.find("what else the subject prints is left out"), std::string::npos);
    }
  }
}

TEST_F(Processes, ChangedInputsAndMissingOutputsShow) {
  const auto changed = open(fault("change_inputs"))->attend(plain());
  ASSERT_TRUE(std::holds_alternative<AttentionAnswer>(changed));
  EXPECT_TRUE(std::get<AttentionAnswer>(changed).inputs_changed);
  const auto empty = open(fault("write_nothing"))->attend(plain());
  ASSERT_TRUE(std::holds_alternative<AttentionAnswer>(empty));
  for (double value : std::get<AttentionAnswer>(empty).out) EXPECT_TRUE(std::isnan(value));
}

TEST_F(Processes, ASubjectThatHangsIsEnded) {
  options.call_seconds = options.first_call_seconds = 0.5;
  for (const std::string& name :
       {fault("hang"), script("sleep 100"), std::string("command:sh -c 'sleep 100 & sleep 100'")}) {
    SCOPED_TRACE(name);
    const auto start = std::chrono::steady_clock::now();
    if (name.find("&") == std::string::npos) {
      expect_refused(open(name)->attend(plain()), Refusal::Kind::timed_out,
                     "the subject gave no answer within 0.5 s and was ended");
    } else {
      expect_error(name, "gave no answer within 0.5 s");
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  }
}

TEST_F(Processes, LibrariesThatCannotBeLoaded) {
  write("text.so", "no library\n");
  expect_error("./no_such.so", "there is no file ./no_such.so");
  expect_error((folder / "text.so").string(), "cannot be loaded as a library: ");
  expect_error(library("faults.so"),
               "libfaults.so has no symbol headproof_subject; headproof check --template c prints");
  expect_error(library("faults.so:nothing"), "has no symbol nothing");
  expect_error(library("faults.so:"), "faults.so: names no symbol behind its colon; without the");
  expect_error(fault("wrong_version"), "has the ABI version 7; this headproof knows version 1");
  expect_error(fault("wrong_size"), "has a struct_size of 8 bytes");
  expect_error(fault("no_attention"), "attention is null");
  expect_error(fault("no_backward"), "backward is null");
  expect_error(fault("wrong_dtype"), "dtype is 9");
  options.program = "/no/such/headproof";
  expect_error(fault("right"), "cannot start /no/such/headproof: No such file or directory");
}

TEST_F(Processes, NamesThatAreNoSubject) {
  expect_error("nothing", "'nothing' names no subject; write ./libmine.so");
  expect_error("builtin:nothing", "there is no builtin:nothing; there are builtin:reference");
  expect_error("mutant:nothing", "there is no mutant:nothing");
  expect_error("python:module", "must be written python:module:function");
  expect_error("recorded:", "recorded: names no folder; write recorded:DIR");
  expect_error("command:", "names no program");
  expect_error("command:'a", "has a ' that is not closed");
  expect_error("command:/no/such/program", "cannot start /no/such/program: No such file");
  EXPECT_EQ(open("builtin:fused")->name(), "fused");
  const auto head = open_subject("mutant:no-scale");
  ASSERT_TRUE(head.has_value());
  EXPECT_EQ(head->head->name(), "no-scale");
}

// What a program on the pipe may do wrong. The answer to plain() takes 192 bytes.
TEST_F(Processes, ProgramsOnThePipeAreEachToldInASentence) {
  using Kind = Refusal::Kind;
  options.first_call_seconds = options.call_seconds = 5;
  const struct {
    const char* answer;
    Kind kind;
    const char* part;
  } all[] = {
      {"echo hello world; sleep 9", Kind::failed,
       "the subject's reply begins with 'hello' instead of ok, unsupported or error"},
      {"echo unsupported by me", Kind::unsupported, "by me"},
      {"echo error; sleep 9", Kind::failed, "replied with an error and no reason"},
      {"exec >&-; sleep 9", Kind::failed, "the subject closed its output before it answered"},
      {"exit 3", Kind::crashed, "ended with exit status 3 before it answered"},
      {"echo who knows >&2; exit 3", Kind::crashed, "the last line on its stderr: who knows"},
      {"kill -9 $$", Kind::crashed, "ended by signal 9 (Killed) before it answered"},
      {"echo ok; printf 12345; exit 0", Kind::crashed,
       "ended with exit status 0 after 5 of the 192 bytes of its answer"},
      {"echo ok bytes=5; printf 12345; sleep 9", Kind::failed,
       "announces 5 bytes; what was asked for takes 192"},
      {"echo ok bytes=-5; sleep 9", Kind::failed, "has bytes=-5"},
      {"echo ok tea=1; sleep 9", Kind::failed, "has 'tea', which is not known here"},
      {"echo ok; cat /dev/zero", Kind::failed, "bytes more than the 192 of its answer"},
      {"cat /dev/zero", Kind::failed, "bytes without the end of a line: "},
      {"yes 2>/dev/null", Kind::failed, "begins with 'y'"},
  };
  for (const auto& [answer, kind, part] : all) {
    SCOPED_TRACE(answer);
    expect_refused(open(script(answer))->attend(plain()), kind, part);
  }
  expect_error("command:sh -c 'read -r line; echo ok dtype=float8; sleep 9'",
               "has dtype=float8; it must be");
  expect_error("command:sh -c 'read -r line; echo ok head_dims=4,x; sleep 9'", "has head_dims=x");
  expect_error("command:sh -c 'read -r line; echo ok features=flying; sleep 9'",
               "has the feature 'flying'");
  expect_error("command:sh -c 'read -r line; echo ok features=scale; sleep 9'",
               "neither causal nor non_causal");
  expect_error("command:sh -c 'read -r line; echo ok protocol=9; sleep 9'", "speaks version 9");
  expect_error("command:sh -c 'read -r line; echo ok color=1; sleep 9'",
               "has 'color'; it knows protocol");
  expect_error("command:sh -c 'read -r line; echo ok kind=head; sleep 9'",
               "write head: before its name");
  expect_error("command:true", "ended with exit status 0 before it answered");
}

TEST_F(Processes, AProgramThatGoesOnWritingIsNotBelievedLater) {
  const auto subject =
      open(script("echo unsupported; sleep 0.2; echo late; read -r line; sleep 9"));
  expect_refused(subject->attend(plain()), Refusal::Kind::unsupported, "does not do this");
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  expect_refused(subject->attend(plain()), Refusal::Kind::failed,
                 "wrote at least 5 bytes before it was asked");
}

// A question larger than any pipe meets a subject that answers before it has read it, and one that
// never reads.
TEST_F(Processes, LargeQuestionsDoNotBlock) {
  const AttentionProblem large = draw(20, 20, 4096, 4096);
  const auto right = open(library("subject_c.so"));
  expect_right(right->attend(large), large, right->domain());
  options.call_seconds = options.first_call_seconds = 1;
  expect_refused(open(script("echo unsupported; cat >/dev/null"))->attend(large),
                 Refusal::Kind::unsupported, "does not do this");
  expect_refused(open(script("sleep 9"))->attend(large), Refusal::Kind::timed_out, "within 1 s");
}

// The pipe breaks without a signal, whether the caller ignores SIGPIPE or not, and no process is
// left behind.
TEST_F(Processes, LeaveNothingBehind) {
  const auto count = [] {
    const std::filesystem::directory_iterator descriptors("/proc/self/fd");
    return std::distance(begin(descriptors), end(descriptors));
  };
  const auto before = count();
  for (int turn = 0; turn < 3; ++turn) {
    const auto subject = open("command:sh -c 'read -r line; echo ok; exec <&-; sleep 0.1'");
    const auto reply = subject->attend(draw(20, 20, 4096, 4096));
    EXPECT_TRUE(std::holds_alternative<Refusal>(reply));
  }
  EXPECT_EQ(count(), before);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

TEST_F(Processes, CommandsAreSplitAsAShellDoes) {
  write("show.sh", "printf '[%s]' \"$@\" >&2\nexit 4\n");
  const std::string script = "'" + (folder / "show.sh").string() + "'";
  expect_error("command:sh " + script + " a  'b c' \"d 'e'\" f\\ g '' \\\"",
               "[a][b c][d 'e'][f g][][\"]");
}

class PythonSubjects : public Processes {
 protected:
  void SetUp() override {
    Processes::SetUp();
    if (!IsSkipped() && !has_python_module("numpy")) {
      GTEST_SKIP() << options.python << " has no NumPy";
    }
  }
  std::unique_ptr<AttentionSubject> python(const std::string& body) const {
    write("mine.py", "import numpy as np\nimport sys\n" + body);
    return open("python:mine:f");
  }
};

TEST_F(PythonSubjects, TemplatesAnswerAsTheDefinitionDoes) {
  write("subject.py", subject_template("python"));
  write("pipe.py", subject_template("pipe"));
  for (const std::string& name :
       {std::string("python:subject:my_attention"),
        "command:" + options.python + " '" + (folder / "pipe.py").string() + "'"}) {
    SCOPED_TRACE(name);
    const auto subject = open(name);
    for (Causal causal : {Causal::none, Causal::top_left}) {
      AttentionProblem problem = plain();
      problem.causal = causal;
      expect_right(subject->attend(problem), problem, subject->domain());
      if (!subject->domain().features.has(Feature::mask)) continue;
      problem.strided = true;
      problem.mask = Tensor<bool, 4>({1, 1, 3, 3});
      for (Index at = 0; at < 9; ++at) problem.mask->data()[at] = at != 3;
      expect_right(subject->attend(problem), problem, subject->domain());
      problem.mask.reset();
      problem.bias = Generator(3).randn(2, 1, 3, 3);
      expect_right(subject->attend(problem), problem, subject->domain());
    }
  }
}

TEST_F(PythonSubjects, TemplatesHold) {
  write("subject.py", subject_template("python"));
  write("pipe.py", subject_template("pipe"));
  expect_right_template(*open("python:subject:my_attention"));
  expect_right_template(
      *open("command:" + options.python + " '" + (folder / "pipe.py").string() + "'"));
}

TEST_F(PythonSubjects, MayTakePositionsOnly) {
  const auto subject = python(
      "def f(q, k, v, /, scale=2.0, *, is_causal):\n"
      "  return v * 0 + float(scale) if is_causal else v\n");
  const AttentionReply reply = subject->attend(plain());
  ASSERT_TRUE(std::holds_alternative<AttentionAnswer>(reply)) << std::get<Refusal>(reply).why;
  EXPECT_EQ(std::get<AttentionAnswer>(reply).out(0, 0, 0, 0), 2);
}

TEST_F(PythonSubjects, OfferWhatTheirSignatureNames) {
  const auto features = [&](const std::string& signature, const std::string& more = "") {
    return python("def f(" + signature + "):\n  return v\n" + more)->domain().features;
  };
  const Features few = features("q, k, v, **rest");
  EXPECT_TRUE(few.has(Feature::non_causal));
  EXPECT_TRUE(few.has(Feature::strides));
  for (Feature feature :
       {Feature::causal, Feature::scale, Feature::mask, Feature::grouped_heads, Feature::window,
        Feature::softcap, Feature::lse, Feature::backward, Feature::threads, Feature::decode}) {
    EXPECT_FALSE(few.has(feature)) << name_of(feature);
  }
  const Features many = features(
      "q, k, v, causal, softmax_scale=1, attn_mask=None, enable_gqa=False, "
      "window_size=(-1, -1), softcap=0, key_length=None, query_offset=None, "
      "return_lse=False, return_weights=False, threads=None, decode=False",
      "f.headproof = {'head_dims': (16, 32), 'length_multiple': 4, 'name': 'me'}\n");
  Features expected = Features::all();
  expected.set(Feature::backward, false);
  for (int at = 0; at < feature_count; ++at) {
    const auto feature = static_cast<Feature>(at);
    EXPECT_EQ(many.has(feature), expected.has(feature)) << name_of(feature);
  }
  const auto declared = open("python:mine:f");
  EXPECT_EQ(declared->domain().head_dims, (std::vector<Index>{16, 32}));
  EXPECT_EQ(declared->domain().length_multiple, 4);
  EXPECT_NE(declared->name().find("(me)"), std::string::npos);
}

TEST_F(PythonSubjects, AreHandedTheirOptions) {
  const auto subject = python(
      "def f(q, k, v, is_causal=True, scale=None, window_size=(-1, -1), softcap=0.0,\n"
      "      enable_gqa=False, key_length=None, query_offset=0, return_lse=False,\n"
      "      return_weights=False, threads=0, decode=False):\n"
      "  told = [is_causal, scale, *window_size, softcap, enable_gqa, *key_length, query_offset,\n"
      "          threads, decode, q.flags.c_contiguous]\n"
      "  out = np.zeros(q.shape[:-1] + v.shape[-1:], np.float32)\n"
      "  out.reshape(-1)[:len(told)] = told\n"
      "  return out, np.full(q.shape[:-1], 2, np.float32), np.full(q.shape[:-1] + k.shape[2:3], "
      "3, np.float32)\n");
  AttentionProblem problem = draw(3, 5, 4, 4, 4, 2);
  problem.scale = 0.5;
  problem.window = 2;
  problem.softcap = 8;
  problem.key_length = {4, 5};
  problem.query_offset = 6;
  problem.threads = 7;
  problem.decode = problem.strided = problem.want_lse = problem.want_weights = true;
  const auto reply = subject->attend(problem);
  ASSERT_TRUE(std::holds_alternative<AttentionAnswer>(reply)) << std::get<Refusal>(reply).why;
  const auto& answer = std::get<AttentionAnswer>(reply);
  const std::vector<double> told(answer.out.begin(), answer.out.begin() + 12);
  EXPECT_EQ(told, (std::vector<double>{1, 0.5, 1, 0, 8, 1, 4, 5, 6, 7, 1, 0}));
  EXPECT_EQ((*answer.lse)(1, 3, 2), 2);
  EXPECT_EQ((*answer.weights)(1, 3, 2, 4), 3);
}

TEST_F(PythonSubjects, ThatFailAreEachToldInASentence) {
  using Kind = Refusal::Kind;
  const struct {
    const char* body;
    Kind kind;
    const char* part;
  } all[] = {
      {"raise NotImplementedError('only head_dim 64')", Kind::unsupported,
       "mine:f raised NotImplementedError: only head_dim 64"},
      {"raise ValueError('many\\n\\nlines')", Kind::failed, "mine:f raised ValueError: many"},
      {"raise TypeError()", Kind::failed, "mine:f raised TypeError"},
      {"raise RuntimeError('no')", Kind::failed, "mine:f raised RuntimeError: no"},
      {"return None", Kind::failed, "mine:f returned NoneType as out; it must be an array"},
      {"return v[:1]", Kind::failed, "returned out of shape [1, 2, 3, 4]; it must be [2, 2, 3, 4]"},
      {"return v * np.float64(2)", Kind::failed, "returned out in float64, though it was given"},
      {"sys.exit(0)", Kind::failed, "mine:f raised SystemExit: 0"},
      {"import os; os.abort()", Kind::crashed, "signal 6 (Aborted)"},
      {"import os; os._exit(5)", Kind::crashed, "exit status 5"},
  };
  for (const auto& [body, kind, part] : all) {
    SCOPED_TRACE(body);
    const auto subject = python("def f(q, k, v, is_causal=True):\n  " + std::string(body) + "\n");
    expect_refused(subject->attend(plain()), kind, part);
  }
  options.call_seconds = 0.5;
  options.first_call_seconds = 5;
  const auto hangs =
      python("def f(q, k, v, is_causal=True):\n  while q.shape[2] == 4: pass\n  return v\n");
  expect_right(hangs->attend(draw(1, 1, 2, 2)), draw(1, 1, 2, 2), hangs->domain());
  expect_refused(hangs->attend(draw(4, 4, 2, 2)), Kind::timed_out, "within 0.5 s");
}

TEST_F(PythonSubjects, MayPrintAndChangeTheirInputs) {
  const auto subject = python(
      "def f(q, k, v, is_causal=True):\n"
      "  print('ok bytes=0', flush=True)\n  import os; os.write(1, b'raw')\n"
      "  if q.shape[2] == 1: v[0, 0, 0, 0] = 5\n"
      "  return v.copy()\n");
  testing::internal::CaptureStderr();
  const auto same = subject->attend(draw(2, 2, 2, 2));
  const auto changed = subject->attend(draw(1, 1, 2, 2));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("ok bytes=0"), std::string::npos);
  ASSERT_TRUE(std::holds_alternative<AttentionAnswer>(same)) << std::get<Refusal>(same).why;
  EXPECT_FALSE(std::get<AttentionAnswer>(same).inputs_changed);
  ASSERT_TRUE(std::holds_alternative<AttentionAnswer>(changed));
  EXPECT_TRUE(std::get<AttentionAnswer>(changed).inputs_changed);
}

TEST_F(PythonSubjects, ThatCannotBeFound) {
  write("empty.py", "def other(): pass\nnumber = 3\n");
  write("broken.py", "import no_such_thing\n");
  write("wrong.py", "def f(:\n");
  write("few.py", "def f(q): pass\ndef g(q, k, v, sink): pass\n");
  expect_error("python:no_such_module:f", "there is no module no_such_module in ");
  expect_error("python:empty:f", "empty has no f; its functions: other");
  expect_error("python:empty:number", "is not callable; it is int");
  expect_error("python:broken:f",
               "importing broken failed with ModuleNotFoundError: No module named 'no_such_thing'");
  expect_error("python:wrong:f", "importing wrong failed with SyntaxError: ");
  expect_error("python:few:f", "names 1 parameters; it must take at least q, k and v");
  expect_error("python:few:g", "needs a value for 'sink'");
  options.framework = "abacus";
  expect_error("python:few:f", "the framework abacus is not known");
  options.framework = "numpy";
  options.dtype = Dtype::bfloat16;
  expect_error("python:few:f", "NumPy has no bfloat16");
  options.dtype = Dtype::float32;
  options.device = "cuda";
  expect_error("python:few:f", "NumPy knows the device cpu alone");
  options.device = "cpu";
  write("bare.sh", "#!/bin/sh\nexec '" + options.python + "' -S \"$@\"\n");
  std::filesystem::permissions(folder / "bare.sh", std::filesystem::perms::owner_all);
  options.python = (folder / "bare.sh").string();
  expect_error("python:few:f", "has no module numpy; install it there, or name another");
  options.python = "/no/such/python";
  expect_error("python:few:f", "cannot start /no/such/python: No such file or directory; --python");
}

TEST_F(PythonSubjects, ThatDeclareWhatIsNoneAreToldInASentence) {
  for (const auto& [declared, part] : std::vector<std::pair<const char*, const char*>>{
           {"5", "mine:f.headproof is 5; it must be a dict, such as {'head_dims': (16, 32)}"},
           {"{'dims': 4}",
            "has the key 'dims'; there are framework, dtype, layout, name, head_dims"},
           {"{'framework': 'abacus'}", "['framework'] is 'abacus'; it must be numpy, torch or jax"},
           {"{'dtype': np.float32}", "must be float32, float64, float16 or bfloat16"},
           {"{'head_dims': 16}", "['head_dims'] is 16; it must be a tuple of whole numbers"},
           {"{'max_length': '9'}", "['max_length'] is '9'; it must be a whole number"},
           {"{'features': 'lse'}", "['features'] is 'lse'; it must be a list of names"},
           {"{'features': ['flying']}", "has the feature 'flying'"},
           {"{'name': 'two words'}",
            "['name'] is 'two words'; it must be a text without spaces"}}) {
    write("mine.py", "import numpy as np\ndef f(q, k, v): return v\nf.headproof = " +
                         std::string(declared) + "\n");
    expect_error("python:mine:f", part);
  }
}

// Heads of keys that are equal are one with a stride of 0; channels lie apart and back to front.
TEST_F(PythonSubjects, AreHandedStridesOfEveryKind) {
  const auto subject = python(
      "def f(q, k, v, is_causal=True):\n"
      "  out = np.zeros(q.shape[:-1] + v.shape[-1:], np.float32)\n"
      "  out.reshape(-1)[:9] = [*(x // 4 for x in k.strides), *(x // 4 for x in v.strides), k[1, "
      "1, 2, 3]]\n"
      "  return out\n");
  AttentionProblem problem = draw(3, 3, 4, 4);
  const Index size = 3 * 4;
  for (Index b = 0; b < 2; ++b) std::copy_n(problem.k[b][0].data, size, problem.k[b][1].data);
  problem.strided = true;
  const auto told = [&] {
    const auto reply = subject->attend(problem);
    EXPECT_TRUE(std::holds_alternative<AttentionAnswer>(reply)) << std::get<Refusal>(reply).why;
    const auto& out = std::get<AttentionAnswer>(reply).out;
    return std::vector<double>(out.begin(), out.begin() + 9);
  };
  const double last = problem.k(1, 0, 2, 3);
  EXPECT_EQ(told(), (std::vector<double>{3 * 7, 0, 7, 1, 2 * 3 * 7, 7, 2 * 7, 1, last}));
  problem.strided_channels = true;
  EXPECT_EQ(told(), (std::vector<double>{3 * 11, 0, 11, -2, 2 * 3 * 11, 11, 2 * 11, -2, last}));
}

TEST_F(PythonSubjects, MayBeDoubleOrHalfAndInAnotherLayout) {
  write("mine.py", subject_template("python"));
  write("bshd.py",
        "import mine\ndef f(q, k, v, is_causal=True):\n"
        "  turn = lambda x: x.transpose(0, 2, 1, 3).astype('float32')\n"
        "  return turn(mine.my_attention(turn(q), turn(k), turn(v), is_causal)).astype(q.dtype)\n");
  options.layout = Layout::bshd;
  for (Dtype dtype : {Dtype::float32, Dtype::float16}) {
    options.dtype = dtype;
    const auto subject = open("python:bshd:f");
    AttentionProblem problem = draw(5, 5, 4, 4);
    for (auto* tensor : {&problem.q, &problem.k, &problem.v}) {
      for (float& value : *tensor) value = rounded(value, dtype);
    }
    problem.strided = dtype == Dtype::float16;
    expect_right(subject->attend(problem), problem, subject->domain());
  }
}

TEST_F(PythonSubjects, WholeHeads) {
  write("heads.py",
        "import numpy as np\n"
        "def bare(x, w_q, w_k, w_v):\n"
        "  return both(x, w_q, w_k, w_v)[0]\n"
        "def both(x, w_q, w_k, w_v, is_causal=True):\n"
        "  q, k, v = x @ w_q.T, x @ w_k.T, x @ w_v.T\n"
        "  s = q @ k.swapaxes(1, 2) / np.float32(w_q.shape[0] ** 0.5)\n"
        "  if is_causal: s = np.where(np.tril(np.ones(s.shape[1:], bool)), s, "
        "np.float32(-np.inf))\n"
        "  e = np.exp(s - s.max(-1, keepdims=True))\n"
        "  A = e / e.sum(-1, keepdims=True)\n"
        "  return A @ v, A\n"
        "def wrong(x, w_q, w_k, w_v, is_causal=True):\n  return x, x, x\n");
  Generator generator(1);
  HeadProblem problem{generator.randn(2, 5, 6), draw_head_weights(6, 3, generator)};
  const auto reference = reference_subject();
  for (const char* name : {"head:python:heads:bare", "head:python:heads:both"}) {
    SCOPED_TRACE(name);
    const auto opened = open_subject(name, options);
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    const bool both = std::string_view(name).ends_with("both");
    for (bool causal : {true, false}) {
      problem.causal = causal;
      const auto got = opened->head->head(problem);
      if (!both && !causal) {
        EXPECT_FALSE(got.has_value());
        continue;
      }
      ASSERT_TRUE(got.has_value()) << got.error().message;
      const auto expected = reference->head(problem).value();
      auto value = expected.out.begin();
      // Each of them is within a few roundings of sums of at most 6 products of numbers near 1.
      for (float number : got->out) EXPECT_NEAR(number, *value++, 64 * 0x1p-24F);
      ASSERT_EQ(got->A.has_value(), both);
    }
  }
  const auto wrong = open_subject("head:python:heads:wrong", options).value();
  EXPECT_NE(wrong.head->head(problem).error().message.find("returned 3 results"),
            std::string::npos);
}

class TorchSubjects : public Processes {
 protected:
  void SetUp() override {
    Processes::SetUp();
    if (!IsSkipped() && !has_python_module("torch")) {
      GTEST_SKIP() << "HEADPROOF_PYTHON names no interpreter that has PyTorch";
    }
    options.framework = "torch";
  }
};

TEST_F(TorchSubjects, ScaledDotProductAttentionAnswersAsTheDefinitionDoes) {
  const std::string name = "python:torch.nn.functional:scaled_dot_product_attention";
  for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::bfloat16, Dtype::float16}) {
    SCOPED_TRACE(name_of(dtype));
    options.dtype = dtype;
    const auto subject = open(name);
    const Features features = subject->domain().features;
    for (Feature feature : {Feature::causal, Feature::scale, Feature::mask, Feature::bias,
                            Feature::grouped_heads, Feature::backward, Feature::threads}) {
      EXPECT_TRUE(features.has(feature)) << name_of(feature);
    }
    AttentionProblem problem = draw(5, 5, 4, 4, 4, 2);
    for (auto* tensor : {&problem.q, &problem.k, &problem.v}) {
      for (float& value : *tensor) value = rounded(value, dtype);
    }
    problem.threads = 1;
    expect_right(subject->attend(problem), problem, subject->domain());
    problem.strided = true;
    expect_right(subject->attend(problem), problem, subject->domain());
    problem.strided_channels = true;
    for (Index b = 0; b < 2; ++b) std::copy_n(problem.k[b][0].data, 5 * 4, problem.k[b][1].data);
    expect_right(subject->attend(problem), problem, subject->domain());
    if (dtype != Dtype::float64) continue;
    problem.d_out = Generator(5).randn(2, 4, 5, 4);
    const auto got = std::get<AttentionAnswer>(subject->attend(problem));
    const auto expected = std::get<AttentionAnswer>(builtin_attention("float64")->attend(problem));
    auto value = expected.gradients->d_k.begin();
    // Sums of at most 5 * 4 * 4 products of numbers near 1 in double precision.
    for (double number : got.gradients->d_k) EXPECT_NEAR(number, *value++, 1000 * 0x1p-53);
  }
}

class Recordings : public Processes {
 protected:
  void SetUp() override {
    Processes::SetUp();
    problem = plain();
    answer = std::get<AttentionAnswer>(builtin_attention("float64")->attend(problem));
    save("q", problem.q);
    save("k", problem.k);
    save("v", problem.v);
    save("out", narrowed(answer.out));
    write("problem.json", R"({"causal": true})");
  }
  static Tensor<float, 4> narrowed(const Tensor<double, 4>& wide) {
    Tensor<float, 4> tensor(wide.shape());
    std::transform(wide.begin(), wide.end(), tensor.begin(),
                   [](double value) { return static_cast<float>(value); });
    return tensor;
  }
  void save(const std::string& name, const Array& array) const {
    write(name + ".npy", format_npy(array));
  }
  std::string name() const { return "recorded:" + folder.string(); }

  AttentionProblem problem;
  AttentionAnswer answer;
};

TEST_F(Recordings, AreJudgedByWhatTheyHold) {
  const Report right = check(*open(name()));
  const auto outcome = [](const Report& report, std::string_view id) {
    for (const auto& theorem : report.theorems) {
      if (theorem.id == id) return theorem.outcome;
    }
    return Outcome::crashed;
  };
  EXPECT_EQ(outcome(right, "num-accuracy"), Outcome::holds);
  EXPECT_EQ(outcome(right, "prop-5.1"), Outcome::unsupported);
  EXPECT_EQ(outcome(right, "cor-3.2"), Outcome::holds);
  for (const char* id : {"num-history", "num-determinism"}) {
    EXPECT_EQ(outcome(right, id), Outcome::unsupported) << id;
  }
  EXPECT_EQ(outcome(right, "num-inputs-untouched"), Outcome::not_applicable);
  answer.out(1, 1, 2, 3) += 0.01;
  save("out", narrowed(answer.out));
  const Report wrong = check(*open(name()));
  EXPECT_EQ(outcome(wrong, "num-accuracy"), Outcome::violated);
}

TEST_F(Recordings, AreJudgedByTheWeightsThatTheyShow) {
  AttentionProblem asked = problem;
  asked.want_weights = true;
  const Tensor<double, 4> right =
      *std::get<AttentionAnswer>(builtin_attention("float64")->attend(asked)).weights;
  const std::vector<std::string> ids = {"prop-3.1", "cor-3.2", "prop-5.1"};
  const auto violated = [&](const Tensor<double, 4>& A) {
    save("A", narrowed(A));
    CheckOptions chosen;
    chosen.theorems = ids;
    std::string list;
    for (const auto& theorem : check(*open(name()), chosen).theorems) {
      EXPECT_TRUE(theorem.outcome == Outcome::holds || theorem.outcome == Outcome::violated)
          << theorem.id << ": " << theorem.why;
      if (theorem.outcome == Outcome::violated) list += theorem.id + " ";
    }
    return list;
  };
  EXPECT_EQ(violated(right), "");
  EXPECT_EQ(violated(Tensor<double, 4>(right.shape())), "prop-3.1 cor-3.2 ");
  Tensor<double, 4> future = right;
  future(0, 0, 0, 1) = 1e-30;
  EXPECT_EQ(violated(future), "prop-5.1 ");
  Tensor<double, 4> other = right;
  std::swap(other(0, 0, 2, 0), other(0, 0, 2, 1));
  EXPECT_EQ(violated(other), "cor-3.2 ");
}

TEST_F(Recordings, AnswerNothingElse) {
  const auto subject = open(name());
  ASSERT_TRUE(subject->only_problem().has_value());
  expect_right(subject->attend(problem), problem, subject->domain());
  AttentionProblem other = problem;
  other.v.data()[0] += 1;
  expect_refused(subject->attend(other), Refusal::Kind::unsupported, "answers only the question");
  other = problem;
  other.scale = 1;
  expect_refused(subject->attend(other), Refusal::Kind::unsupported, "answers only the question");
  other = problem;
  other.want_weights = true;
  expect_refused(subject->attend(other), Refusal::Kind::unsupported, "A was not recorded");
}

TEST_F(Recordings, ThatAreIncompleteOrMalformed) {
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"", "problem.json is no JSON object"},
           {"{}", "has no \"causal\""},
           {R"({"causal": 3})", "has a \"causal\" that is not"},
           {R"({"causal": true, "scale": "x"})", "has a \"scale\" that is no finite number"},
           {R"({"causal": true, "dtype": "int8"})", "has a \"dtype\" that is not"},
           {R"({"causal": true, "mask": 1})", "has a key besides"}}) {
    write("problem.json", text);
    expect_error(name(), part);
  }
  std::filesystem::remove(folder / "problem.json");
  expect_error(name(), "cannot read ");
  write("problem.json", R"({"causal": "bottom_right", "scale": 0.5, "dtype": "float16"})");
  save("out", Array(Tensor<float, 4>({1, 1, 3, 4})));
  expect_error(name(), "out.npy has another shape than");
  save("out", narrowed(answer.out));
  save("A", Array(Tensor<float, 4>({1, 1, 3, 4})));
  expect_error(name(), "A.npy has another shape than");
  std::filesystem::remove(folder / "A.npy");
  write("k.npy", "no array");
  expect_error(name(), "k.npy");
  save("k", Array(Tensor<double, 4>({2, 2, 3, 4})));
  expect_error(name(), "k.npy: expected float32 elements, not float64");
  save("k", Array(Tensor<float, 4>({2, 2, 3, 5})));
  expect_error(name(), folder.string());
  std::filesystem::remove(folder / "k.npy");
  expect_error(name(), "k.npy");
}

}  // namespace
}  // namespace headproof
