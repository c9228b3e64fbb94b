#include "attention/check.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace headproof {
namespace {

std::string text(const std::optional<Error>& error) { return error ? error->message : ""; }

TEST(Check, AShapeThatIsNotTheExpectedOneIsNamed) {
  std::vector<float> memory(120);
  const View<float, 4> four(memory.data(), {1, 2, 3, 4});
  const AnyView out("out", four);
  EXPECT_EQ(text(shape_error(out, {1, 2, 3, 4})), "");
  EXPECT_EQ(text(shape_error(out, {1, 2, 3, 5})),
            "out has shape [1, 2, 3, 4], and these inputs need [1, 2, 3, 5]");
  const View<float, 3> three(memory.data(), {1, 2, 3});
  const AnyView lse("lse", three);
  EXPECT_EQ(text(shape_error(lse, {1, 2, 3, 1})), "");
  EXPECT_EQ(text(shape_error(lse, {1, 2, 4, 1})),
            "lse has shape [1, 2, 3], and these inputs need [1, 2, 4]");
}

TEST(Check, ElementsWithoutMemoryAreNamed) {
  float one = 0;
  const auto error = [](View<float, 2> view) { return text(data_error({"q", view})); };
  EXPECT_EQ(error({nullptr, {2, 3}}), "q has shape [2, 3], but its data is null");
  EXPECT_EQ(error({nullptr, {2, 0}}), "");
  EXPECT_EQ(error({&one, {2, 3}, {0, 0}}), "");
  constexpr Index most = std::numeric_limits<Index>::max();
  EXPECT_EQ(error({&one, {2, 3}, {most, 1}}),
            "q (shape [2, 3], strides [9223372036854775807, 1]) reaches over more memory than "
            "there is");
  EXPECT_EQ(error({&one, {2, 3}, {-most - 1, 1}}),
            "q (shape [2, 3], strides [-9223372036854775808, 1]) reaches over more memory than "
            "there is");
  EXPECT_EQ(error({&one, {1, 1}, {most, -most - 1}}), "");  // no step is taken
}

TEST(Check, AResultWhoseElementsShareMemoryIsNamed) {
  std::vector<float> memory(100);
  const auto error = [&](std::array<Index, 3> shape, std::array<Index, 3> strides) {
    return text(self_overlap_error({"out", View<float, 3>(memory.data() + 50, shape, strides)}));
  };
  EXPECT_EQ(error({2, 3, 4}, {12, 4, 1}), "");
  EXPECT_EQ(error({2, 3, 4}, {1, 2, 6}), "");
  EXPECT_EQ(error({2, 3, 4}, {-12, 4, -1}), "");
  EXPECT_EQ(error({2, 1, 4}, {4, 0, 1}), "");
  EXPECT_EQ(error({2, 0, 4}, {0, 0, 0}), "");
  EXPECT_EQ(error({1, 1, 1}, {std::numeric_limits<Index>::min(), 0, 0}), "");
  EXPECT_EQ(error({2, 3, 4}, {0, 4, 1}),
            "out (shape [2, 3, 4], strides [0, 4, 1]) is written, but some of its elements share "
            "memory");
  EXPECT_NE(error({2, 3, 4}, {12, 3, 1}), "");
  EXPECT_NE(error({1, 3, 4}, {0, 1, 1}), "");
  EXPECT_NE(error({1, 3, 4}, {0, 1, -1}), "");
}

TEST(Check, ViewsThatShareMemoryAreNamedAndNeighboursAreNot) {
  std::vector<float> memory(200);
  const auto error = [](View<float, 4> output, View<float, 4> input) {
    return text(overlap_error({"out", output}, {"q", input}));
  };
  const std::array<Index, 4> shape{1, 2, 3, 4};
  float* const begin = memory.data();
  EXPECT_EQ(error({begin, shape}, {begin + 24, shape}), "");
  EXPECT_EQ(error({begin + 24, shape}, {begin, shape}), "");
  EXPECT_EQ(error({begin, shape}, {begin + 23, shape}),
            "out (shape [1, 2, 3, 4], strides [24, 12, 4, 1]) overlaps q (shape [1, 2, 3, 4], "
            "strides [24, 12, 4, 1]), which must not change while it is written");
  EXPECT_NE(error({begin, shape}, {begin, shape}), "");
  EXPECT_EQ(error({begin, {1, 2, 0, 4}}, {begin, shape}), "");
  // Backwards from its data.
  EXPECT_NE(error({begin, shape}, {begin + 46, shape, {-24, -12, -4, -1}}), "");
  EXPECT_EQ(error({begin, shape}, {begin + 47, shape, {-24, -12, -4, -1}}), "");
  // A packed array [batch, seq_len, 3, num_heads, head_dim] and its three parts.
  const std::array<Index, 4> packed{72, 4, 24, 1};
  EXPECT_EQ(error({begin, shape, packed}, {begin + 8, shape, packed}), "");
  EXPECT_EQ(error({begin, shape, packed}, {begin + 16, shape, packed}), "");
  EXPECT_NE(error({begin, shape, packed}, {begin + 4, shape, packed}), "");
  // The same in the length of a text, where not every element can be tried.
  std::vector<float> text_of_16384(16384 * 3 * 2 * 8);
  float* const first = text_of_16384.data();
  const std::array<Index, 4> sizes{1, 2, 16384, 8}, steps{0, 8, 3 * 2 * 8, 1};
  EXPECT_EQ(error({first, sizes, steps}, {first + 16, sizes, steps}), "");
  EXPECT_NE(error({first, sizes, steps}, {first + 15, sizes, steps}), "");
  // The same memory with other steps through it: every other element.
  EXPECT_EQ(error({begin, {1, 1, 1, 40}, {0, 0, 0, 2}}, {begin + 1, {1, 1, 4, 5}, {0, 0, 20, 4}}),
            "");
  EXPECT_NE(error({begin, {1, 1, 1, 40}, {0, 0, 0, 2}}, {begin + 2, {1, 1, 4, 5}, {0, 0, 20, 4}}),
            "");
  // Elements of different sizes.
  EXPECT_NE(text(overlap_error({"out", View<float, 1>(begin, {2})},
                               {"mask", View<char, 1>(reinterpret_cast<char*>(begin) + 7, {1})})),
            "");
  EXPECT_EQ(text(overlap_error({"out", View<float, 1>(begin, {2})},
                               {"mask", View<char, 1>(reinterpret_cast<char*>(begin) + 8, {1})})),
            "");
}

TEST(Check, OverlapsAreThoseOfTheListedAddresses) {
  // Three axes of up to four elements at strides of up to 12 reach 108 elements either way.
  const std::vector<std::int16_t> memory(2 * (20 + 108) + 1);
  std::mt19937 random(5);
  const auto draw = [&](Index low, Index high) {
    return std::uniform_int_distribution<Index>(low, high)(random);
  };
  int shared = 0;
  for (int trial = 0; trial < 20'000; ++trial) {
    const auto view = [&] {
      View<const std::int16_t, 3> drawn;
      drawn.data = memory.data() + 20 + 108 + draw(-20, 20);
      for (std::size_t axis = 0; axis < 3; ++axis) {
        drawn.shape[axis] = draw(1, 4);
        drawn.strides[axis] = draw(-12, 12);
      }
      return drawn;
    };
    const auto addresses = [](const View<const std::int16_t, 3>& of) {
      std::set<const void*> all;
      of.for_each([&](const std::int16_t& element) { all.insert(&element); });
      return all;
    };
    const auto one = view(), other = view();
    const auto of_one = addresses(one), of_other = addresses(other);
    const bool expected = std::any_of(of_one.begin(), of_one.end(),
                                      [&](const void* at) { return of_other.count(at) > 0; });
    EXPECT_EQ(overlap_error({"one", one}, {"other", other}).has_value(), expected);
    if (static_cast<Index>(of_one.size()) < one.size()) {
      EXPECT_TRUE(self_overlap_error({"one", one}).has_value());
    }
    shared += expected ? 1 : 0;
  }
  EXPECT_GT(shared, 5'000);
  EXPECT_LT(shared, 15'000);
}

TEST(Check, EveryOutputIsCheckedAgainstEverythingElse) {
  std::vector<float> q(8), k(8), out(8);
  std::vector<Index> lengths(4);
  const auto view = [](std::vector<float>& memory) { return View<float, 1>(memory.data(), {8}); };
  const auto error = [&](View<float, 1> first, View<float, 1> second,
                         const AttentionOptions& options = {}) {
    return text(
        memory_error({{"q", view(q)}, {"k", view(k)}}, options, {{"d_q", first}, {"d_k", second}}));
  };
  std::vector<float> second(8);
  EXPECT_EQ(error(view(out), view(second)), "");
  EXPECT_NE(error(view(out), view(out)).find("d_k (shape [8], strides [1]) overlaps d_q"),
            std::string::npos);
  EXPECT_NE(error(view(k), view(second)).find("d_q (shape [8], strides [1]) overlaps k"),
            std::string::npos);
  EXPECT_EQ(error(view(out), {nullptr, {8}}), "d_k has shape [8], but its data is null");
  EXPECT_NE(error({out.data(), {8}, {0}}, view(second)).find("d_q"), std::string::npos);
  EXPECT_NE(
      error(view(out), view(second), {.mask = View<const float, 4>(second.data(), {1, 1, 1, 8})})
          .find("d_k (shape [8], strides [1]) overlaps mask"),
      std::string::npos);
  const View<float, 1> on_lengths(reinterpret_cast<float*>(lengths.data()), {8});
  EXPECT_NE(error(view(out), on_lengths, {.key_length = View<const Index, 1>(lengths.data(), {4})})
                .find("overlaps key_length"),
            std::string::npos);
  EXPECT_EQ(text(memory_error({{"q", View<float, 1>(nullptr, {8})}}, {}, {})),
            "q has shape [8], but its data is null");
}

}  // namespace
}  // namespace headproof
