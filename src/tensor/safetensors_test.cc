#include "headproof/safetensors.h"

#include <gtest/gtest.h>

#include <limits>

namespace headproof {
namespace {

using namespace std::string_literals;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Integers = std::vector<Index>;

std::string length_bytes(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xFF);
  return bytes;
}

/// A file with this header, whatever it says.
std::string file(const std::string& header, const std::string& data) {
  return length_bytes(header.size()) + header + data;
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

NamedArrays parsed(const std::string& bytes) {
  const Result<NamedArrays> arrays = parse_safetensors(bytes, "a");
  EXPECT_TRUE(arrays) << arrays.error().message;
  return arrays ? *arrays : NamedArrays();
}

/// Why a file is refused, without "cannot read a as .safetensors: ".
std::string refusal(const std::string& bytes) {
  const Result<NamedArrays> arrays = parse_safetensors(bytes, "a");
  if (arrays) return "no error";
  const std::string start = "cannot read a as .safetensors: ";
  EXPECT_TRUE(arrays.error().message.starts_with(start)) << arrays.error().message;
  return arrays.error().message.substr(start.size());
}

Array array(std::vector<Index> shape, decltype(Array::values) values) {
  Array made;
  made.shape = std::move(shape);
  made.values = std::move(values);
  return made;
}

const std::string one = "\0\0\x80\x3F"s, minus_two = "\0\0\0\xC0"s;  // As little-endian floats.

TEST(Safetensors, FormatWritesTheBytesOfTheFormat) {
  EXPECT_EQ(format_safetensors({{"w", array({2, 1}, Floats{1, -2})}}),
            file(R"({"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}})", one + minus_two));
}

// BC155: a writer padded with zero bytes; the format asks for spaces.
TEST(Safetensors, FormatPadsTheHeaderWithSpaces) {
  const std::string bytes = format_safetensors({{"name", array({1}, Floats{1})}});
  const std::string header = R"({"name":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  ASSERT_NE(header.size() % 8, 0U);
  const std::size_t padded = (header.size() + 7) / 8 * 8;
  EXPECT_EQ(bytes, file(header + std::string(padded - header.size(), ' '), one));
}

TEST(Safetensors, WhatIsWrittenIsReadBackAndAligned) {
  const NamedArrays arrays{
      {"a", array({3}, Floats{-0.0F, 1e-45F, std::numeric_limits<float>::infinity()})},
      {"b", array({}, Doubles{5e-324})},
      {"c \"\\\n\xE2\x80\x99", array({2}, Integers{std::numeric_limits<Index>::min(), -1})},
      {"d", array({0, 4}, Floats{})},
      {"", array({1}, Integers{7})}};
  const std::string bytes = format_safetensors(arrays);
  EXPECT_EQ(parsed(bytes), arrays);
  const std::size_t header_size =
      static_cast<unsigned char>(bytes[0]) + 256U * static_cast<unsigned char>(bytes[1]);
  EXPECT_EQ(header_size % 8, 0U);
  // The 24 bytes of int64, the 8 of double, the 12 of float.
  EXPECT_EQ(bytes.substr(8 + header_size, 8), "\7\0\0\0\0\0\0\0"s);
  EXPECT_EQ(bytes.substr(8 + header_size + 24, 8), "\1\0\0\0\0\0\0\0"s);
  EXPECT_EQ(bytes.substr(8 + header_size + 32, 4), "\0\0\0\x80"s);
  EXPECT_EQ(bytes.size(), 8 + header_size + 24 + 8 + 12);
  EXPECT_EQ(parsed(format_safetensors({})), NamedArrays{});
}

TEST(Safetensors, ANameThatIsNotUtf8IsStillWrittenAsAFile) {
  EXPECT_EQ(parsed(format_safetensors({{"\xFF", array({1}, Floats{1})}})),
            (NamedArrays{{"\xEF\xBF\xBD", array({1}, Floats{1})}}));
}

// BC151: offsets count from the end of the header, and BF16 is the upper half of a float.
TEST(Safetensors, OffsetsCountFromTheEndOfTheHeader) {
  std::string header = R"({"w":)" + entry("BF16", "[2]", "[0,4]") + "}";
  header.resize(34584, ' ');
  EXPECT_EQ(parsed(file(header, "\x80\x3F\x00\xC0"s)),
            (NamedArrays{{"w", array({2}, Floats{1, -2})}}));
}

// BC154: an empty metadata object was taken for a tensor.
TEST(Safetensors, MetadataAreNoTensor) {
  EXPECT_EQ(parsed(file(R"({"__metadata__":{}})", "")), NamedArrays{});
  EXPECT_EQ(parsed(file(R"({"__metadata__":{},"w":)" + entry("F32", "[1]", "[0,4]") + "}", one)),
            (NamedArrays{{"w", array({1}, Floats{1})}}));
  EXPECT_EQ(parsed(file(R"({"__metadata__":{"dtype":"F32","shape":"x"}})", "")), NamedArrays{});
}

TEST(Safetensors, EveryElementTypeKeepsItsValue) {
  const auto values = [](const std::string& dtype, std::size_t size, const std::string& data) {
    const std::string shape = std::string("[") + std::to_string(data.size() / size) + "]";
    const std::string offsets = std::string("[0,") + std::to_string(data.size()) + "]";
    const NamedArrays arrays = parsed(file(R"({"w":)" + entry(dtype, shape, offsets) + "}", data));
    return arrays.empty() ? decltype(Array::values)() : arrays.at("w").values;
  };
  using Values = decltype(Array::values);
  EXPECT_EQ(values("BOOL", 1, "\0\1"s), Values(Integers{0, 1}));
  EXPECT_EQ(values("I8", 1, "\x80\x7F"), Values(Integers{-128, 127}));
  EXPECT_EQ(values("U8", 1, "\x80\x7F"), Values(Integers{128, 127}));
  EXPECT_EQ(values("I16", 2, "\xFE\xFF"), Values(Integers{-2}));
  EXPECT_EQ(values("U16", 2, "\xFE\xFF"), Values(Integers{65534}));
  EXPECT_EQ(values("I32", 4, "\xFE\xFF\xFF\xFF"), Values(Integers{-2}));
  EXPECT_EQ(values("U32", 4, "\xFE\xFF\xFF\xFF"), Values(Integers{4294967294}));
  EXPECT_EQ(values("I64", 8, "\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF"), Values(Integers{-2}));
  EXPECT_EQ(values("U64", 8, "\2\0\0\0\0\0\0\0"s), Values(Integers{2}));
  EXPECT_EQ(values("F16", 2, "\x00\x3C\x00\xC0"s), Values(Floats{1, -2}));
  EXPECT_EQ(values("F32", 4, minus_two), Values(Floats{-2}));
  EXPECT_EQ(values("F64", 8, "\0\0\0\0\0\0\xF0\x3F"s), Values(Doubles{1}));
  EXPECT_EQ(refusal(file(R"({"w":)" + entry("U64", "[1]", "[0,8]") + "}", std::string(8, '\xFF'))),
            "tensor \"w\": element 0 is 18446744073709551615, but integers up to "
            "9223372036854775807 are read");
  for (const std::string dtype : {"F8_E4M3", "f32", "", "C64"}) {
    EXPECT_EQ(refusal(file(R"({"w":)" + entry(dtype, "[1]", "[0,4]") + "}", one)),
              "tensor \"w\" has a dtype that is not read; BOOL, I8 to I64, U8 to U64, F16, BF16, "
              "F32 and F64 are");
  }
}

// BC152: two entries of one name led to an error about offsets.
TEST(Safetensors, ANameThatOccursTwiceIsNamed) {
  const std::string w = R"("w":)" + entry("F32", "[1]", "[0,4]");
  EXPECT_EQ(refusal(file("{" + w + "," + w + "}", one)),
            "the name \"w\" occurs twice in its header");
  EXPECT_EQ(refusal(file("{" + w + R"(,"v":{},"\u0077":{}})", one)),
            "the name \"w\" occurs twice in its header");
  EXPECT_EQ(
      refusal(file(R"({"w":{"dtype":"F32","dtype":"F64","shape":[1],"data_offsets":[0,4]}})", one)),
      "the name \"dtype\" occurs twice in its header");
  EXPECT_EQ(refusal(file(R"({"__metadata__":{},"__metadata__":{}})", "")),
            "the name \"__metadata__\" occurs twice in its header");
}

TEST(Safetensors, AHeaderThatIsNoJsonObjectIsRefused) {
  EXPECT_EQ(refusal(file("", "")), "its header does not begin with '{'");
  EXPECT_EQ(refusal(file("[]", "")), "its header does not begin with '{'");
  EXPECT_EQ(refusal(file(" {}", "")), "its header does not begin with '{'");
  EXPECT_EQ(refusal(file("\xEF\xBB\xBF{}", "")), "its header does not begin with '{'");
  EXPECT_EQ(refusal(file("{\"w\":}", "")), "its header is not JSON at byte 13");
  EXPECT_EQ(refusal(file("{} x", "")), "its header is not JSON at byte 11");
  EXPECT_EQ(refusal(file("{\"\xFF\":{}}", "")), "its header is not JSON at byte 10");
  EXPECT_EQ(refusal(file("{", "")), "its header is not JSON at byte 9");
  EXPECT_EQ(refusal(file("{}  ", "")), "no error");
  // BC155: a zero byte is refused, whatever follows it.
  EXPECT_EQ(refusal(file("{}\0\0"s, "")),
            "byte 10 of its header is zero; a header is padded with spaces");
  const std::string deep = R"({"w":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  EXPECT_EQ(refusal(file(deep, "")),
            "tensor \"w\" is not described by dtype, shape and data_offsets");
}

TEST(Safetensors, AnEntryThatIsIncompleteIsNamed) {
  const std::string why = " is not described by dtype, shape and data_offsets";
  for (const std::string value :
       {"{}", "1", "null", "[]", R"({"dtype":"F32","shape":[1]})",
        R"({"dtype":"F32","data_offsets":[0,4]})", R"({"shape":[1],"data_offsets":[0,4]})"}) {
    EXPECT_EQ(refusal(file(R"({"a.\n":)" + value + "}", one)), "tensor \"a.\\n\"" + why) << value;
  }
  EXPECT_EQ(refusal(file(R"({"w":{"dtype":1,"shape":[1],"data_offsets":[0,4]}})", one)),
            "tensor \"w\" has a dtype that is not read; BOOL, I8 to I64, U8 to U64, F16, BF16, F32 "
            "and F64 are");
}

TEST(Safetensors, AShapeThatIsNoneOrTooLargeIsRefused) {
  std::string axes = "[1";
  for (int i = 0; i < 64; ++i) axes += ",1";
  for (const std::string& shape : std::vector<std::string>{
           "1", "{}", "[-1]", "[1.0]", "[1e0]", "[\"1\"]", "[[1]]", "[9223372036854775808]",
           "[18446744073709551615]", "[18446744073709551616]", "[4294967296,4294967296]",
           "[0,4294967296,4294967296]", "[4294967296,4294967296,0]", axes + "]"}) {
    EXPECT_EQ(refusal(file(R"({"w":)" + entry("F32", shape, "[0,4]") + "}", one)),
              "tensor \"w\" has a shape that is not a list of at most 64 extents whose product 64 "
              "bits hold")
        << shape;
  }
}

TEST(Safetensors, OffsetsThatDoNotFitAreRefused) {
  const auto w = [](const std::string& shape, const std::string& offsets) {
    return refusal(file(R"({"w":)" + entry("F32", shape, offsets) + "}", one + minus_two));
  };
  EXPECT_EQ(w("[2]", "[0,8]"), "no error");
  EXPECT_EQ(w("[2]", "[0,12]"), "tensor \"w\" claims bytes 0 to 12 of the data, which has 8");
  EXPECT_EQ(w("[2]", "[8,0]"), "tensor \"w\" claims bytes 8 to 0 of the data, which has 8");
  EXPECT_EQ(w("[2]", "[18446744073709551608,18446744073709551615]"),
            "tensor \"w\" claims bytes 18446744073709551608 to 18446744073709551615 of the data, "
            "which has 8");
  EXPECT_EQ(w("[1]", "[0,8]"), "tensor \"w\" claims 8 bytes, but its shape and dtype take 4");
  EXPECT_EQ(w("[]", "[0,8]"), "tensor \"w\" claims 8 bytes, but its shape and dtype take 4");
  EXPECT_EQ(w("[0]", "[0,8]"), "tensor \"w\" claims 8 bytes, but its shape and dtype take 0");
  EXPECT_EQ(w("[1]", "[0,4]"), "the last 4 bytes of the data belong to no tensor");
  EXPECT_EQ(w("[1]", "[4,8]"),
            "tensor \"w\" begins at byte 4 of the data, where byte 0 is the next "
            "free one: there is a hole");
  for (const std::string offsets : {"[0]", "[0,4,8]", "8", "[-4,0]", "[0.0,8.0]", "[\"0\",\"8\"]",
                                    "[0,18446744073709551616]"}) {
    EXPECT_EQ(w("[2]", offsets), "tensor \"w\" has data_offsets that are not two integers from 0");
  }
}

TEST(Safetensors, TensorsMayNeitherOverlapNorLeaveAHole) {
  const auto two = [](const std::string& a, const std::string& b) {
    return refusal(
        file(R"({"a":)" + entry("F32", "[1]", a) + R"(,"b":)" + entry("F32", "[1]", b) + "}",
             one + minus_two + one));
  };
  EXPECT_EQ(two("[0,4]", "[0,4]"),
            "tensor \"b\" begins at byte 0 of the data, where byte 4 is the "
            "next free one: tensors overlap");
  EXPECT_EQ(two("[2,6]", "[0,4]"),
            "tensor \"a\" begins at byte 2 of the data, where byte 4 is the "
            "next free one: tensors overlap");
  EXPECT_EQ(two("[0,4]", "[8,12]"),
            "tensor \"b\" begins at byte 8 of the data, where byte 4 is the "
            "next free one: there is a hole");
  EXPECT_EQ(two("[4,8]", "[0,4]"), "the last 4 bytes of the data belong to no tensor");
}

TEST(Safetensors, TensorsMayStandInAnyOrderWithEmptyOnesBetween) {
  const std::string header = R"({"a":)" + entry("F32", "[1]", "[4,8]") + R"(,"b":)" +
                             entry("F32", "[0,9]", "[4,4]") + R"(,"c":)" +
                             entry("F32", "[]", "[0,4]") + "}";
  EXPECT_EQ(parsed(file(header, one + minus_two)), (NamedArrays{{"a", array({1}, Floats{-2})},
                                                                {"b", array({0, 9}, Floats{})},
                                                                {"c", array({}, Floats{1})}}));
}

TEST(Safetensors, AFileCutAnywhereIsRefused) {
  const std::string whole =
      format_safetensors({{"a", array({2, 1}, Floats{1, 2})}, {"b", array({1}, Integers{3})}});
  ASSERT_TRUE(parse_safetensors(whole, "a"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    // A copy of exactly that size lets the address sanitizer see a read behind its end.
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(parse_safetensors({cut.data(), size}, "a")) << size;
  }
  EXPECT_EQ(refusal("\1\0\0"s), "it has 3 bytes, fewer than the 8 of the header's length");
  EXPECT_EQ(refusal(length_bytes(std::numeric_limits<std::uint64_t>::max()) + "{}"),
            "its header should have 18446744073709551615 bytes, but only 2 follow");
}

TEST(Safetensors, AnyChangedHeaderByteGivesArraysOrAnError) {
  const std::string whole =
      format_safetensors({{"a", array({2, 1}, Floats{1, 2})}, {"b", array({1}, Integers{3})}});
  for (std::size_t at = 0; at < whole.size() - 16; ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = whole;
      changed[at] = static_cast<char>(byte);
      const Result<NamedArrays> arrays = parse_safetensors(changed, "a");
      if (!arrays) continue;
      for (const auto& [name, read] : *arrays) {
        // What is read is whole: as many values as the shape says.
        Index count = 1;
        for (Index extent : read.shape) count *= extent;
        const auto size = std::visit([](const auto& v) { return v.size(); }, read.values);
        ASSERT_EQ(static_cast<Index>(size), count) << at << " " << byte;
      }
    }
  }
}

TEST(Safetensors, ReadingNamesTheFile) {
  const Result<NamedArrays> arrays = read_safetensors("/absent/w.safetensors");
  ASSERT_FALSE(arrays);
  EXPECT_EQ(arrays.error().message, "cannot read /absent/w.safetensors: No such file or directory");
}

}  // namespace
}  // namespace headproof
