// Faults that others found in their attentions, as docs/reports.md lists them; the numbers are
// those of the reports' cases. Each asks the fast code, the canonical order and the definition
// alike.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <tbb/task_arena.h>

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <vector>

#include "attention/canonical.h"
#include "attention/test_tensors.h"
#include "attention/workspace.h"

namespace headproof {
namespace {

using Tensor4 = Tensor<float, 4>;
using View4 = View<const float, 4>;
using Rows = std::vector<std::vector<double>>;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float lowest = std::numeric_limits<float>::lowest();
constexpr double u = 0x1p-24;

struct Implementation {
  const char* name;
  AttentionOutput<float> (*attend)(View4 q, View4 k, View4 v, const AttentionOptions& options);
};

const Implementation implementations[] = {
    {"fused",
     [](View4 q, View4 k, View4 v, const AttentionOptions& options) {
       return attention<float>(q, k, v, options).value();
     }},
    {"canonical", attention_canonical<float>},
    {"reference",
     [](View4 q, View4 k, View4 v, const AttentionOptions& options) {
       auto stages = attention_reference<float>(q, k, v, options);
       return AttentionOutput<float>{std::move(stages.out), std::move(stages.lse)};
     }},
};

class Reports : public testing::TestWithParam<Implementation> {
 protected:
  AttentionOutput<float> attend(View4 q, View4 k, View4 v,
                                const AttentionOptions& options = {}) const {
    return GetParam().attend(q, k, v, options);
  }
};

INSTANTIATE_TEST_SUITE_P(Every, Reports, testing::ValuesIn(implementations),
                         [](const auto& instance) { return std::string(instance.param.name); });

Tensor4 tensor(std::array<Index, 4> shape, std::initializer_list<float> values) {
  Tensor4 made(shape);
  std::copy(values.begin(), values.end(), made.begin());
  return made;
}

/// Values that make out the weights.
Tensor4 identity(Index n) {
  Tensor4 made({1, 1, n, n});
  for (Index i = 0; i < n; ++i) made(0, 0, i, i) = 1;
  return made;
}

/// A mask of exactly as many elements as it has, so that a read past it is seen by sanitizers.
class Flags {
 public:
  explicit Flags(std::array<Index, 4> shape)
      : shape_(shape),
        flags_(new bool[static_cast<std::size_t>(View<bool, 4>(nullptr, shape).size())]()) {}
  Flags(std::array<Index, 4> shape, std::initializer_list<bool> flags) : Flags(shape) {
    std::copy(flags.begin(), flags.end(), flags_.get());
  }
  View<bool, 4> view() const { return {flags_.get(), shape_}; }
  operator Mask() const {
    return View<const bool, 4>(view());
  }  // NOLINT(google-explicit-constructor)

 private:
  std::array<Index, 4> shape_;
  std::shared_ptr<bool[]> flags_;
};

/// Four queries and keys of which many reports are made; with a causal mask `causal_out` is right.
const Tensor4 base_q = tensor({1, 1, 4, 2}, {1, 0, 0, 1, 1, 1, 2, -1});
const Tensor4 base_k = tensor({1, 1, 4, 2}, {1, 1, 0, 1, 1, -1, 0.5F, 0.5F});
const Tensor4 base_v = tensor({1, 1, 4, 2}, {1, 0, 0, 1, 2, -1, 4, 3});
const Rows causal_out = {{1, 0},
                         {0.5, 0.5},
                         {0.856033835302118, 0.143966164697882},
                         {1.9864891120222103, -0.2910872248387963}};
const Rows causal_A = {
    {1, 0, 0, 0},
    {0.5, 0.5, 0, 0},
    {0.575975345215362, 0.28399540974126003, 0.14002924504337802, 0},
    {0.16505584228681128, 0.04012783737605825, 0.6789160058065615, 0.115900314530569}};
const AttentionOptions causal{.causal = Causal::top_left};

// What an element may be off, with values up to 5 in size: a logit of at most 12 in size before the
// scale is off by head_dim + 2 <= 4 roundings, and a weight relatively by twice that (its own logit
// and those of the sum) and 8 more from exp, sum, product and division.
constexpr double tolerance = (2 * 4 * 12 + 8) * 5 * u;

void expect_rows(View<const float, 2> found, const Rows& expected) {
  ASSERT_EQ(found.shape[0], static_cast<Index>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(found.shape[1], static_cast<Index>(expected[i].size()));
    for (std::size_t c = 0; c < expected[i].size(); ++c) {
      const float value = found(i, c);
      if (expected[i][c] == 0) {
        EXPECT_EQ(value, 0) << "row " << i << ", column " << c;
      } else {
        EXPECT_NEAR(value, expected[i][c], tolerance) << "row " << i << ", column " << c;
      }
    }
  }
}

/// Weights of one query whose scores, at most 12 in size, are exact: relatively as far off as
/// `tolerance` says without the roundings of the scores, but for those of a softcap and of the
/// mask.
void expect_weights(const Tensor4& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), static_cast<Index>(expected.size()));
  for (std::size_t j = 0; j < expected.size(); ++j) {
    EXPECT_NEAR(found.data()[j], expected[j], (2 * 4 * 12 + 8) * u * expected[j]) << j;
  }
}

/// Equal bits, where any NaN equals any NaN.
bool same(View4 a, View4 b) { return same(Tensor4(a), Tensor4(b)); }

/// Rows first .. first + count - 1 of every head.
View4 rows_of(const Tensor4& all, Index first, Index count) {
  View4 some = all.view();
  some.data += first * some.strides[2];
  some.shape[2] = count;
  return some;
}

/// Query 0 over keys with these scores, of which it may see some, beside a query that sees them
/// all. The keys lie `distance` apart, and between them lie keys that hold NaN and that nobody
/// sees: the reports' tiles are small, the blocks and spans here are not.
struct OneQuery {
  Tensor4 q, k, v;
  Flags mask;

  OneQuery(const std::vector<float>& scores, const std::vector<bool>& allow,
           const std::vector<float>& values, Index distance)
      : q(tensor({1, 1, 2, 1}, {1, 1})),
        k({1, 1, static_cast<Index>(scores.size()) * distance, 1}),
        v(k.shape()),
        mask({1, 1, 2, k.shape()[2]}) {
    std::fill(k.begin(), k.end(), nan);
    std::fill(v.begin(), v.end(), nan);
    for (std::size_t n = 0; n < scores.size(); ++n) {
      const Index j = static_cast<Index>(n) * distance;
      k(0, 0, j, 0) = scores[n];
      v(0, 0, j, 0) = values[n];
      mask.view()(0, 0, 0, j) = allow[n];
      mask.view()(0, 0, 1, j) = true;
    }
  }
};
constexpr Index distances[] = {1, 32, 512, 1024};  // 2 to a block, 2 to a span, 1 to a span

TEST_P(Reports, AHeadThatIsMaskedWhollyIsZeroAndLeavesTheOthersAlone) {  // BC003
  const auto q = draw<float>({1, 3, 5, 1}, 1), k = draw<float>({1, 3, 5, 1}, 2),
             v = draw<float>({1, 3, 5, 1}, 3);
  const Flags mask({1, 3, 1, 1}, {true, true, false});
  const auto found = attend(q, k, v, {.mask = mask}), without = attend(q, k, v);
  for (Index i = 0; i < 5; ++i) {
    for (Index h : {0, 1}) EXPECT_EQ(found.out(0, h, i, 0), without.out(0, h, i, 0));
    EXPECT_EQ(found.out(0, 2, i, 0), 0);
    EXPECT_EQ(found.lse(0, 2, i), -infinity);
  }
}

TEST_P(Reports, TilesWithoutAnAllowedKeyBeforeTheFirstAllowedOneDoNoHarm) {  // BC006
  const std::vector<bool> last_two = {false, false, false, false, true, true}, all(6, true);
  const std::vector<float> values = {9, 9, 9, 9, 1, -1};
  for (Index distance : distances) {
    for (const OneQuery& one :
         {OneQuery({0.3F, 1.2F, -0.7F, 2, 1, -1}, last_two, values, distance),
          OneQuery({-infinity, -infinity, -infinity, -infinity, 1, -1}, all, values, distance)}) {
      EXPECT_NEAR(attend(one.q, one.k, one.v, {.scale = 1, .mask = one.mask}).out.data()[0],
                  0.7615941559557647, tolerance)
          << distance;
    }
  }
}

TEST_P(Reports, ALaterTileOfSmallerScoresHasItsShareAndNoMore) {  // BC008
  const std::vector<double> weights = {0.9929762720777149, 0.006690621492609113,
                                       0.00033310642967602984, 0};
  for (Index distance : distances) {
    for (std::size_t j = 0; j < weights.size(); ++j) {
      std::vector<float> values(weights.size());
      values[j] = 1;
      const OneQuery one({5, 0, -3, -infinity}, {true, true, true, false}, values, distance);
      EXPECT_NEAR(attend(one.q, one.k, one.v, {.scale = 1, .mask = one.mask}).out.data()[0],
                  weights[j], 16 * u * weights[j])  // exact scores: exp, sums, merges, division
          << distance << " " << j;
    }
  }
}

TEST_P(Reports, EmptyPartsMergeToNothingAndChangeNoOther) {  // BC013
  Tensor4 q({1, 1, 1, 1}), k({1, 1, 3 * 1024, 1}), v({1, 1, 3 * 1024, 2});
  std::copy_n(std::begin({2.0F, 4.0F}), 2, v.data() + 2 * (2 * 1024 + 5));
  Flags mask({1, 1, 1, 3 * 1024});
  const auto nothing = attend(q, k, v, {.mask = mask});
  expect_rows(nothing.out[0][0], {{0, 0}});
  EXPECT_EQ(nothing.lse(0, 0, 0), -infinity);
  mask.view()(0, 0, 0, 2 * 1024 + 5) = true;
  const auto last = attend(q, k, v, {.mask = mask});
  EXPECT_EQ(last.out(0, 0, 0, 0), 2);
  EXPECT_EQ(last.out(0, 0, 0, 1), 4);
  EXPECT_EQ(last.lse(0, 0, 0), 0);
}

TEST_P(Reports, ARowOfManyEqualScoresSumsToOne) {  // BC025
  constexpr Index keys = 4096;
  Tensor4 q({1, 1, 1, 1}), k({1, 1, keys, 1}), v({1, 1, keys, 2});
  for (Index j = 0; j < keys; ++j) v(0, 0, j, 0) = 1;
  v(0, 0, keys - 1, 1) = 1;
  const auto out = attend(q, k, v).out;
  EXPECT_EQ(out(0, 0, 0, 0), 1);
  EXPECT_EQ(out(0, 0, 0, 1), 0.000244140625F);
}

TEST_P(Reports, TheLowestNumberAddedToALowScoreIsANumberAndMakesNoNaN) {  // BC026
  const auto q = tensor({1, 1, 1, 1}, {1}), k = tensor({1, 1, 2, 1}, {-20, -20});
  for (float low : {-65504.0F, lowest}) {
    const auto mask = tensor({1, 1, 1, 2}, {low, low});
    const auto found = attend(q, k, identity(2), {.scale = 1, .mask = View4(mask)});
    expect_rows(found.out[0][0], {{0.5, 0.5}});
    // ln 2 and one rounding of the sum of -20, the lowest number and ln 2.
    EXPECT_NEAR(found.lse(0, 0, 0), double{low} - 20 + std::log(2.0), 2 * u * -double{low});
  }
}

TEST_P(Reports, EveryNumberThatIsUsedForAMaskGivesTheSameWeights) {  // BC028
  const auto expected = attend(base_q, base_k, identity(4), causal).out;
  expect_rows(expected[0][0], causal_A);
  for (float low : {-infinity, -1e9F, -1e10F, lowest}) {
    Tensor4 mask({1, 1, 4, 4});
    for (Index i = 0; i < 4; ++i) {
      for (Index j = i + 1; j < 4; ++j) mask(0, 0, i, j) = low;
    }
    EXPECT_TRUE(same(attend(base_q, base_k, identity(4), {.mask = View4(mask)}).out, expected));
  }
}

TEST_P(Reports, ChunksThatFollowACacheSeeIt) {  // BC035
  for (Causal corner : {Causal::top_left, Causal::bottom_right}) {
    AttentionOptions options{.causal = corner};
    if (corner == Causal::top_left) options.query_offset = 2;
    expect_rows(attend(rows_of(base_q, 2, 2), base_k, base_v, options).out[0][0],
                {causal_out[2], causal_out[3]});
  }
}

TEST_P(Reports, TheFirstRowOfAChunkDoesNotSeeTheOthersWhateverTheHistory) {  // BC037
  for (Index history : {0, 1, 63, 64, 65, 127, 128}) {
    const auto k = draw<float>({1, 1, history + 5, 8}, 1),
               v = draw<float>({1, 1, history + 5, 8}, 2);
    const auto q = draw<float>({1, 1, 5, 8}, 3);
    auto other_q = q, other_k = k, other_v = v;
    for (Index c = 0; c < 8; ++c) {
      for (Index i = 1; i < 5; ++i) {
        other_q(0, 0, i, c) = nan;
        other_k(0, 0, history + i, c) = 1e30F;
        other_v(0, 0, history + i, c) = infinity;
      }
    }
    const AttentionOptions options{.causal = Causal::bottom_right};
    const auto before = attend(q, k, v, options).out;
    const auto after = attend(other_q, other_k, other_v, options).out;
    EXPECT_TRUE(same(rows_of(before, 0, 1), rows_of(after, 0, 1))) << history;
    EXPECT_FALSE(same(before, after));
  }
}

TEST_P(Reports, DecodingInChunksOfAnySizeGivesTheRowsOfThePrefill) {  // BC038
  const Index seq_len = 160;
  const auto q = draw<float>({1, 1, seq_len, 8}, 1), k = draw<float>({1, 1, seq_len, 8}, 2);
  const auto v = draw<float>({1, 1, seq_len, 8}, 3);
  const auto whole = attend(q, k, v, causal).out;
  for (Index chunk : {1, 7, 64, 97}) {
    for (Index i = 0; i < seq_len; i += chunk) {
      const Index count = std::min(chunk, seq_len - i);
      const auto step = attend(rows_of(q, i, count), rows_of(k, 0, i + count),
                               rows_of(v, 0, i + count), {.causal = Causal::bottom_right});
      ASSERT_TRUE(same(step.out, rows_of(whole, i, count))) << chunk << " from row " << i;
    }
  }
}

TEST_P(Reports, EveryWayOfAskingKeepsTheCausalMask) {  // BC040
  expect_rows(attend(base_q, base_k, base_v, causal).out[0][0], causal_out);
  expect_rows(attend(base_q, base_k, identity(4), causal).out[0][0], causal_A);
}

TEST_P(Reports, AMaskAndTheCausalOneBothHold) {  // BC043
  const Flags keep({1, 1, 1, 4}, {true, false, true, true});
  const AttentionOptions options{.causal = Causal::top_left, .mask = keep};
  expect_rows(attend(base_q, base_k, base_v, options).out[0][0],
              {{1, 0},
               {1, 0},
               {1.1955703174930432, -0.19557031749304313},
               {2.069535079121235, -0.34506163957232894}});
  expect_rows(attend(base_q, base_k, identity(4), options).out[0][0],
              {{1, 0, 0, 0},
               {1, 0, 0, 0},
               {0.8044296825069569, 0, 0.19557031749304313, 0},
               {0.17195606739506702, 0, 0.707298359346782, 0.12074557325815101}});
}

TEST_P(Reports, ASequencesBitsDoNotDependOnTheRestOfTheBatch) {  // BC051
  for (const auto& [q, k, v] :
       {std::array{base_q, base_k, base_v},
        std::array{draw<float>({1, 1, 131, 16}, 1), draw<float>({1, 1, 131, 16}, 2),
                   draw<float>({1, 1, 131, 16}, 3)}}) {
    const auto alone = attend(q, k, v, causal).out;
    for (Index batch : {2, 4, 8}) {
      const auto repeated = [batch](const Tensor4& one) {
        auto shape = one.shape();
        shape[0] = batch;
        Tensor4 many(shape);
        for (Index n = 0; n < many.size(); ++n) {
          many.data()[n] = one.data()[n % one.size()] * (n < one.size() ? 1.0F : -1.0F);
        }
        return many;
      };
      auto found = attend(repeated(q), repeated(k), repeated(v), causal).out;
      auto first = found.view();
      first.shape[0] = 1;
      EXPECT_TRUE(same(first, alone)) << batch;
    }
  }
}

TEST_P(Reports, APrefixHasTheBitsOfTheWhole) {  // BC053
  const auto whole = attend(base_q, base_k, base_v, causal).out;
  for (Index t : {1, 2, 3, 4}) {
    const auto part =
        attend(rows_of(base_q, 0, t), rows_of(base_k, 0, t), rows_of(base_v, 0, t), causal).out;
    EXPECT_TRUE(same(part, rows_of(whole, 0, t))) << t;
  }
}

TEST_P(Reports, ASequenceOfLengthZeroInABatchIsZero) {  // BC058
  const auto twice = [](std::initializer_list<float> values) {
    Tensor4 both({2, 1, 2, 2});
    std::copy(values.begin(), values.end(), both.begin());
    std::copy(values.begin(), values.end(), both.begin() + 4);
    return both;
  };
  const std::array<Index, 2> lengths = {2, 0};
  const auto found = attend(twice({1, 0, 0, 1}), twice({1, 1, 0, 1}), twice({1, 0, 0, 1}),
                            {.causal = Causal::top_left, .key_length = {lengths.data(), {2}}});
  expect_rows(found.out[0][0], {{1, 0}, {0.5, 0.5}});
  expect_rows(found.out[1][0], {{0, 0}, {0, 0}});
}

TEST_P(Reports, AMaskWithOneColumnStandsForAllKeys) {  // BC065
  const auto q = tensor({1, 1, 2, 2}, {1, 0, 0, 1});
  const auto k = tensor({1, 1, 3, 2}, {1, 1, 0, 1, 1, -1});
  const auto v = tensor({1, 1, 3, 2}, {1, 0, 0, 1, 2, -1});
  const Flags mask({1, 1, 2, 1}, {true, false});
  expect_rows(attend(q, k, v, {.mask = mask}).out[0][0],
              {{1.2033362780393577, -0.20333627803935772}, {0, 0}});
}

TEST_P(Reports, AMaskOfPaddingHidesColumnsNotRows) {  // BC067
  const Flags mask({1, 1, 1, 4}, {true, true, false, false});
  const auto A = attend(base_q, base_k, identity(4), {.mask = mask}).out;
  for (Index i = 0; i < 4; ++i) {
    EXPECT_GT(A(0, 0, i, 0), 0);
    EXPECT_GT(A(0, 0, i, 1), 0);
    EXPECT_EQ(A(0, 0, i, 2), 0);
    EXPECT_EQ(A(0, 0, i, 3), 0);
  }
  EXPECT_NEAR(A(0, 0, 0, 0), 0.6697615493266569, tolerance);
  EXPECT_NEAR(A(0, 0, 1, 0), 0.5, tolerance);
}

TEST_P(Reports, AMaskOfASequenceIsThatOfAllItsHeadsAndOfNoOtherSequence) {  // BC068
  const std::array<Index, 2> lengths = {3, 1};
  const auto q = draw<float>({2, 2, 1, 4}, 1), k = draw<float>({2, 2, 4, 4}, 2);
  Tensor4 v({2, 2, 4, 4});
  Flags mask({2, 1, 1, 4});
  for (Index b = 0; b < 2; ++b) {
    for (Index j = 0; j < 4; ++j) {
      mask.view()(b, 0, 0, j) = j < lengths[static_cast<std::size_t>(b)];
      for (Index h = 0; h < 2; ++h) v(b, h, j, j) = 1;
    }
  }
  for (const auto& options :
       {AttentionOptions{.mask = mask}, AttentionOptions{.key_length = {lengths.data(), {2}}}}) {
    const auto A = attend(q, k, v, options).out;
    for (Index b = 0; b < 2; ++b) {
      for (Index h = 0; h < 2; ++h) {
        for (Index j = 0; j < 4; ++j) {
          EXPECT_EQ(A(b, h, 0, j) > 0, j < lengths[static_cast<std::size_t>(b)]);
        }
      }
    }
  }
}

TEST_P(Reports, TrueInAMaskMeansMayAttend) {  // BC070
  const auto q = tensor({1, 1, 1, 2}, {1, 0}), k = tensor({1, 1, 2, 2}, {1, 1, 0, 1});
  const Flags mask({1, 1, 1, 2}, {true, false});
  expect_rows(attend(q, k, identity(2), {.mask = mask}).out[0][0], {{1, 0}});
}

TEST_P(Reports, EveryWayOfAskingHeedsTheScale) {  // BC081
  Tensor4 q({1, 1, 1, 16}), k({1, 1, 4, 16});
  q(0, 0, 0, 0) = 4;
  for (Index j = 0; j < 4; ++j) k(0, 0, j, 0) = static_cast<float>(2 - j);
  expect_weights(attend(q, k, identity(4)).out, {0.6439142598879724, 0.23688281808991013,
                                                 0.08714431874203257, 0.03205860328008499});
}

TEST_P(Reports, WhatFillsTheLastTileHasNoWeightWithOrWithoutASoftcap) {  // BC091 and BC157
  std::vector<Index> lengths = {1023, 1024, 1025};
  for (Index n = 1; n <= 2 * 64 + 1; ++n) lengths.push_back(n);
  for (Index n : lengths) {
    for (float score : {0.0F, 1.0F, -5.0F}) {
      Tensor4 q({1, 1, 1, 1}), k({1, 1, n, 1}), v({1, 1, n, 1});
      q(0, 0, 0, 0) = 1;
      std::fill(k.begin(), k.end(), score);
      v(0, 0, n - 1, 0) = 1;
      for (double softcap : {0.0, 1.0}) {
        const auto out = attend(q, k, v, {.scale = 1, .softcap = softcap}).out;
        // Equal logits: each weight is exp(0), their sum the number n, and the quotient is rounded.
        ASSERT_EQ(out(0, 0, 0, 0), 1 / static_cast<float>(n)) << n << " keys of " << score;
      }
    }
  }
}

TEST_P(Reports, ASoftcapChangesTheWeightsAndZeroMeansNone) {  // BC093
  const auto q = tensor({1, 1, 1, 1}, {1}), k = tensor({1, 1, 3, 1}, {10, 0, -10});
  const auto with = [&, this](double softcap) {
    return attend(q, k, identity(3), {.scale = 1, .softcap = softcap}).out;
  };
  expect_weights(with(0), {0.999954600070331, 4.539786860886666e-05, 2.061060046209062e-09});
  expect_weights(with(5), {0.9919348456786748, 0.008000623890802559, 6.453043052266755e-05});
  expect_weights(with(50), {0.9999482334315577, 5.176388880334877e-05, 2.679638899755961e-09});
}

TEST_P(Reports, AWindowCountsTheQuerysOwnPosition) {  // BC094
  Tensor4 zeros({1, 1, 6, 1});
  const auto A = attend(zeros, zeros, identity(6), {.causal = Causal::top_left, .window = 3}).out;
  for (Index i = 0; i < 6; ++i) {
    const Index keys = std::min<Index>(i + 1, 3);
    for (Index j = 0; j < 6; ++j) {
      EXPECT_EQ(A(0, 0, i, j), j > i - keys && j <= i ? 1 / static_cast<float>(keys) : 0.0F);
    }
  }
}

TEST_P(Reports, DecodingUnderAWindowGivesTheRowsOfThePrefill) {  // BC096
  const auto q = tensor({1, 1, 6, 2}, {1, 0, 0, 1, 1, 1, 2, -1, 1, 2, -1, 1});
  const auto k = tensor({1, 1, 6, 2}, {1, 1, 0, 1, 1, -1, 0.5F, 0.5F, 2, 0, 0, -1});
  const auto v = tensor({1, 1, 6, 2}, {1, 0, 0, 1, 2, -1, 4, 3, 0, 5, 6, 0});
  const auto whole = attend(q, k, v, {.causal = Causal::top_left, .window = 3}).out;
  const Rows expected = {{1, 0},
                         {0.5, 0.5},
                         {0.856033835302118, 0.143966164697882},
                         {2.1815031016254847, -0.3486307702733666},
                         {1.6731049335296593, 3.8344980615455824},
                         {4.007873839309008, 2.428072260862976}};
  expect_rows(whole[0][0], expected);
  for (Index i = 0; i < 6; ++i) {
    const auto step = attend(rows_of(q, i, 1), rows_of(k, 0, i + 1), rows_of(v, 0, i + 1),
                             {.causal = Causal::bottom_right, .window = 3});
    EXPECT_TRUE(same(step.out, rows_of(whole, i, 1))) << i;
    // A cache that keeps no more than the window: another first key, so equal but for roundings.
    const Index first = std::max<Index>(0, i - 2), kept = i + 1 - first;
    expect_rows(
        attend(rows_of(q, i, 1), rows_of(k, first, kept), rows_of(v, first, kept)).out[0][0],
        {expected[static_cast<std::size_t>(i)]});
  }
}

TEST_P(Reports, LeftPaddingIsHiddenAndTheRestIsTheSequenceWithoutIt) {  // BC097
  for (float pad : {9.0F, nan}) {
    const auto padded = [pad](std::initializer_list<float> values) {
      Tensor4 all({1, 1, 5, 2});
      std::fill(all.begin(), all.end(), pad);
      std::copy(values.begin(), values.end(), all.begin() + 4);
      return all;
    };
    const Index first_key = 2;
    const auto out =
        attend(padded({1, 0, 0, 1, 1, 1}), padded({1, 1, 0, 1, 1, -1}), padded({1, 0, 0, 1, 2, -1}),
               {.causal = Causal::top_left, .first_key = {&first_key, {1}}})
            .out;
    const auto unpadded =
        attend(rows_of(base_q, 0, 3), rows_of(base_k, 0, 3), rows_of(base_v, 0, 3), causal).out;
    expect_rows(out[0][0], {{0, 0}, {0, 0}, causal_out[0], causal_out[1], causal_out[2]});
    EXPECT_TRUE(same(rows_of(out, 2, 3), unpadded));
  }
}

TEST_P(Reports, ADecodedQueryHasTheKernelOfItsOwnPosition) {  // BC102 and BC103
  const std::vector<double> expected = {0.006337224958555429, 0.07720320478522084,
                                        0.34600075908099565, 0.570458811175228};
  // By numbers that are added, and by plain q and k: q_i = (i, 1), k_j = (j, -j^2 / 2).
  Tensor4 bias({1, 1, 1, 4}), zeros({1, 1, 4, 2}), keys({1, 1, 4, 2});
  for (Index j = 0; j < 4; ++j) {
    bias(0, 0, 0, j) = -0.5F * static_cast<float>((3 - j) * (3 - j));
    keys(0, 0, j, 0) = static_cast<float>(j);
    keys(0, 0, j, 1) = -0.5F * static_cast<float>(j * j);
  }
  expect_weights(attend(rows_of(zeros, 3, 1), zeros, identity(4), {.mask = View4(bias)}).out,
                 expected);
  expect_weights(attend(tensor({1, 1, 1, 2}, {3, 1}), keys, identity(4), {.scale = 1}).out,
                 expected);
  // Causality and windows count from that position too.
  const AttentionOptions at_3{.causal = Causal::top_left, .query_offset = 3, .window = 2};
  expect_rows(attend(rows_of(zeros, 3, 1), zeros, identity(4), at_3).out[0][0], {{0, 0, 0.5, 0.5}});
}

TEST_P(Reports, AWeightThatUnderflowsIsExactlyZero) {  // BC110
  const auto q = tensor({1, 1, 1, 1}, {1}), k = tensor({1, 1, 3, 1}, {0, 0, -1e30F});
  const auto out = attend(q, k, identity(3), {.scale = 1}).out;
  expect_rows(out[0][0], {{0.5, 0.5, 0}});
}

TEST_P(Reports, NaNAndInfinityAreNotAssumedAway) {  // BC112
  const auto q = tensor({1, 1, 1, 1}, {1}), v = tensor({1, 1, 2, 1}, {1, 3});
  const auto out_of = [&, this](float first, float second) {
    return attend(q, tensor({1, 1, 2, 1}, {first, second}), v).out.data()[0];
  };
  EXPECT_TRUE(std::isnan(out_of(nan, 0)));
  EXPECT_TRUE(std::isnan(out_of(infinity, 0)));
  EXPECT_TRUE(std::isnan(out_of(-infinity, -infinity)));
  EXPECT_EQ(out_of(-infinity, 0), 3);
}

TEST_P(Reports, OffsetsBeyondThirtyTwoBitsAreReached) {  // BC113
  // Two keys, 2^31 + 3 elements apart; of the memory between them no page is ever touched.
  constexpr Index distance = (Index{1} << 31) + 3;
  const std::size_t bytes = sizeof(float) * (distance + 1);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "8 GiB of addresses are not to be had";
  auto* const first = static_cast<float*>(memory);
  first[0] = 0;
  first[distance] = 1;
  const View4 far(first, {1, 1, 2, 1}, {0, 0, distance, 1});
  const auto q = tensor({1, 1, 1, 1}, {1});
  const double weight = 1 / (1 + std::exp(-1.0));
  EXPECT_NEAR(attend(q, far, far).out.data()[0], weight, 8 * u);
  const View4 far_heads(first, {1, 2, 1, 1}, {0, distance, 0, 1});
  EXPECT_EQ(attend(far_heads, far_heads, far_heads).out.data()[1], 1);
  munmap(memory, bytes);
}

TEST_P(Reports, AWindowAloneHasAnEffectAndWithAMaskToo) {  // BC159
  const Flags all({1, 1, 1, 1}, {true});
  for (const auto& options :
       {AttentionOptions{.causal = Causal::top_left, .window = 1},
        AttentionOptions{.window = 1, .window_right = 0},
        AttentionOptions{.causal = Causal::top_left, .window = 1, .mask = all}}) {
    expect_rows(attend(base_q, base_k, base_v, options).out[0][0],
                {{1, 0}, {0, 1}, {2, -1}, {4, 3}});
  }
}

TEST_P(Reports, AMaskOfDoublesIsUsedInTheTypeOfTheProblem) {  // BC160
  const auto q = tensor({1, 1, 2, 1}, {1, 1}), k = tensor({1, 1, 2, 1}, {0, 0});
  const Tensor<double, 4> wide_q({1, 1, 2, 1}), wide_k({1, 1, 2, 1});
  Tensor<double, 4> wide_v({1, 1, 2, 2}), mask({1, 1, 2, 2});
  wide_v(0, 0, 0, 0) = wide_v(0, 0, 1, 1) = 1;
  mask(0, 0, 0, 1) = mask(0, 0, 1, 0) = mask(0, 0, 1, 1) = -1e308;
  const AttentionOptions options{.mask = View<const double, 4>(mask)};
  // -1e308 is -infinity in float, which forbids; in double it is a number like others.
  expect_rows(attend(q, k, identity(2), options).out[0][0], {{1, 0}, {0, 0}});
  const auto wide = attention<double>(wide_q, wide_k, wide_v, options).value();
  EXPECT_EQ(wide.out(0, 0, 0, 1), 0);
  EXPECT_EQ(wide.out(0, 0, 1, 0), 0.5);
  EXPECT_EQ(wide.out(0, 0, 1, 1), 0.5);
}

// What only the fast code does.

TEST(FusedReports, OutIsTheSameWhetherOrNotLseIsAskedFor) {  // BC003 and BC040
  const Flags mask({1, 3, 1, 1}, {true, true, false});
  const auto q = draw<float>({1, 3, 5, 1}, 1), k = draw<float>({1, 3, 5, 1}, 2),
             v = draw<float>({1, 3, 5, 1}, 3);
  const AttentionOptions options{.causal = Causal::top_left, .mask = mask};
  const auto both = attention<float>(q, k, v, options).value();
  Tensor4 out(v.shape());
  ASSERT_TRUE(attention_into<float>(q, k, v, options, out.view(), {}));
  EXPECT_TRUE(same(out, both.out));
}

TEST(FusedReports, ABufferOfTheCallerIsWrittenWhereASequenceIsEmptyToo) {  // BC018
  const std::array<Index, 2> lengths = {2, 0};
  const AttentionOptions options{.key_length = {lengths.data(), {2}}};
  const auto q = draw<float>({2, 1, 2, 2}, 1), k = draw<float>({2, 1, 2, 2}, 2);
  Tensor4 out({2, 1, 2, 2}), d_q(out.shape()), d_k(out.shape()), d_v(out.shape());
  Tensor<float, 3> lse({2, 1, 2});
  for (Tensor4* buffer : {&out, &d_q, &d_k, &d_v}) std::fill(buffer->begin(), buffer->end(), nan);
  std::fill(lse.begin(), lse.end(), nan);
  ASSERT_TRUE(attention_into<float>(q, k, k, options, out.view(), lse.view()));
  ASSERT_TRUE(attention_backward_into<float>(q, k, k, out, lse, q, options, d_q.view(), d_k.view(),
                                             d_v.view()));
  for (const Tensor4* buffer : {&out, &d_q, &d_k, &d_v}) {
    for (Index n = 0; n < 4; ++n) {
      EXPECT_TRUE(std::isfinite(buffer->data()[n]));
      EXPECT_EQ(buffer->data()[4 + n], 0);
    }
  }
  EXPECT_EQ(lse(1, 0, 0), -infinity);
}

TEST(FusedReports, MemoryGrowsWithTheLengthNotWithItsSquare) {  // BC050
  const auto extra_bytes = [](Index seq_len) {
    const auto q = draw<float>({1, 1, seq_len, 4}, 1);
    reset_workspace_peak();
    const auto forward = attention<float>(q, q, q, causal).value();
    const auto backward = attention_backward<float>(q, q, q, forward.out, forward.lse, q, causal);
    EXPECT_TRUE(backward);
    return workspace_peak_bytes();
  };
  std::size_t of_1500 = 0, of_3000 = 0;
  tbb::task_arena(1).execute([&] {  // each thread has memory of its own
    of_1500 = extra_bytes(1500);
    of_3000 = extra_bytes(3000);
  });
  EXPECT_GT(of_1500, std::size_t{0});
  EXPECT_LE(of_3000, 2 * of_1500);
  EXPECT_LT(of_3000, sizeof(float) * 3000 * 3000 / 16);
}

TEST(FusedReports, ThreadsThatComeAndGoBetweenCallsChangeNothing) {  // BC115
  for (Index rows : {2, 700}) {
    const auto q = draw<float>({1, 2, rows, 16}, 1);
    const auto expected = attention_canonical<float>(q, q, q, causal);
    const auto gradients =
        attention_canonical_backward<float>(q, q, q, expected.out, expected.lse, q, causal);
    for (int threads : {1, 2, 3, 16, 96, 2, 1}) {
      tbb::task_arena(threads).execute([&] {
        const auto found = attention<float>(q, q, q, causal).value();
        EXPECT_TRUE(same(found.out, expected.out)) << threads;
        const auto back =
            attention_backward<float>(q, q, q, found.out, found.lse, q, causal).value();
        EXPECT_TRUE(same(back.d_q, gradients.d_q)) << threads;
        EXPECT_TRUE(same(back.d_k, gradients.d_k)) << threads;
      });
    }
  }
}

}  // namespace
}  // namespace headproof
