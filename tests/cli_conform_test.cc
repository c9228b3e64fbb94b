// headproof conform as users meet it: every case of the folder shared, and small cases of our own,
// right, wrong and broken.

#include <cmath>
#include <nlohmann/json.hpp>

#include "command.h"
#include "headproof/npy.h"

namespace headproof {
namespace {

constexpr const char* implementations[] = {"reference", "canonical", "fused"};

class CliConform : public CommandTest {
 protected:
  /// A case with one query, which weighs two keys 1 : 1, and the attributes and further slots.
  void save_case(const std::string& name, const std::string& attributes = "",
                 const std::string& more_inputs = "", const std::string& more_outputs = "") const {
    std::filesystem::create_directories(folder_ / name);
    save<float>(name + "/Q", {1, 1, 1, 1}, {0});
    save<float>(name + "/K", {1, 1, 2, 1}, {0, 1});
    save<float>(name + "/V", {1, 1, 2, 1}, {4, 8});
    save<float>(name + "/Y", {1, 1, 1, 1}, {6});
    write(name + "/case.json", R"({"opset": 25, "attributes": {)" + attributes +
                                   R"(}, "input_slots": ["Q", "K", "V")" + more_inputs +
                                   R"(], "output_slots": ["Y")" + more_outputs + "]}");
  }
  /// One case, alone in the folder "one", passes on every implementation.
  void expect_passed() const {
    for (const char* implementation : implementations) {
      const Ended ended = run(std::string("conform one ") + implementation);
      EXPECT_EQ(ended.exit_code, 0) << implementation << ended.out << ended.err;
      EXPECT_TRUE(ended.out.ends_with("\n1 passed, 0 failed\n")) << ended.out;
    }
  }
  /// The case in the folder "one" cannot be read: exit code 3, and each of `named` in its line.
  void expect_unread(const std::vector<std::string>& named) const {
    SCOPED_TRACE(named.front());
    const Ended ended = run("conform one");
    EXPECT_EQ(ended.exit_code, 3);
    EXPECT_EQ(ended.err, "");
    const std::string line = ended.out.substr(0, ended.out.find('\n') + 1);
    EXPECT_TRUE(line.starts_with("one  could not be read: ")) << line;
    EXPECT_EQ(ended.out, line + "1 could not be read\n0 passed, 0 failed\n");
    for (const std::string& part : named) {
      EXPECT_NE(line.find(part), std::string::npos) << part << " is missing in " << line;
    }
  }
};

TEST_F(CliConform, EveryOnnxCasePassesOnEveryImplementation) {
  const char* environment = std::getenv("HEADPROOF_SHARED");
  const std::filesystem::path shared = environment != nullptr ? environment : HEADPROOF_SHARED;
  const auto cases = std::filesystem::absolute(shared / "cases" / "onnx_attention");
  if (!std::filesystem::exists(cases)) GTEST_SKIP() << "there is no folder " << cases;
  for (const char* implementation : implementations) {
    const Ended ended = run("conform '" + cases.string() + "' --implementation " + implementation);
    EXPECT_EQ(ended.exit_code, 0) << implementation;
    EXPECT_TRUE(ended.out.ends_with("\n60 passed, 0 failed\n")) << ended.out;
    EXPECT_EQ(std::count(ended.out.begin(), ended.out.end(), '\n'), 61);
    EXPECT_EQ(ended.err, "");
  }
}

TEST_F(CliConform, OneLineACaseAndTheCountsLast) {
  save_case("cases/b");
  save_case("cases/a");
  save_case("cases/c");
  save<float>("cases/c/Y", {1, 1, 1, 1}, {6.0625});
  std::filesystem::create_directory(folder_ / "cases" / ".hidden");
  write("cases/README.md", "no case");
  const Ended ended = run("conform cases");
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_EQ(ended.err, "");
  EXPECT_EQ(ended.out,
            "a  passed, largest error 0\nb  passed, largest error 0\n"
            "c  failed, largest error 0.062: Y[0, 0, 0, 0] is 6, and 6.0625 was expected\n"
            "2 passed, 1 failed\n");
  EXPECT_EQ(run("conform cases/c").exit_code, 1);
  EXPECT_EQ(run("conform cases/b/").out, "b  passed, largest error 0\n1 passed, 0 failed\n");
  EXPECT_EQ(shell("cd cases/b && \"$HEADPROOF\" conform .").out,
            "b  passed, largest error 0\n1 passed, 0 failed\n");
}

TEST_F(CliConform, AResultIsAsFarFromTheExpectedOneAsItsTypeAllows) {
  save_case("one");
  const auto exit_code_for = [&](float expected) {
    save<float>("one/Y", {1, 1, 1, 1}, {expected});
    return run("conform one").exit_code;
  };
  EXPECT_EQ(exit_code_for(6.0059F), 0);  // 1e-5 + 6e-3
  EXPECT_EQ(exit_code_for(5.9941F), 0);
  EXPECT_EQ(exit_code_for(6.0062F), 1);
  EXPECT_EQ(exit_code_for(5.9938F), 1);
  EXPECT_EQ(exit_code_for(std::nanf("")), 1);
  EXPECT_EQ(exit_code_for(HUGE_VALF), 1);
  save<float>("one/Y", {1, 1, 1}, {6});
  EXPECT_NE(run("conform one").out.find("Y has shape [1, 1, 1, 1], and [1, 1, 1] was expected"),
            std::string::npos);
  // 6 + 14 / 256 as a float16, 0x460E, is within 1e-3 + 6e-2; 6 + 16 / 256, 0x4610, is not.
  const std::string header = "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 1, 1, 1)}\n";
  const auto half = [&](const std::string& bytes) {
    return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(header.size()) + '\0' + header +
           bytes;
  };
  write("one/Y.npy", half("\x0E\x46"));
  EXPECT_EQ(run("conform one").exit_code, 0);
  write("one/Y.npy", half("\x10\x46"));
  EXPECT_EQ(run("conform one").exit_code, 1);
}

TEST_F(CliConform, WhatIsExpectedInFloat16IsRoundedToIt) {
  // Values of 65504 (0x7BFF), the largest of them, and of 65520 in float, which rounds to infinity.
  save_case("one");
  const std::string header = "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 1, 1, 5)}\n";
  const std::string halves(
      "\xFF\x7B"
      "\x00\x7C"
      "\x01\x00"
      "\x00\x00"
      "\x01\x3C",
      10);
  write("one/Y.npy", std::string("\x93NUMPY\1\0", 8) + static_cast<char>(header.size()) + '\0' +
                         header + halves);
  const std::vector<float> row = {65519, 65520, 0x1.8p-25F, 0x1p-25F, 1.0009F};
  std::vector<float> values = row;
  values.insert(values.end(), row.begin(), row.end());
  save<float>("one/V", {1, 1, 2, 5}, values);
  const Ended ended = run("conform one");
  EXPECT_EQ(ended.out, "one  passed, largest error 0\n1 passed, 0 failed\n");
}

TEST_F(CliConform, AttributesMeanWhatOnnxSays) {
  // The keys' values tell which of them were seen; scores are 0, so that all weigh the same.
  const auto with_keys = [&](const std::string& attributes, std::vector<float> expected,
                             const std::string& inputs = "") {
    SCOPED_TRACE(attributes);
    save_case("one", attributes, inputs);
    save<float>("one/Q", {1, 1, 2, 1}, {0, 0});
    save<float>("one/K", {1, 1, 4, 1}, {1, 2, 3, 4});
    save<float>("one/V", {1, 1, 4, 1}, {1, 2, 4, 8});
    save<float>("one/Y", {1, 1, 2, 1}, std::move(expected));
    expect_passed();
  };
  with_keys("", {3.75, 3.75});
  with_keys(R"("is_causal": 0, "softmax_precision": 11)", {3.75, 3.75});
  with_keys(R"("is_causal": 1)", {1, 1.5});
  with_keys(R"("left_window_size": 0)", {3.75, 14 / 3.0F});
  with_keys(R"("right_window_size": 1)", {1.5, 7 / 3.0F});
  with_keys(R"("left_window_size": 0, "right_window_size": 0)", {1, 2});
  with_keys(R"("is_causal": 1, "right_window_size": 2)", {1, 1.5});
  save<Index>("three", {1}, {3});
  std::filesystem::create_directories(folder_ / "one");
  std::filesystem::copy(folder_ / "three.npy", folder_ / "one" / "nonpad_kv_seqlen.npy");
  const std::string lengths = R"(, "", "", "", "nonpad_kv_seqlen")";
  with_keys("", {7 / 3.0F, 7 / 3.0F}, lengths);
  with_keys(R"("is_causal": 1)", {1.5, 7 / 3.0F}, lengths);
  // Query 0 stands at 3 - 2 = 1.
  with_keys(R"("left_window_size": 0, "right_window_size": 0)", {2, 4}, lengths);
  save<Index>("one/nonpad_kv_seqlen", {1}, {1});
  with_keys(R"("is_causal": 1)", {0, 1}, lengths);
  // A mask with fewer columns than keys forbids the others.
  save<float>("one/attn_mask", {2, 2}, {0, 0, -HUGE_VALF, 0});
  with_keys("", {1.5, 2}, R"(, "attn_mask")");
}

TEST_F(CliConform, ThePastComesFirstAndIsPartOfThePresent) {
  save_case("one", R"("is_causal": 1)", R"(, "", "past_key", "past_value")",
            R"(, "present_key", "present_value")");
  save<float>("one/Q", {1, 1, 1, 1}, {0});
  save<float>("one/past_key", {1, 1, 1, 1}, {5});
  save<float>("one/past_value", {1, 1, 1, 1}, {1});
  save<float>("one/present_key", {1, 1, 3, 1}, {5, 0, 1});
  save<float>("one/present_value", {1, 1, 3, 1}, {1, 4, 8});
  save<float>("one/Y", {1, 1, 1, 1}, {2.5});  // of keys 0 and 1
  expect_passed();
}

TEST_F(CliConform, EveryModeShowsItsStage) {
  const float score = std::log(3.0F), capped = std::tanh(score), none = -HUGE_VALF;
  const auto with_stage = [&](const std::string& mode, float y, std::vector<float> stage) {
    SCOPED_TRACE(mode);
    save_case("one", R"("softcap": 1, "qk_matmul_output_mode": )" + mode, R"(, "attn_mask")",
              R"(, "", "", "qk_matmul_output")");
    save<float>("one/Q", {1, 1, 1, 1}, {score});
    save<float>("one/K", {1, 1, 3, 1}, {0, 1, 1});
    save<float>("one/V", {1, 1, 3, 1}, {4, 8, 16});
    save<float>("one/attn_mask", {1, 3}, {0.5F, 0, none});
    save<float>("one/Y", {1, 1, 1, 1}, {y});
    save<float>("one/qk_matmul_output", {1, 1, 1, 3}, std::move(stage));
    expect_passed();
  };
  const float second = 1 / (1 + std::exp(0.5F - capped)), y = 4 + 4 * second;
  with_stage("0", y, {0, score, score});
  with_stage("1", y, {0, capped, capped});
  with_stage("2", y, {0.5F, capped, none});
  with_stage("3", y, {1 - second, second, 0});

  // Padding is masked too, and its keys have scores.
  const auto with_padding = [&](const std::string& mode, std::vector<float> stage) {
    SCOPED_TRACE(mode);
    save_case("one", R"("qk_matmul_output_mode": )" + mode, R"(, "", "", "", "nonpad_kv_seqlen")",
              R"(, "", "", "qk_matmul_output")");
    save<float>("one/Q", {1, 1, 1, 1}, {2});
    save<Index>("one/nonpad_kv_seqlen", {1}, {1});
    save<float>("one/Y", {1, 1, 1, 1}, {4});
    save<float>("one/qk_matmul_output", {1, 1, 1, 2}, std::move(stage));
    expect_passed();
  };
  with_padding("0", {0, 2});
  with_padding("2", {0, none});
  with_padding("3", {1, 0});
}

TEST_F(CliConform, WhatCannotBeReadIsSaidInOneSentence) {
  const auto with = [&](const std::string& json, const std::vector<std::string>& named) {
    save_case("one");
    write("one/case.json", json);
    expect_unread(named);
  };
  const std::string slots =
      R"("input_slots": ["Q", "K", "V"], "output_slots": ["Y"], "attributes": {}, )";
  with("", {"one/case.json", "JSON"});
  with("[]", {"one/case.json", "JSON object"});
  with("{", {"one/case.json", "JSON"});
  with("\xFF\xFE", {"JSON"});
  with(std::string(100'000, '['), {"JSON"});
  with("{}", {"opset is null", "23, 24 and 25"});
  with("{" + slots + R"("opset": 22})", {"opset is 22"});
  with("{" + slots + R"("opset": "23\u001b[2J\n"})", {"opset is \"23\\u001b[2J\\n\""});
  with(R"({"opset": 23, "input_slots": ["Q", "K", "V"], "output_slots": ["Y"]})", {"attributes"});
  const std::string head = R"({"opset": 23, "attributes": {}, )";
  with(head + R"("output_slots": ["Y"]})", {"input_slots must be a list of at most 7 names"});
  with(head + R"("input_slots": "Q", "output_slots": ["Y"]})", {"input_slots must be a list"});
  with(head + R"("input_slots": ["Q", "V", "K"], "output_slots": ["Y"]})",
       {"input_slots has \"V\" in slot 1, the place of K"});
  with(head + R"("input_slots": ["../one/Q", "K", "V"], "output_slots": ["Y"]})",
       {"\"../one/Q\" in slot 0"});
  with(head + R"("input_slots": [3, "K", "V"], "output_slots": ["Y"]})", {"has 3 in slot 0"});
  with(head + R"("input_slots": ["Q", "", "V"], "output_slots": ["Y"]})", {"K is absent"});
  with(head + R"("input_slots": ["Q", "K", "V"], "output_slots": [""]})", {"no output"});
  with(head + R"("input_slots": ["Q", "K", "V", "attn_mask"], "output_slots": ["Y"]})",
       {"one/attn_mask.npy", "No such file"});

  save_case("one");
  std::filesystem::remove(folder_ / "one" / "Y.npy");
  expect_unread({"one/Y.npy", "No such file"});
  save_case("one");
  write("one/K.npy", "no array");
  expect_unread({"one/K.npy", "as .npy"});
}

TEST_F(CliConform, AttributesThatAreUnknownOrOutOfRangeAreNamed) {
  const auto with = [&](const std::string& attributes, const std::vector<std::string>& named) {
    save_case("one", attributes);
    expect_unread(named);
  };
  with(R"("window": 2)", {"the attribute \"window\" is no attribute of Attention"});
  with(R"("scale": "1")", {"the attribute \"scale\" is \"1\"", "finite number"});
  with(R"("scale": 1e39)", {"scale is 1e+39"});
  with(R"("softcap": -1)", {"\"softcap\" is -1", "from 0 on"});
  with(R"("softcap": null)", {"\"softcap\" is null"});
  with(R"("is_causal": 2)", {"\"is_causal\" is 2", "from 0 to 1"});
  with(R"("is_causal": true)", {"\"is_causal\" is true"});
  with(R"("qk_matmul_output_mode": 4)", {"\"qk_matmul_output_mode\" is 4", "from 0 to 3"});
  with(R"("qk_matmul_output_mode": 0.5)", {"is 0.5", "whole number"});
  with(R"("softmax_precision": 7)", {"\"softmax_precision\" is 7", "1, 10, 11 or 16"});
  with(R"("left_window_size": -2)", {"\"left_window_size\" is -2"});
  with(R"("right_window_size": 18446744073709551615)", {"is 18446744073709551615"});
  with(R"("q_num_heads": 0)", {"\"q_num_heads\" is 0"});
  with(R"("q_num_heads": 2)", {"Q with shape [1, 1, 1, 1] has not the 2 heads"});
  const std::string long_text(1000, 'x');
  with("\"scale\": \"" + long_text + "\"", {"xxx..."});
}

TEST_F(CliConform, InputsThatDoNotFitAreNamed) {
  save_case("one");
  save<float>("one/V", {1, 1, 3, 1}, {1, 2, 3});
  expect_unread({"k has number of keys 2, and v 3"});
  save_case("one");
  save<float>("one/Q", {1, 1}, {1});
  expect_unread({"Q with shape [1, 1] must have 3 or 4 axes"});
  save<float>("one/Q", {1, 1, 1}, {1});
  expect_unread({"Q with shape [1, 1, 1] needs the attributes q_num_heads, kv_num_heads"});
  save<Index>("one/Q", {1, 1, 1, 1}, {1});
  expect_unread({"Q must have the element type of Q, a floating one"});
  save_case("one");
  save<double>("one/K", {1, 1, 2, 1}, {0, 1});
  expect_unread({"K must have the element type of Q"});
  save_case("one", R"("q_num_heads": 2, "kv_num_heads": 1)");
  save<float>("one/Q", {1, 1, 3}, {1, 2, 3});
  expect_unread({"Q with shape [1, 1, 3] cannot be split into 2 heads"});
  save_case("one", "", R"(, "attn_mask")");
  save<Index>("one/attn_mask", {1, 2}, {1, 1});
  expect_unread({"attn_mask holds integers"});
  save<float>("one/attn_mask", {3, 2}, {0, 0, 0, 0, 0, 0});
  expect_unread({"mask has shape [1, 1, 3, 2]", "[1, 1, 1, 2]"});
  save_case("one", "", R"(, "", "past_key")");
  save<float>("one/past_key", {1, 1, 1, 1}, {1});
  expect_unread({"past_key and past_value go together"});
  save_case("one", "", R"(, "", "past_key", "past_value")");
  save<float>("one/past_value", {1, 1, 1, 2}, {1, 1});
  expect_unread({"past_value has shape [1, 1, 1, 2]"});
  save_case("one", "", R"(, "", "past_key", "past_value", "nonpad_kv_seqlen")");
  save<float>("one/past_value", {1, 1, 1, 1}, {1});
  save<Index>("one/nonpad_kv_seqlen", {1}, {3});
  expect_unread({"past_key and nonpad_kv_seqlen"});
  save_case("one", "", R"(, "", "", "", "nonpad_kv_seqlen")");
  expect_unread({"nonpad_kv_seqlen holds 3", "from 0 to the number of keys, 2"});
  save<Index>("one/nonpad_kv_seqlen", {2}, {1, 1});
  expect_unread({"nonpad_kv_seqlen must hold integers of shape [1]", "[2]"});
}

TEST_F(CliConform, ACaseThatCannotBeReadWeighsMoreThanOneThatFails) {
  save_case("cases/a");
  save_case("cases/b");
  save<float>("cases/b/Y", {1, 1, 1, 1}, {8});
  std::filesystem::create_directory(folder_ / "cases" / "c");
  const Ended ended = run("conform cases");
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_TRUE(
      ended.out.ends_with("\nc  could not be read: cannot read cases/c/case.json: No such "
                          "file or directory\n1 could not be read\n1 passed, 1 failed\n"))
      << ended.out;
}

TEST_F(CliConform, WrongUseIsRefused) {
  save_case("cases/a");
  std::filesystem::create_directory(folder_ / "empty");
  expect_refused("\"$HEADPROOF\" conform", {"DIR", "required"});
  expect_refused("\"$HEADPROOF\" conform none", {"none", "No such file"});
  expect_refused("\"$HEADPROOF\" conform cases/a/Q.npy", {"cases/a/Q.npy", "Not a directory"});
  expect_refused("\"$HEADPROOF\" conform empty", {"empty holds no case"});
  expect_refused("\"$HEADPROOF\" conform cases magic", {"SUBJECT", "magic", "canonical"});
  expect_refused("\"$HEADPROOF\" conform cases --implementation magic", {"magic", "canonical"});
  expect_refused("\"$HEADPROOF\" conform cases fused --implementation canonical",
                 {"--implementation", "SUBJECT"});
}

TEST_F(CliConform, JsonSaysTheSame) {
  save_case("cases/a");
  save_case("cases/b");
  save<float>("cases/b/Y", {1, 1, 1, 1}, {std::nanf("")});
  std::filesystem::create_directory(folder_ / "cases" / "c\n");
  const Ended ended = run("conform cases canonical --json");
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_TRUE(ended.err.ends_with("1 passed, 1 failed\n")) << ended.err;
  EXPECT_NE(ended.err.find("\nc?  could not be read"), std::string::npos) << ended.err;
  const auto report = nlohmann::json::parse(ended.out);
  EXPECT_EQ(report["schema_version"], 1);
  EXPECT_EQ(report["command"], "conform");
  EXPECT_EQ(report["implementation"], "canonical");
  EXPECT_EQ(report["passed"], 1);
  EXPECT_EQ(report["failed"], 1);
  EXPECT_EQ(report["unread"], 1);
  EXPECT_EQ(report["cases"][0],
            (nlohmann::json{{"name", "a"}, {"outcome", "passed"}, {"largest_error", 0}}));
  EXPECT_EQ(report["cases"][1]["why"], "Y[0, 0, 0, 0] is 6, and nan was expected");
  EXPECT_TRUE(report["cases"][1]["largest_error"].is_null());
  EXPECT_EQ(report["cases"][2]["name"], "c\n");
  EXPECT_EQ(run("conform cases canonical --json report.json").out, ended.err);
  EXPECT_EQ(content("report.json"), ended.out);
  EXPECT_EQ(run("conform cases --json none/../cases/a/Q.npy/x").exit_code, 2);
}

}  // namespace
}  // namespace headproof
