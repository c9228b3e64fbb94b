// headproof attend as users meet it: numbers worked out by hand, every kind of file that is read,
// and what is refused.

#include <bit>
#include <cmath>
#include <limits>

#include "command.h"
#include "headproof/attention.h"
#include "headproof/head.h"
#include "headproof/npy.h"
#include "headproof/safetensors.h"

namespace headproof {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The bytes of a version 1 .npy file with this header and these data.
std::string npy_bytes(const std::string& descr, bool fortran_order, const std::string& shape,
                      std::string_view data) {
  const std::string header = "{'descr': '" + descr +
                             "', 'fortran_order': " + (fortran_order ? "True" : "False") +
                             ", 'shape': " + shape + "}\n";
  std::string bytes("\x93NUMPY\1\0", 8);
  bytes += {static_cast<char>(header.size()), '\0'};
  return bytes + header + std::string(data);
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

using Shape = std::vector<Index>;

class CliAttend : public CommandTest {
 protected:
  /// q, k, v with head_dim 1, so that the scale is 1: query 0 weighs keys 1 : 1, query 1 weighs
  /// them 1 : 3, because exp(ln 3) = 3.
  template <class T>
  void save_by_hand() const {
    save<T>("q", {2, 1}, {0, std::log(T(3))});
    save<T>("k", {2, 1}, {0, 1});
    save<T>("v", {2, 1}, {4, 8});
  }
  Ended attend(const std::string& options = "") const {
    return run("attend --q q.npy --k k.npy --v v.npy --out o " + options);
  }
  Array result(const std::string& name) const {
    return read_npy(folder_ / "o" / (name + ".npy")).value();
  }
  /// The result has this shape, elements of type T, and these values within 4 units of roundoff.
  template <class T>
  void expect_result(const std::string& name, const Shape& shape,
                     const std::vector<double>& values) const {
    SCOPED_TRACE(name);
    const Array array = result(name);
    EXPECT_EQ(array.shape, shape);
    const auto* found = std::get_if<std::vector<T>>(&array.values);
    ASSERT_NE(found, nullptr) << "the element type is another one";
    ASSERT_EQ(found->size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double error = std::fabs(static_cast<double>((*found)[i]) - values[i]);
      EXPECT_TRUE(static_cast<double>((*found)[i]) == values[i] ||
                  error <= 4 * std::numeric_limits<T>::epsilon() * (1 + std::fabs(values[i])))
          << "element " << i << " is " << (*found)[i] << ", not " << values[i];
    }
  }
  void refused(const std::string& options, const std::vector<std::string>& named) const {
    expect_refused("\"$HEADPROOF\" attend --out o " + options, named);
  }
  /// Refused when `file` takes the place of q, of k and of v, each time with `named`.
  void refused_in_every_place(const std::string& file, std::vector<std::string> named) const {
    named.push_back(file);
    refused("--q " + file + " --k k.npy --v v.npy", named);
    refused("--q q.npy --k " + file + " --v v.npy", named);
    refused("--q q.npy --k k.npy --v " + file, named);
  }
};

TEST_F(CliAttend, GivesTheNumbersWorkedOutByHand) {
  save_by_hand<float>();
  save<float>("d_out", {2, 1}, {1, 1});
  const Ended ended = attend("--A --lse --d-out d_out.npy");
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  EXPECT_EQ(ended.out,
            "o/out.npy  [2, 1]\no/A.npy  [2, 2]\no/lse.npy  [2]\no/d_q.npy  [2, 1]\n"
            "o/d_k.npy  [2, 1]\no/d_v.npy  [2, 1]\n");
  EXPECT_EQ(tree("o").size(), 6U);
  expect_result<float>("out", {2, 1}, {6, 7});
  expect_result<float>("A", {2, 2}, {0.5, 0.5, 0.25, 0.75});
  expect_result<float>("lse", {2}, {std::log(2.0), std::log(4.0)});
  // d A = d_out v^T = (4, 8) in both rows; delta = 6 and 7; d scores = A (d A - delta).
  expect_result<float>("d_q", {2, 1}, {1, 0.75});
  expect_result<float>("d_k", {2, 1}, {-0.75 * std::log(3.0), 0.75 * std::log(3.0)});
  expect_result<float>("d_v", {2, 1}, {0.75, 1.25});
}

TEST_F(CliAttend, WritesOnlyWhatIsAskedFor) {
  save_by_hand<float>();
  EXPECT_EQ(attend().exit_code, 0);
  EXPECT_EQ(tree("o").size(), 1U);
  EXPECT_EQ(tree("o").count("out.npy"), 1U);
}

TEST_F(CliAttend, GivesTheNumbersOfThePyTorchHead) {
  // The first two positions of the lecture's first batch element, and two channels of v.
  save<float>("q", {2, 16},
              {0.4494015f,   1.4350909f,   1.0319089f,    -0.12835519f, -0.41774383f,  0.13114266f,
               -0.3869874f,  -1.5881246f,  -0.72388417f,  -0.19840404f, 0.40773144f,   0.14983173f,
               -0.5695471f,  -0.23341095f, -0.2953104f,   -0.5989883f,  -0.117525145f, -0.08327623f,
               -1.3996934f,  0.10980268f,  0.28367296f,   0.6042603f,   0.49274108f,   0.36363187f,
               -0.03723895f, -0.10594348f, -0.009964611f, 0.47253597f,  -0.70286995f,  0.320659f,
               0.4202233f,   0.5873311f});
  save<float>("k", {2, 16},
              {-0.6707709f,   -0.34472677f, 0.32626903f, -0.585836f,  1.0657839f,   -0.34669107f,
               -0.32023454f,  -0.6915388f,  0.6336856f,  0.47832507f, 0.14533326f,  1.1472887f,
               -0.053777143f, -0.4273574f,  -1.1779511f, 1.2845954f,  0.15231393f,  0.4324911f,
               0.5416889f,    -0.41364732f, 0.6272865f,  0.35143045f, -0.08281459f, 0.9763763f,
               0.98756486f,   -0.44141006f, -0.8211614f, 0.27861694f, -0.08388933f, -0.37119606f,
               -0.36864525f,  -0.019679785f});
  save<float>("v", {2, 2}, {-0.7381887f, -0.9552869f, -0.072023295f, 0.37334254f});
  EXPECT_EQ(attend("--A --causal top_left").exit_code, 0);
  expect_result<float>("A", {2, 2}, {1, 0, 0.5079047, 0.49209532});
  expect_result<float>("out", {2, 2}, {-0.7381887, -0.9552869, -0.41037184, -0.3014746});
}

TEST_F(CliAttend, TheCornerOfTheCausalMaskMattersWhenThereAreMoreKeysThanQueries) {
  save<float>("q", {2, 1}, {0, 0});  // Every allowed key weighs the same.
  save<float>("k", {3, 1}, {1, 2, 3});
  save<float>("v", {3, 1}, {3, 6, 12});
  EXPECT_EQ(attend("--A --lse").exit_code, 0);
  expect_result<float>("out", {2, 1}, {7, 7});
  EXPECT_EQ(attend("--A --lse --causal none").exit_code, 0);
  expect_result<float>("out", {2, 1}, {7, 7});
  EXPECT_EQ(attend("--A --lse --causal top_left").exit_code, 0);
  expect_result<float>("out", {2, 1}, {3, 4.5});
  expect_result<float>("A", {2, 3}, {1, 0, 0, 0.5, 0.5, 0});
  expect_result<float>("lse", {2}, {0, std::log(2.0)});
  EXPECT_EQ(attend("--A --lse --causal bottom_right").exit_code, 0);
  expect_result<float>("out", {2, 1}, {4.5, 7});
  expect_result<float>("A", {2, 3}, {0.5, 0.5, 0, 1 / 3.0, 1 / 3.0, 1 / 3.0});
  expect_result<float>("lse", {2}, {std::log(2.0), std::log(3.0)});
}

TEST_F(CliAttend, AQueryBeforeTheFirstKeySeesNothing) {
  save<float>("q", {3, 1}, {0, 0, 0});
  save<float>("k", {2, 1}, {1, 2});
  save<float>("v", {2, 1}, {3, 6});
  save<float>("d_out", {3, 1}, {1, 1, 1});
  EXPECT_EQ(attend("--A --lse --d-out d_out.npy --causal bottom_right").exit_code, 0);
  expect_result<float>("out", {3, 1}, {0, 3, 4.5});
  expect_result<float>("A", {3, 2}, {0, 0, 1, 0, 0.5, 0.5});
  expect_result<float>("lse", {3}, {-infinity, 0, std::log(2.0)});
  expect_result<float>("d_v", {2, 1}, {1.5, 0.5});
}

TEST_F(CliAttend, TheScaleIsOneOverTheRootOfHeadDimUnlessGiven) {
  const float a = std::log(3.0f);
  save<float>("q", {1, 4}, {a, a, 0, 0});
  save<float>("k", {2, 4}, {0, 0, 0, 0, 1, 1, 5, 5});
  save<float>("v", {2, 1}, {4, 8});
  EXPECT_EQ(attend().exit_code, 0);
  expect_result<float>("out", {1, 1}, {7});  // 2 ln 3 / sqrt(4): 1 : 3
  EXPECT_EQ(attend("--scale 1").exit_code, 0);
  expect_result<float>("out", {1, 1}, {7.6});  // 1 : 9
  EXPECT_EQ(attend("--scale 0").exit_code, 0);
  expect_result<float>("out", {1, 1}, {6});
  EXPECT_EQ(attend("--scale=-5e-1").exit_code, 0);
  expect_result<float>("out", {1, 1}, {5});  // 3 : 1
}

TEST_F(CliAttend, ResultsHaveTheRankOfTheInputs) {
  const float a = std::log(3.0f);
  save<float>("q", {2, 1, 1}, {0, a});  // [batch, seq_len, head_dim]
  save<float>("k", {2, 2, 1}, {0, 1, 1, 0});
  save<float>("v", {2, 2, 1}, {4, 8, 12, 16});
  save<float>("d_out", {2, 1, 1}, {1, 1});
  EXPECT_EQ(attend("--A --lse --d-out d_out.npy").exit_code, 0);
  expect_result<float>("out", {2, 1, 1}, {6, 13});
  expect_result<float>("A", {2, 1, 2}, {0.5, 0.5, 0.75, 0.25});
  expect_result<float>("lse", {2, 1}, {std::log(2.0), std::log(4.0)});
  EXPECT_EQ(result("d_k").shape, (Shape{2, 2, 1}));

  save<float>("q", {1, 2, 1, 1}, {0, a});  // [batch, num_heads, seq_len, head_dim]
  save<float>("k", {1, 2, 2, 1}, {0, 1, 1, 0});
  save<float>("v", {1, 2, 2, 1}, {4, 8, 12, 16});
  save<float>("d_out", {1, 2, 1, 1}, {1, 1});
  EXPECT_EQ(attend("--A --lse --d-out d_out.npy").exit_code, 0);
  expect_result<float>("out", {1, 2, 1, 1}, {6, 13});
  expect_result<float>("A", {1, 2, 1, 2}, {0.5, 0.5, 0.75, 0.25});
  expect_result<float>("lse", {1, 2, 1}, {std::log(2.0), std::log(4.0)});
}

TEST_F(CliAttend, GroupedQueryHeadsShareTheirKeyAndValueHead) {
  save<float>("q", {1, 4, 1, 1}, {0, 0, 0, 0});
  save<float>("k", {1, 2, 2, 1}, {0, 0, 0, 0});
  save<float>("v", {1, 2, 2, 1}, {0, 2, 10, 20});
  save<float>("d_out", {1, 4, 1, 1}, {1, 3, 1, 1});
  EXPECT_EQ(attend("--d-out d_out.npy").exit_code, 0);
  expect_result<float>("out", {1, 4, 1, 1}, {1, 1, 15, 15});
  expect_result<float>("d_v", {1, 2, 2, 1}, {2, 2, 1, 1});
}

TEST_F(CliAttend, Float64StaysFloat64AndFloat16BecomesFloat32) {
  save_by_hand<double>();
  save<double>("d_out", {2, 1}, {1, 1});
  EXPECT_EQ(attend("--lse --d-out d_out.npy").exit_code, 0);
  expect_result<double>("out", {2, 1}, {6, 7});
  expect_result<double>("lse", {2}, {std::log(2.0), std::log(4.0)});
  expect_result<double>("d_q", {2, 1}, {1, 0.75});

  // 0 and 1 as halves are 0x0000 and 0x3C00; 4 and 8 are 0x4400 and 0x4800.
  write("q.npy", npy_bytes("<f2", false, "(2, 1)", std::string_view("\0\0\0\0", 4)));
  write("k.npy", npy_bytes("<f2", false, "(2, 1)", std::string_view("\0\0\0\x3C", 4)));
  write("v.npy", npy_bytes("<f2", false, "(2, 1)", std::string_view("\0\x44\0\x48", 4)));
  EXPECT_EQ(attend().exit_code, 0);
  expect_result<float>("out", {2, 1}, {6, 6});
}

TEST_F(CliAttend, ReadsFortranOrderAndBigEndian) {
  const float a = std::log(3.0f);
  save<float>("q", {2, 2}, {0, 0, a, 0});
  save<float>("k", {2, 2}, {0, 5, 1, 5});
  save<float>("v", {2, 2}, {4, 40, 8, 80});
  EXPECT_EQ(attend("--scale 1").exit_code, 0);
  expect_result<float>("out", {2, 2}, {6, 60, 7, 70});
  const std::string expected = content("o/out.npy");

  write("q.npy", npy_bytes("<f4", true, "(2, 2)", bytes_of<float>({0, a, 0, 0})));
  write("k.npy", npy_bytes("<f4", true, "(2, 2)", bytes_of<float>({0, 1, 5, 5})));
  write("v.npy", npy_bytes("<f4", true, "(2, 2)", bytes_of<float>({4, 8, 40, 80})));
  EXPECT_EQ(attend("--scale 1").exit_code, 0);
  EXPECT_EQ(content("o/out.npy"), expected);

  for (const char* name : {"q", "k", "v"}) {
    const std::string file = std::string(name) + ".npy";
    std::string bytes = content(file);
    bytes.replace(bytes.find("<f4"), 1, ">");
    const std::size_t data = bytes.size() - 4 * sizeof(float);
    for (std::size_t i = data; i < bytes.size(); i += sizeof(float)) {
      std::swap(bytes[i], bytes[i + 3]);
      std::swap(bytes[i + 1], bytes[i + 2]);
    }
    write(file, bytes);
  }
  EXPECT_EQ(attend("--scale 1").exit_code, 0);
  EXPECT_EQ(content("o/out.npy"), expected);
}

TEST_F(CliAttend, SequencesMayBeEmpty) {
  save<float>("q", {2, 1}, {1, 2});
  save<float>("k", {0, 1}, {});
  save<float>("v", {0, 3}, {});
  EXPECT_EQ(attend("--A --lse").exit_code, 0);
  expect_result<float>("out", {2, 3}, {0, 0, 0, 0, 0, 0});
  expect_result<float>("A", {2, 0}, {});
  expect_result<float>("lse", {2}, {-infinity, -infinity});
  save<float>("q", {0, 1}, {});
  save<float>("k", {2, 1}, {1, 2});
  save<float>("v", {2, 3}, {1, 2, 3, 4, 5, 6});
  save<float>("d_out", {0, 3}, {});
  EXPECT_EQ(attend("--A --lse --d-out d_out.npy").exit_code, 0);
  expect_result<float>("out", {0, 3}, {});
  expect_result<float>("A", {0, 2}, {});
  expect_result<float>("d_k", {2, 1}, {0, 0});
}

TEST_F(CliAttend, AHeadIsItsProjectionsAndTheAttentionBetweenThem) {
  Generator generator(7);
  const HeadWeights weights = draw_head_weights(5, 3, generator);
  const auto x = generator.randn(2, 4, 5);
  write("x.npy", format_npy(x));
  write("q.npy", format_npy(project<float>(x, weights.query)));
  write("k.npy", format_npy(project<float>(x, weights.key)));
  write("v.npy", format_npy(project<float>(x, weights.value)));
  NamedArrays named = to_named_arrays(weights);
  write("head.safetensors", format_safetensors(named));
  named["tril"] = Tensor<float, 2>({4, 4});
  write("tril.safetensors", format_safetensors(named));

  const std::string options = " --A --lse --causal top_left";
  EXPECT_EQ(attend(options).exit_code, 0);
  const auto expected = tree("o");
  EXPECT_EQ(expected.size(), 3U);
  for (const std::string file : {"head.safetensors", "tril.safetensors"}) {
    const Ended ended = run("attend --x x.npy --weights " + file + " --out head" + options);
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_TRUE(tree("head") == expected) << file;
  }
  const Tensor<float, 2> first(x.view()[0]);
  write("x.npy", format_npy(first));
  EXPECT_EQ(run("attend --x x.npy --weights head.safetensors --out o").exit_code, 0);
  EXPECT_EQ(result("out").shape, (Shape{4, 3}));

  // The weights that the lecture writes are read too.
  EXPECT_EQ(run("lecture --out lecture --dump dump").exit_code, 0);
  const Ended ended = run(
      "attend --x dump/003_x.npy --weights lecture/head.safetensors --causal top_left --A --out o");
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(content("o/A.npy"), content("dump/008_A.npy"));
  EXPECT_EQ(content("o/out.npy"), content("dump/009_out.npy"));
}

TEST_F(CliAttend, EveryImplementationObeysEveryOption) {
  save<float>("q", {3, 1}, {0, 0, 0});  // Every allowed key weighs the same.
  save<float>("k", {4, 1}, {1, 2, 3, 4});
  save<float>("v", {4, 1}, {1, 2, 4, 8});
  save<Index>("one", {1}, {1});
  save<Index>("three", {1}, {3});
  write("flags.npy", npy_bytes("|b1", false, "(3, 4)",
                               std::string_view("\0\1\0\1"
                                                "\1\0\0\0"
                                                "\0\0\0\0",
                                                12)));
  const float forbidden = -std::numeric_limits<float>::infinity();
  save<float>("bias", {1, 4}, {0, forbidden, std::log(3.0F), forbidden});
  save<double>("wide", {3, 1}, {0, -infinity, 0});
  for (const std::string name : {"reference", "canonical", "fused"}) {
    SCOPED_TRACE(name);
    const auto gives = [&](const std::string& options, const std::vector<double>& out) {
      SCOPED_TRACE(options);
      const Ended ended = attend(options + " --implementation " + name);
      EXPECT_EQ(ended.exit_code, 0) << ended.err;
      expect_result<float>("out", {3, 1}, out);
    };
    gives("", {3.75, 3.75, 3.75});
    gives("--causal top_left --query-offset 1", {1.5, 7 / 3.0, 3.75});
    gives("--causal top_left --query-offset=-1", {0, 1, 1.5});
    gives("--causal top_left --window 1", {1, 2, 4});
    gives("--window 2", {3.75, 3.75, 14 / 3.0});
    gives("--window 1 --window-right 1", {1.5, 3, 6});
    gives("--first-key one.npy", {14 / 3.0, 14 / 3.0, 14 / 3.0});
    gives("--key-length three.npy --causal bottom_right", {1, 1.5, 7 / 3.0});
    gives("--first-key one.npy --key-length three.npy", {3, 3, 3});
    gives("--mask flags.npy", {5, 1, 0});
    gives("--mask bias.npy", {3.25, 3.25, 3.25});
    gives("--mask wide.npy", {3.75, 0, 3.75});
    gives("--mask flags.npy --causal top_left", {0, 1, 0});
  }
}

TEST_F(CliAttend, ASoftcapBoundsTheScores) {
  // With a cap of ln 3 no score is above ln 3: 1 : 3.
  save<float>("q", {1, 1}, {1});
  save<float>("k", {2, 1}, {0, 1e6});
  save<float>("v", {2, 1}, {4, 8});
  for (const std::string name : {"reference", "canonical", "fused"}) {
    const Ended ended = attend("--softcap 1.0986122886681098 --implementation " + name);
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    expect_result<float>("out", {1, 1}, {7});
  }
}

TEST_F(CliAttend, AMaskHasTheAxesOfQOrFewer) {
  const auto with_axes = [&](const Shape& before, const Shape& mask, std::vector<float> values) {
    const auto shape = [&](Index seq_len) {
      Shape whole = before;
      whole.insert(whole.end(), {seq_len, 1});
      return whole;
    };
    save<float>("q", shape(1), {0, 0});
    save<float>("k", shape(2), {0, 0, 0, 0});
    save<float>("v", shape(2), {1, 3, 5, 7});
    save<float>("mask", mask, std::move(values));
    const Ended ended = attend("--mask mask.npy");
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    return std::get<std::vector<float>>(result("out").values);
  };
  const float no = -std::numeric_limits<float>::infinity();
  const std::vector<float> first_and_last = {1, 7}, first = {1, 5};
  EXPECT_EQ(with_axes({2}, {2, 1, 2}, {0, no, no, 0}), first_and_last);  // [batch, q, k]
  EXPECT_EQ(with_axes({2}, {2, 1, 1, 2}, {0, no, no, 0}), first_and_last);
  EXPECT_EQ(with_axes({1, 2}, {2, 1, 2}, {0, no, no, 0}), first_and_last);  // [heads, q, k]
  EXPECT_EQ(with_axes({2, 1}, {2, 1, 1, 2}, {0, no, no, 0}), first_and_last);
  EXPECT_EQ(with_axes({2, 1}, {1, 1, 2}, {0, no}), first);
  EXPECT_EQ(with_axes({2}, {2}, {0, no}), first);
}

TEST_F(CliAttend, GradientsKnowTheOptions) {
  save_by_hand<float>();
  save<float>("d_out", {2, 1}, {1, 1});
  const double tanh = std::tanh(std::log(3.0) / 2), weight = 1 / (1 + std::exp(-2 * tanh));
  for (const std::string name : {"reference", "fused"}) {
    SCOPED_TRACE(name);
    const std::string gradients = "--d-out d_out.npy --implementation " + name;
    EXPECT_EQ(attend(gradients + " --causal top_left --window 1").exit_code, 0);
    expect_result<float>("d_q", {2, 1}, {0, 0});  // a weight that is 1 whatever the score
    expect_result<float>("d_v", {2, 1}, {1, 1});
    // A cap of c makes the score of query 1 and key 1 c tanh(ln 3 / c), and its derivative
    // 1 - tanh^2; A (d A - delta) is the weights' part, as without a cap.
    EXPECT_EQ(attend(gradients + " --softcap 2").exit_code, 0);
    const double d_score = weight * (1 - weight) * 4 * (1 - tanh * tanh);
    expect_result<float>("d_q", {2, 1}, {1, d_score});
  }
  for (const std::string option : {"--A", "--d-out d_out.npy"}) {
    refused("--q q.npy --k k.npy --v v.npy --implementation canonical " + option,
            {option.substr(0, 3), "reference"});
  }
}

TEST_F(CliAttend, OptionsThatDoNotFitAreRefused) {
  save_by_hand<float>();
  save<Index>("lengths", {2}, {1, 1});
  save<Index>("beyond", {1}, {3});
  save<float>("row", {1, 3}, {0, 0, 0});
  save<float>("rank_5", {1, 1, 1, 1, 2}, {0, 0});
  save<float>("rank_0", {}, {0});
  const std::string files = "--q q.npy --k k.npy --v v.npy ";
  refused(files + "--window 0", {"window is 0", "from 1 to 2^60"});
  refused(files + "--window-right=-1", {"window_right is -1"});
  refused(files + "--window 1.5", {"--window", "1.5"});
  refused(files + "--softcap=-1", {"softcap is -1", "0 (none)"});
  refused(files + "--query-offset 9223372036854775807", {"query_offset", "2^60"});
  refused(files + "--query-offset 1 --causal bottom_right", {"query_offset is 1", "bottom_right"});
  refused(files + "--key-length lengths.npy", {"key_length has 2 entries", "batch size is 1"});
  refused(files + "--first-key beyond.npy", {"first_key[0] is 3", "number of keys, 2"});
  refused(files + "--key-length q.npy", {"q.npy", "integer", "[batch]"});
  save<Index>("empty", {0}, {});
  refused(files + "--key-length empty.npy", {"empty.npy", "integer", "[batch]"});
  refused(files + "--key-length none.npy", {"none.npy", "No such file"});
  refused(files + "--mask row.npy", {"mask has shape [1, 1, 1, 3]", "[1, 1, 2, 2]"});
  refused(files + "--mask lengths.npy", {"lengths.npy holds integers", "boolean"});
  refused(files + "--mask rank_5.npy", {"rank_5.npy has shape [1, 1, 1, 1, 2]", "one to four"});
  refused(files + "--mask rank_0.npy", {"rank_0.npy has shape []", "one to four"});
  refused(files + "--mask none.npy", {"none.npy", "No such file"});
}

TEST_F(CliAttend, TakesEitherQKAndVOrXAndWeights) {
  save_by_hand<float>();
  const std::vector<std::string> sentence = {"--q, --k and --v, or --x and --weights"};
  for (const std::string options :
       {"", "--q q.npy", "--q q.npy --k k.npy", "--x q.npy", "--weights w", "--q q.npy --weights w",
        "--q q.npy --k k.npy --v v.npy --x q.npy", "--q q.npy --k k.npy --v v.npy --weights w",
        "--q q.npy --k k.npy --v v.npy --x q.npy --weights w"}) {
    refused(options, sentence);
  }
}

TEST_F(CliAttend, AnOptionThatIsOutOfRangeIsRefused) {
  save_by_hand<float>();
  const std::string files = "--q q.npy --k k.npy --v v.npy ";
  for (const std::string scale : {"nan", "inf", "-inf", "1e400"}) {
    refused(files + "--scale " + scale, {"scale is ", "a number up to 3.40282e+38"});
  }
  refused(files + "--scale abc", {"--scale", "abc"});
  refused(files + "--scale 1,5", {"--scale", "1,5"});
  refused(files + "--causal left", {"--causal", "left", "top_left", "bottom_right"});
  refused(files + "--implementation magic", {"--implementation", "magic", "reference"});
}

TEST_F(CliAttend, AFileThatIsNoNpyIsRefused) {
  save_by_hand<float>();
  const std::string good = content("q.npy");
  write("empty.npy", "");
  write("magic.npy", "\x93NUMPX" + good.substr(6));
  write("version.npy", good.substr(0, 6) + '\x04' + good.substr(7));
  write("header.npy", good.substr(0, 40));
  write("data.npy", good.substr(0, good.size() - 1));
  write("more.npy", good + "x");
  write("long_header.npy", std::string("\x93NUMPY\2\0\xFF\xFF\xFF\xFF{}", 14));
  write("huge.npy", npy_bytes("<f4", false, "(1000000000000, 4)", ""));
  write("overflow.npy", npy_bytes("<f4", false, "(4611686018427387904, 0, 4)", ""));
  write("negative.npy", npy_bytes("<f4", false, "(-2, 1)", ""));
  write("complex.npy", npy_bytes("<c8", false, "(1, 1)", "12345678"));
  write("objects.npy", npy_bytes("|O", false, "(1, 1)", "12345678"));
  std::filesystem::create_symlink("loop.npy", folder_ / "loop.npy");
  for (const char* name : {"empty", "magic", "version", "header", "data", "more", "long_header",
                           "huge", "overflow", "negative", "complex", "objects"}) {
    refused_in_every_place(std::string(name) + ".npy", {"cannot read", "as .npy"});
  }
  refused_in_every_place("none.npy", {"No such file"});
  refused_in_every_place("loop.npy", {"symbolic links"});
  refused_in_every_place(".", {"directory"});
}

TEST_F(CliAttend, ElementsAndRanksThatDoNotFitAreRefused) {
  save_by_hand<float>();
  save<Index>("integers", {2, 1}, {0, 1});
  refused_in_every_place("integers.npy", {"integers", "float32"});
  save<double>("double", {2, 1}, {0, 1});
  refused_in_every_place("double.npy", {"float64", "float32"});
  save<float>("rank_3", {1, 2, 1}, {0, 1});
  refused_in_every_place("rank_3.npy", {"[1, 2, 1]", "[2, 1]", "axes"});
  save<float>("rank_0", {}, {1});
  save<float>("rank_1", {2}, {0, 1});
  save<float>("rank_5", {1, 1, 1, 2, 1}, {0, 1});
  for (const std::string file : {"rank_0.npy", "rank_1.npy", "rank_5.npy"}) {
    refused("--q " + file + " --k " + file + " --v " + file,
            {file, "[batch, num_heads, seq_len, dim]"});
  }
}

TEST_F(CliAttend, ShapesThatDoNotFitAreRefused) {
  const std::string files = "--q q.npy --k k.npy --v v.npy";
  const auto with_shapes = [this](const Shape& q, const Shape& k, const Shape& v) {
    for (const auto& [name, shape] : {std::pair{"q", q}, {"k", k}, {"v", v}}) {
      Index size = 1;
      for (Index extent : shape) size *= extent;
      save<float>(name, shape, std::vector<float>(static_cast<std::size_t>(size)));
    }
  };
  with_shapes({2, 3}, {2, 4}, {2, 3});
  refused(files, {"head_dim", "[1, 1, 2, 3]", "[1, 1, 2, 4]"});
  with_shapes({2, 3}, {2, 3}, {3, 3});
  refused(files, {"number of keys"});
  with_shapes({2, 1, 3}, {1, 1, 3}, {1, 1, 3});
  refused(files, {"batch size 2", "k 1"});
  with_shapes({1, 3, 1, 1}, {1, 2, 1, 1}, {1, 2, 1, 1});
  refused(files, {"the heads of k and v, 2, must divide those of q, 3"});
  with_shapes({2, 0}, {2, 0}, {2, 1});
  refused(files, {"head_dim is 0"});
  with_shapes({2, 3}, {2, 3}, {2, 5});
  for (const Shape& shape : {Shape{2, 3}, Shape{1, 5}, Shape{1, 2, 5}, Shape{10}, Shape{}}) {
    Index size = 1;
    for (Index extent : shape) size *= extent;
    save<float>("d_out", shape, std::vector<float>(static_cast<std::size_t>(size)));
    refused(files + " --d-out d_out.npy", {"d_out.npy"});
  }
  save<double>("d_out", {2, 5}, std::vector<double>(10));
  refused(files + " --d-out d_out.npy", {"d_out.npy", "float32", "float64"});
  refused(files + " --d-out none.npy", {"none.npy", "No such file"});
}

TEST_F(CliAttend, WhatNoMemoryHoldsIsRefusedBeforeItIsTried) {
  save_by_hand<float>();
  write("k.npy", npy_bytes("<f4", false, "(0, 1)", ""));
  write("v.npy", npy_bytes("<f4", false, "(0, 1000000000000000)", ""));
  refused("--q q.npy --k k.npy --v v.npy", {"v.npy", "1000000000000000", "memory"});
  // Nothing to compute, 2^50 times.
  write("q.npy", npy_bytes("<f4", false, "(1125899906842624, 0, 1)", ""));
  refused("--q q.npy --k q.npy --v q.npy", {"q.npy", "1125899906842624", "memory"});
  // 4 MB of queries and of keys would give 4 TB of weights, three times.
  save<float>("q", {1'000'000, 1}, std::vector<float>(1'000'000));
  refused("--q q.npy --k q.npy --v q.npy", {"A has shape [1, 1, 1000000, 1000000]", "memory"});
}

TEST_F(CliAttend, MemoryThatRunsOutOnTheWayIsAFailureAndNothingIsLeft) {
  const std::string little_memory = "ulimit -v 600000; \"$HEADPROOF\" ";
  if (shell(little_memory + "--version").exit_code != 0) {
    GTEST_SKIP() << "with sanitizers the program itself needs more addresses";
  }
  save<float>("q", {10'000, 1}, std::vector<float>(10'000));
  const Ended ended = shell(little_memory + "attend --q q.npy --k q.npy --v q.npy --out o");
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_EQ(ended.out, "");
  EXPECT_EQ(ended.err, "headproof: there is not enough memory for this problem\n");
  EXPECT_EQ(tree().count("o"), 0U);
}

TEST_F(CliAttend, WeightsThatAreNoneAreRefused) {
  Generator generator(7);
  const NamedArrays good = to_named_arrays(draw_head_weights(5, 3, generator));
  const std::string bytes = format_safetensors(good);
  const auto refused_weights = [&](const std::string& file, std::vector<std::string> named) {
    named.push_back("head.safetensors");
    write("head.safetensors", file);
    refused("--x x.npy --weights head.safetensors", named);
  };
  const auto changed = [&](const std::string& name, const Array& array) {
    NamedArrays arrays = good;
    arrays[name] = array;
    return format_safetensors(arrays);
  };
  write("x.npy", format_npy(generator.randn(4, 5)));
  refused_weights("", {"as .safetensors"});
  refused_weights(bytes.substr(0, 50), {"as .safetensors", "header"});
  refused_weights(bytes.substr(0, bytes.size() - 1), {"as .safetensors", "bytes"});
  refused_weights(bytes + "x", {"as .safetensors", "belong to no tensor"});
  refused_weights(std::string(8, '\xFF') + bytes.substr(8), {"as .safetensors", "header"});
  refused_weights(bytes.substr(0, 8) + "x" + bytes.substr(9), {"as .safetensors", "header"});
  refused_weights(changed("query.weight", Tensor<float, 2>({3, 4})), {"query.weight", "shape"});
  refused_weights(changed("query.weight", Tensor<float, 1>({15})), {"query.weight", "rank"});
  refused_weights(changed("query.weight", Tensor<double, 2>({3, 5})), {"query.weight", "float32"});
  refused_weights(changed("bias", Tensor<float, 1>({3})), {"bias"});
  NamedArrays two = good;
  two.erase("value.weight");
  refused_weights(format_safetensors(two), {"value.weight"});
  const NamedArrays empty = {{"key.weight", Tensor<float, 2>({3, 0})},
                             {"query.weight", Tensor<float, 2>({3, 0})},
                             {"value.weight", Tensor<float, 2>({3, 0})}};
  refused_weights(format_safetensors(empty), {"no elements"});

  write("head.safetensors", bytes);
  for (const Array& x : {Array(Tensor<float, 2>({4, 6})), Array(Tensor<float, 1>({5})),
                         Array(Tensor<float, 4>({1, 1, 4, 5})), Array(Tensor<double, 2>({4, 5})),
                         Array(Tensor<Index, 2>({4, 5}))}) {
    write("x.npy", format_npy(x));
    refused("--x x.npy --weights head.safetensors", {"x.npy", "float32", "[seq_len, 5]"});
  }
  refused("--x none.npy --weights head.safetensors", {"none.npy", "No such file"});
  refused("--x x.npy --weights none.safetensors", {"none.safetensors", "No such file"});
}

TEST_F(CliAttend, ResultsThatCannotBeWrittenAreRefusedAndNothingIsLeft) {
  save_by_hand<float>();
  write("file", "a file");
  std::filesystem::create_directories(folder_ / "o2" / "lse.npy");
  const std::string attend = "\"$HEADPROOF\" attend --q q.npy --k k.npy --v v.npy --A --lse --out ";
  expect_refused(attend + "file", {"cannot write file/out.npy", "Not a directory"});
  expect_refused(attend + "o2", {"cannot write o2/lse.npy: it is a folder"});
  save<float>("q", {1000, 1}, std::vector<float>(1000));
  expect_refused("ulimit -f 1; " + attend + "o", {"cannot write o/out.npy", "File too large"});
}

}  // namespace
}  // namespace headproof
