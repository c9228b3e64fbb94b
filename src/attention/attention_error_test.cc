#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "headproof/attention.h"

namespace headproof {
namespace {

using Shape = std::array<Index, 4>;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr Index most = std::numeric_limits<Index>::max();

std::string error(Shape q, Shape k, Shape v, const AttentionOptions& options = {}) {
  const auto found = attention_error(q, k, v, options);
  return found ? found->message : "";
}

/// For two sequences of three queries and five keys.
std::string error_of(const AttentionOptions& options) {
  return error({2, 4, 3, 8}, {2, 2, 5, 8}, {2, 2, 5, 7}, options);
}

TEST(AttentionError, RightProblemsHaveNone) {
  EXPECT_EQ(error({1, 4, 3, 8}, {1, 2, 5, 8}, {1, 2, 5, 7}), "");
  EXPECT_EQ(error({1, 4, 3, 8}, {1, 4, 5, 8}, {1, 4, 5, 0}), "");
  EXPECT_EQ(error({0, 4, 3, 8}, {0, 4, 5, 8}, {0, 4, 5, 1}), "");
  EXPECT_EQ(error({1, 0, 3, 8}, {1, 0, 5, 8}, {1, 0, 5, 1}), "");
  EXPECT_EQ(error({1, 0, 3, 8}, {1, 2, 5, 8}, {1, 2, 5, 1}), "");
  EXPECT_EQ(error({1, 4, 0, 8}, {1, 4, 0, 8}, {1, 4, 0, 8}), "");
  EXPECT_EQ(error({1, 1, 3, 0}, {1, 1, 5, 0}, {1, 1, 5, 8}, {.scale = 1.0}), "");
  EXPECT_EQ(error({1, 1, 1 << 20, 64}, {1, 1, 1 << 20, 64}, {1, 1, 1 << 20, 64}), "");
}

TEST(AttentionError, ShapesThatDoNotFitAreNamedWithBothValues) {
  EXPECT_EQ(error({1, 1, 3, 8}, {2, 1, 5, 8}, {2, 1, 5, 8}),
            "q has batch size 1, and k 2 (shapes q [1, 1, 3, 8], k [2, 1, 5, 8], v [2, 1, 5, 8])");
  EXPECT_EQ(error({1, 1, 3, 8}, {1, 1, 5, 8}, {2, 1, 5, 8}),
            "k has batch size 1, and v 2 (shapes q [1, 1, 3, 8], k [1, 1, 5, 8], v [2, 1, 5, 8])");
  EXPECT_EQ(error({1, 1, 3, 8}, {1, 1, 5, 7}, {1, 1, 5, 8}),
            "q has head_dim (its last size) 8, and k 7 (shapes q [1, 1, 3, 8], k [1, 1, 5, 7], v "
            "[1, 1, 5, 8])");
  EXPECT_EQ(error({1, 1, 3, 8}, {1, 1, 5, 8}, {1, 1, 4, 8}),
            "k has number of keys 5, and v 4 (shapes q [1, 1, 3, 8], k [1, 1, 5, 8], v [1, 1, 4, "
            "8])");
  EXPECT_EQ(error({1, 4, 3, 8}, {1, 4, 5, 8}, {1, 2, 5, 8}),
            "k has number of heads 4, and v 2 (shapes q [1, 4, 3, 8], k [1, 4, 5, 8], v [1, 2, 5, "
            "8])");
  EXPECT_EQ(error({1, 4, 3, 8}, {1, 3, 5, 8}, {1, 3, 5, 8}),
            "the heads of k and v, 3, must divide those of q, 4 (shapes q [1, 4, 3, 8], k [1, 3, "
            "5, 8], v [1, 3, 5, 8])");
  EXPECT_EQ(error({1, 4, 3, 8}, {1, 0, 5, 8}, {1, 0, 5, 8}),
            "the heads of k and v, 0, must divide those of q, 4 (shapes q [1, 4, 3, 8], k [1, 0, "
            "5, 8], v [1, 0, 5, 8])");
  EXPECT_EQ(error({1, 1, 3, 0}, {1, 1, 5, 0}, {1, 1, 5, 8}),
            "head_dim is 0, where 1 / sqrt(head_dim), the default of scale, has no value (shapes q "
            "[1, 1, 3, 0], k [1, 1, 5, 0], v [1, 1, 5, 8])");
}

TEST(AttentionError, SizesThatNoMemoryHasAreRefused) {
  EXPECT_EQ(error({1, 1, -3, 8}, {1, 1, 5, 8}, {1, 1, 5, 8}),
            "q, k and v need sizes from 0 on (shapes q [1, 1, -3, 8], k [1, 1, 5, 8], v [1, 1, 5, "
            "8])");
  EXPECT_EQ(error({1, 1, 3, 8}, {1, 1, 5, 8}, {1, 1, 5, std::numeric_limits<Index>::min()}),
            "q, k and v need sizes from 0 on (shapes q [1, 1, 3, 8], k [1, 1, 5, 8], v [1, 1, 5, "
            "-9223372036854775808])");
  const std::string bytes = "these sizes make more bytes than 64 bits count";
  EXPECT_TRUE(error({1, 1, most, 8}, {1, 1, 5, 8}, {1, 1, 5, 8}).starts_with(bytes));
  EXPECT_TRUE(error({1, 1, 3, 8}, {1, 1, most, 8}, {1, 1, most, 8}).starts_with(bytes));
  EXPECT_TRUE(error({1, 1, 3, 8}, {1, 1, 5, 8}, {1, 1, 5, most}).starts_with(bytes));
  // Each fits, and the scores and out do not; nothing is there to compute, 2^70 times.
  const Index many = Index{1} << 35;
  EXPECT_TRUE(
      error({1, 1, many, 0}, {1, 1, many, 0}, {1, 1, many, 0}, {.scale = 1.0}).starts_with(bytes));
  EXPECT_TRUE(error({1, 1, many, 1}, {1, 1, 0, 1}, {1, 1, 0, many}).starts_with(bytes));
}

TEST(AttentionError, NumbersOutOfRangeAreNamedWithTheRange) {
  for (const auto& [scale, text] : {std::pair{std::nan(""), "nan"},
                                    {infinity, "inf"},
                                    {-infinity, "-inf"},
                                    {1e39, "1e+39"},
                                    {-1e39, "-1e+39"}}) {
    EXPECT_EQ(error_of({.scale = scale}),
              std::string("scale is ") + text + "; it must be a number up to 3.40282e+38 in size");
  }
  for (const double scale : {0.0, -1.0, 3.4e38}) EXPECT_EQ(error_of({.scale = scale}), "");

  for (const auto& [softcap, text] : {std::pair{-1.0, "-1"},
                                      {std::nan(""), "nan"},
                                      {infinity, "inf"},
                                      {1e39, "1e+39"},
                                      {1e-39, "1e-39"}}) {
    EXPECT_EQ(error_of({.softcap = softcap}), std::string("softcap is ") + text +
                                                  "; it must be 0 (none) or from 1.17549e-38 to "
                                                  "3.40282e+38");
  }
  for (const double softcap : {0.0, -0.0, 0.5, 1e-37}) {
    EXPECT_EQ(error_of({.softcap = softcap}), "");
  }

  const Index limit = Index{1} << 60;
  EXPECT_EQ(error_of({.window = 0}),
            "window is 0; it counts the query's own position and must be from 1 to 2^60");
  EXPECT_EQ(error_of({.window = most}),
            "window is 9223372036854775807; it counts the query's own position and must be from 1 "
            "to 2^60");
  EXPECT_EQ(error_of({.window_right = -1}), "window_right is -1; it must be from 0 to 2^60");
  EXPECT_EQ(error_of({.window_right = limit + 1}),
            "window_right is 1152921504606846977; it must be from 0 to 2^60");
  EXPECT_EQ(error_of({.query_offset = -limit - 1}),
            "query_offset is -1152921504606846977; it must be from -2^60 to 2^60");
  EXPECT_EQ(error_of({.query_offset = most}),
            "query_offset is 9223372036854775807; it must be from -2^60 to 2^60");
  for (const Index sign : {-1, 1}) {
    EXPECT_EQ(error_of({.causal = Causal::top_left,
                        .query_offset = sign * limit,
                        .window = limit,
                        .window_right = limit}),
              "");
  }
  EXPECT_EQ(error_of({.causal = Causal::bottom_right, .query_offset = 2}),
            "query_offset is 2, but causal is bottom_right, which places the queries itself; "
            "causal top_left takes a query_offset");
}

TEST(AttentionError, AMaskThatDoesNotFitIsNamed) {
  const std::vector<float> zeros(2 * 4 * 3 * 5);
  const auto with_shape = [&](Shape shape) {
    return error_of({.mask = View<const float, 4>(zeros.data(), shape)});
  };
  for (const Shape& shape : {Shape{2, 4, 3, 5}, {1, 1, 1, 1}, {2, 1, 1, 5}, {1, 4, 3, 1}}) {
    EXPECT_EQ(with_shape(shape), "");
  }
  for (const Shape& shape :
       {Shape{3, 4, 3, 5}, {2, 2, 3, 5}, {2, 4, 4, 5}, {2, 4, 3, 4}, {0, 1, 1, 1}, {1, 1, 1, -1}}) {
    EXPECT_NE(with_shape(shape), "");
  }
  EXPECT_EQ(with_shape({1, 1, 3, 4}),
            "mask has shape [1, 1, 3, 4], but each size must be 1 or that of [2, 4, 3, 5], [batch, "
            "num_heads, seq_len_q, seq_len_k]");
  EXPECT_EQ(error_of({.mask = View<const bool, 4>()}),
            "mask has shape [0, 0, 0, 0], but each size must be 1 or that of [2, 4, 3, 5], [batch, "
            "num_heads, seq_len_q, seq_len_k]");
  EXPECT_EQ(error_of({.mask = View<const double, 4>(nullptr, {1, 1, 3, 5})}),
            "mask has shape [1, 1, 3, 5], but its data is null");
  EXPECT_EQ(error({2, 4, 3, 8}, {2, 2, 0, 8}, {2, 2, 0, 8},
                  {.mask = View<const bool, 4>(nullptr, {1, 1, 3, 0})}),
            "");
}

TEST(AttentionError, LengthsThatDoNotFitAreNamedWithTheirPlace) {
  const auto lengths = [](const std::vector<Index>& first, const std::vector<Index>& length) {
    const auto view = [](const std::vector<Index>& values) {
      return View<const Index, 1>(values.data(), {static_cast<Index>(values.size())});
    };
    return error_of({.first_key = view(first), .key_length = view(length)});
  };
  EXPECT_EQ(lengths({}, {}), "");
  EXPECT_EQ(lengths({0, 5}, {0, 5}), "");
  EXPECT_EQ(lengths({5, 5}, {}), "");
  EXPECT_EQ(lengths({1}, {}), "first_key has 1 entries, and the batch size is 2");
  EXPECT_EQ(lengths({}, {1, 2, 3}), "key_length has 3 entries, and the batch size is 2");
  EXPECT_EQ(lengths({0, -1}, {}), "first_key[1] is -1; it must be from 0 to the number of keys, 5");
  EXPECT_EQ(lengths({}, {6, 0}), "key_length[0] is 6; it must be from 0 to the number of keys, 5");
  EXPECT_EQ(lengths({0, 4}, {5, 3}), "first_key[1] is 4, beyond key_length[1] is 3");
  EXPECT_EQ(error_of({.key_length = View<const Index, 1>(nullptr, {2})}),
            "key_length has shape [2], but its data is null");
  // As many bytes are between the two entries as no memory has.
  const Index entry = 1;
  EXPECT_EQ(error_of({.key_length = View<const Index, 1>(&entry, {2}, {most})}),
            "key_length (shape [2], strides [9223372036854775807]) reaches over more memory than "
            "there is");
}

}  // namespace
}  // namespace headproof
