// headproof bench as users meet it. No test looks at how long anything takes.

#include <nlohmann/json.hpp>
#include <thread>

#include "command.h"
#include "speed/work.h"

namespace headproof {
namespace {

using CliBench = CommandTest;

TEST_F(CliBench, ReportsEachWorkForEachNumberOfThreads) {
  const Ended ended =
      run("bench 'call 4x1x8x16' 'prefill 1x1x64x16' --threads 1 --seconds 0.001 --json");
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_NE(ended.err.find("call 4x1x8x16"), std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find('\033'), std::string::npos) << "progress, and this is no terminal";

  const auto report = nlohmann::json::parse(ended.out);
  EXPECT_EQ(report["schema_version"], 1);
  EXPECT_EQ(report["command"], "bench");
  const auto& machine = report["machine"];
  for (const char* name : {"cpu", "instruction_set", "compiler", "version"}) {
    EXPECT_NE(machine[name].get<std::string>(), "") << name;
  }
  EXPECT_GE(machine["cores"], 1);
  ASSERT_EQ(machine["peaks"].size(), 1U);
  EXPECT_EQ(machine["peaks"][0]["threads"], 1);
  EXPECT_GT(machine["peaks"][0]["gflops"], 0);
  EXPECT_GT(machine["peaks"][0]["gbytes_per_s"], 0);

  ASSERT_EQ(report["rows"].size(), 2U);
  const char* const names[] = {"call 4x1x8x16", "prefill 1x1x64x16"};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& row = report["rows"][i];
    EXPECT_EQ(row["work"], names[i]);
    EXPECT_EQ(row["threads"], 1);
    EXPECT_GE(row["samples"], 3);
    const double seconds = row["seconds"];
    EXPECT_GE(seconds, row["best_seconds"]);
    const Work work = parse_work(names[i]).value();
    EXPECT_DOUBLE_EQ(row["gflops"], work.flops() / seconds / 1e9);
    EXPECT_DOUBLE_EQ(row["gbytes_per_s"], work.bytes() / seconds / 1e9);
    EXPECT_DOUBLE_EQ(row["share_of_peak"],
                     row["gflops"].get<double>() / row["peak_gflops"].get<double>());
    EXPECT_DOUBLE_EQ(row["share_of_bandwidth"],
                     row["gbytes_per_s"].get<double>() / row["peak_gbytes_per_s"].get<double>());
    EXPECT_GE(row["extra_bytes"], 0);
    EXPECT_LT(row["extra_bytes"], 1 << 20);
  }
}

TEST_F(CliBench, WritesTheReportIntoAFileAndTheTableToTheStandardOutput) {
  const Ended ended = run("bench 'call 1x1x1x1' --seconds 0.001 --json 'a b/bench.json'");
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  EXPECT_NE(ended.out.find("call 1x1x1x1"), std::string::npos) << ended.out;
  const auto report = nlohmann::json::parse(content("a b/bench.json"));
  // Without --threads one and all.
  EXPECT_EQ(report["rows"].size(), std::thread::hardware_concurrency() == 1 ? 1U : 2U);
}

TEST_F(CliBench, RefusesWhatItCannotMeasure) {
  expect_refused("\"$HEADPROOF\" bench 'prefill 1x12'", {"\"prefill 1x12\"", "BxHxTxd"});
  expect_refused("\"$HEADPROOF\" bench 'call 1x1x1x1' conjure --json report",
                 {"\"conjure\"", "decode HxdxCACHED"});
  expect_refused("\"$HEADPROOF\" bench 'prefill 1000000x1000000x1x64' --seconds 0.001",
                 {"\"prefill 1000000x1000000x1x64\"", "memory"});
  for (const char* threads : {"0", "1,", "1,,1", "1;1", "one", "99999"}) {
    expect_refused("\"$HEADPROOF\" bench --threads '" + std::string(threads) + "'",
                   {"--threads " + std::string(threads)});
  }
  for (const char* seconds : {"0", "-1", "nan", "3601"}) {
    expect_refused("\"$HEADPROOF\" bench --seconds " + std::string(seconds), {"--seconds"});
  }
}

}  // namespace
}  // namespace headproof
