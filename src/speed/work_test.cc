#include "speed/work.h"

#include <gtest/gtest.h>

#include "speed/bench.h"

namespace headproof {
namespace {

/// A work and what is known about it beforehand.
struct Known {
  const char* name;
  double flops, bytes;
};

/// Counted by hand: pairs of query and key, operations for each, and numbers of 4 bytes.
constexpr Known known[] = {
    {"prefill 1x1x1x1", 1 * 4, 4 * 4},
    {"prefill 2x3x5x7", 2 * 3 * 15 * 4 * 7, 4 * 4 * 2 * 3 * 5 * 7},
    {"call 4x1x8x16", 4 * 36 * 4 * 16, 4 * 4 * 4 * 8 * 16},
    {"prefill 1x6/2x5x3/4", 6 * 15 * 2 * (3 + 4), 4 * 5 * (6 + 2) * (3 + 4)},
    {"forward+backward 1x1x2x3", 3 * 14 * 3, 4 * (8 * 2 * 3 + 2)},
    {"forward+backward 1x1x1x2/5", 2 * (4 * 2 + 3 * 5), 4 * (4 * 2 + 4 * 5 + 1)},
    {"head 4x8x32->16", 4 * 8 * 32 * 16 * 3 * 2 + 4 * 36 * 4 * 16,
     4 * (4 * 8 * 32 + 3 * 16 * 32 + 4 * 8 * 16)},
    {"decode 32x128x4096", 32 * 4 * 128 * 4096., 4 * 32 * 2 * 128 * 4096.},
    {"decode 6/2x3/4x5", 6 * 5 * 2 * (3 + 4), 4 * 2 * 5 * (3 + 4)},
};

TEST(Work, CountsTheOperationsAndBytesThatItsSizesNeed) {
  for (const Known& expected : known) {
    const auto work = parse_work(expected.name);
    ASSERT_TRUE(work) << work.error().message;
    EXPECT_EQ(work->flops(), expected.flops) << expected.name;
    EXPECT_EQ(work->bytes(), expected.bytes) << expected.name;
  }
  for (const std::string& name : default_works) EXPECT_TRUE(parse_work(name)) << name;
}

TEST(Work, QuotesANameThatIsNone) {
  for (const char* name :
       {"", "prefill", "prefill ", "Prefill 1x1x1x1", "prefill 1x1x1", "prefill 1x1x1x1x1",
        "prefill 1x1x1x1 ", "prefill  1x1x1x1", "prefill 0x1x1x1", "prefill -1x1x1x1",
        "prefill 1x1x1x2147483648", "prefill 1x7/2x3x4", "prefill 1x1/2x3x4", "prefill 1x1x1x1/0",
        "prefill 1x1/1/1x1x1", "head 1x1x1", "head 1x1x1->", "decode 1x1", "decode 1x1x1->1"}) {
    const auto work = parse_work(name);
    ASSERT_FALSE(work) << name;
    EXPECT_TRUE(work.error().message.starts_with("\"" + std::string(name) + "\" is no work"))
        << work.error().message;
  }
}

}  // namespace
}  // namespace headproof
