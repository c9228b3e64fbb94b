#include "headproof/npy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace headproof {
namespace {

using namespace std::string_literals;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Integers = std::vector<Index>;

/// A file of that version with this header, whatever it says.
std::string npy(const std::string& header, const std::string& data, char version = 1) {
  std::string bytes = "\x93NUMPY"s + version + '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) {
    bytes += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  }
  return bytes + header + data;
}

std::string header(const std::string& type, const std::string& shape, bool fortran_order = false) {
  return "{'descr': '" + type + "', 'fortran_order': " + (fortran_order ? "True" : "False") +
         ", 'shape': " + shape + ", }";
}

Array parsed(const std::string& bytes) {
  const Result<Array> array = parse_npy(bytes, "a.npy");
  EXPECT_TRUE(array) << array.error().message;
  return array ? *array : Array();
}

/// Why a file is refused, without "cannot read a.npy as .npy: ".
std::string refusal(const std::string& bytes) {
  const Result<Array> array = parse_npy(bytes, "a.npy");
  if (array) return "no error";
  const std::string start = "cannot read a.npy as .npy: ";
  EXPECT_TRUE(array.error().message.starts_with(start)) << array.error().message;
  return array.error().message.substr(start.size());
}

/// The bytes of numbers in this machine's order, which is little-endian on every tested machine.
template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST(Npy, FormatWritesTheBytesOfNumpySave) {
  // numpy.save of numpy.array([[1, -2, 0.5]], '<f4').
  const std::string expected =
      "\x93NUMPY\x01\x00\x76\x00"s + "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }" +
      std::string(58, ' ') + "\n" + "\x00\x00\x80\x3F\x00\x00\x00\xC0\x00\x00\x00\x3F"s;
  EXPECT_EQ(
      format_npy(Array(Tensor<float, 2>(View<const float, 2>(Floats{1, -2, 0.5}.data(), {1, 3})))),
      expected);
}

TEST(Npy, FormatPadsAsNumpyDoesWhereTheHeaderCrossesAMultipleOf64) {
  // NumPy adds room for 21 digits of the first extent and then 1 to 64 spaces: these are the sizes
  // of its headers for 0 to 40 axes of extent 1.
  for (std::size_t rank = 0; rank <= 40; ++rank) {
    const Array array = [rank] {
      Array ones;
      ones.shape.assign(rank, 1);
      ones.values = Doubles{7};
      return ones;
    }();
    const std::size_t literal =
        std::string("{'descr': '<f8', 'fortran_order': False, 'shape': (), }").size() +
        (rank == 0   ? 0
         : rank == 1 ? 2 + 20
                     : 3 * rank - 2 + 20);
    const std::size_t start = (10 + literal + 1) / 64 * 64 + 64;
    const std::string bytes = format_npy(array);
    EXPECT_EQ(bytes.size(), start + 8) << rank;
    EXPECT_EQ(bytes[start - 1], '\n') << rank;
    EXPECT_EQ(parsed(bytes), array) << rank;
  }
}

TEST(Npy, WhatIsWrittenIsReadBack) {
  const float inf = std::numeric_limits<float>::infinity();
  Array array;
  array.shape = {2, 0, 3};
  array.values = Floats{};
  EXPECT_EQ(parsed(format_npy(array)), array);
  array.shape = {2, 2};
  array.values = Floats{-0.0F, inf, 1e-45F, 3.4e38F};
  EXPECT_EQ(parsed(format_npy(array)), array);
  EXPECT_TRUE(std::signbit(std::get<Floats>(parsed(format_npy(array)).values)[0]));
  array.values = Doubles{-inf, 5e-324, 0.1, 1.7e308};
  EXPECT_EQ(parsed(format_npy(array)), array);
  array.values =
      Integers{std::numeric_limits<Index>::min(), -1, 0, std::numeric_limits<Index>::max()};
  EXPECT_EQ(parsed(format_npy(array)), array);
}

TEST(Npy, NanKeepsItsBits) {
  const std::string nan = "\x01\x02\xA0\xFF"s;
  const std::string bytes = format_npy(parsed(npy(header("<f4", "(1,)"), nan)));
  EXPECT_EQ(bytes.substr(bytes.size() - 4), nan);
}

// BC148: the parser ran off the end of an empty tuple.
TEST(Npy, EveryShapeIsRead) {
  const auto shape_of = [](const std::string& shape, std::size_t count) {
    return parsed(npy(header("|i1", shape), std::string(count, '\1'))).shape;
  };
  EXPECT_EQ(shape_of("()", 1), Integers{});
  EXPECT_EQ(shape_of("(768,)", 768), Integers{768});
  EXPECT_EQ(shape_of("(0, 4)", 0), (Integers{0, 4}));
  EXPECT_EQ(shape_of("(4,0)", 0), (Integers{4, 0}));
  EXPECT_EQ(shape_of("( 2 ,3, )", 6), (Integers{2, 3}));
  EXPECT_EQ(shape_of("(2L, 3L)", 6), (Integers{2, 3}));
}

// BC146: Fortran order was never recognised, so matrices came out transposed in memory.
TEST(Npy, FortranOrderIsReadAsTheSameMatrix) {
  const Array matrix = parsed(npy(header("<f8", "(2, 3)", true), raw(Doubles{1, 4, 2, 5, 3, 6})));
  EXPECT_EQ(matrix.shape, (Integers{2, 3}));
  EXPECT_EQ(std::get<Doubles>(matrix.values), (Doubles{1, 2, 3, 4, 5, 6}));
  // Three axes of different extents; element (i, j, k) is 100 i + 10 j + k.
  Integers stored, expected;
  for (Index k = 0; k < 4; ++k)
    for (Index j = 0; j < 3; ++j)
      for (Index i = 0; i < 2; ++i) stored.push_back(100 * i + 10 * j + k);
  for (Index i = 0; i < 2; ++i)
    for (Index j = 0; j < 3; ++j)
      for (Index k = 0; k < 4; ++k) expected.push_back(100 * i + 10 * j + k);
  EXPECT_EQ(std::get<Integers>(parsed(npy(header("<i8", "(2, 3, 4)", true), raw(stored))).values),
            expected);
  EXPECT_EQ(parsed(npy(header("<f8", "()", true), raw(Doubles{3}))).values,
            decltype(Array::values)(Doubles{3}));
  EXPECT_EQ(parsed(npy(header("<f8", "(3, 0)", true), "")).shape, (Integers{3, 0}));
}

// BC149: big-endian data was not swapped.
TEST(Npy, BigEndianIsSwapped) {
  EXPECT_EQ(std::get<Floats>(
                parsed(npy(header(">f4", "(2,)"), "\x3F\x80\x00\x00\xC0\x00\x00\x00"s)).values),
            (Floats{1, -2}));
  EXPECT_EQ(std::get<Doubles>(
                parsed(npy(header(">f8", "()"), "\x3F\xF0\x00\x00\x00\x00\x00\x00"s)).values),
            Doubles{1});
  EXPECT_EQ(std::get<Floats>(parsed(npy(header(">f2", "()"), "\x3C\x00"s)).values), Floats{1});
  EXPECT_EQ(std::get<Integers>(parsed(npy(header(">i2", "(2,)"), "\x01\x02\xFF\xFE"s)).values),
            (Integers{258, -2}));
  EXPECT_EQ(std::get<Integers>(parsed(npy(header(">u4", "()"), "\xFF\xFF\xFF\xFE"s)).values),
            Integers{0xFFFFFFFE});
}

TEST(Npy, IntegersOfEveryWidthKeepTheirValue) {
  const auto values = [](const std::string& type, const std::string& data) {
    const std::string shape =
        std::string("(") + std::to_string(data.size() / static_cast<std::size_t>(type[2] - '0')) +
        ",)";
    return std::get<Integers>(parsed(npy(header(type, shape), data)).values);
  };
  EXPECT_EQ(values("|b1", "\x00\x01\x02"s), (Integers{0, 1, 1}));
  EXPECT_EQ(values("|i1", "\x7F\x80\xFF"s), (Integers{127, -128, -1}));
  EXPECT_EQ(values("|u1", "\x7F\x80\xFF"s), (Integers{127, 128, 255}));
  EXPECT_EQ(values("<i2", "\x00\x80\xFF\x7F"s), (Integers{-32768, 32767}));
  EXPECT_EQ(values("<u2", "\x00\x80\xFF\xFF"s), (Integers{32768, 65535}));
  EXPECT_EQ(values("<i4", "\x00\x00\x00\x80"s), Integers{-2147483648});
  EXPECT_EQ(values("<u4", "\x00\x00\x00\x80"s), Integers{2147483648});
  EXPECT_EQ(values("<i8", "\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF"s), Integers{-2});
  EXPECT_EQ(values("<u8", "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F"s),
            Integers{std::numeric_limits<Index>::max()});
}

TEST(Npy, AnIntegerAboveInt64IsRefused) {
  EXPECT_EQ(refusal(npy(header("<u8", "(2,)"), std::string(15, '\0') + '\x80')),
            "element 1 is 9223372036854775808, but integers up to 9223372036854775807 are read");
}

TEST(Npy, EveryFloat16BecomesTheFloatOfItsValue) {
  // The definition: (-1)^sign 2^(exponent - 15) (1 + mantissa / 1024), without the 1 at exponent 0.
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const int exponent = bits >> 10 & 31;
    const double mantissa = bits & 1023;
    double value = exponent == 31  ? (mantissa == 0 ? HUGE_VAL : NAN)
                   : exponent == 0 ? std::ldexp(mantissa, -24)
                                   : std::ldexp(1024 + mantissa, exponent - 25);
    if (bits & 0x8000) value = -value;
    const std::string data{static_cast<char>(bits & 0xFF), static_cast<char>(bits >> 8)};
    const float read = std::get<Floats>(parsed(npy(header("<f2", "()"), data)).values)[0];
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(read)) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(read), value) << bits;
    }
    ASSERT_EQ(std::signbit(read), (bits & 0x8000) != 0) << bits;
  }
}

TEST(Npy, VersionsOneToThreeAreRead) {
  const std::string text = header("<f4", "(2,)"), data = raw(Floats{1, 2});
  for (const char version : {'\1', '\2', '\3'}) {
    EXPECT_EQ(std::get<Floats>(parsed(npy(text, data, version)).values), (Floats{1, 2}));
  }
  // A header above 65,535 bytes is what version 2 is for.
  EXPECT_EQ(std::get<Floats>(parsed(npy(text + std::string(70'000, ' '), data, 2)).values),
            (Floats{1, 2}));
  EXPECT_EQ(refusal(npy(text, data, 4)),
            "its format version is 4.0; versions 1.0, 2.0 and 3.0 are read");
  std::string minor = npy(text, data);
  minor[7] = 1;
  EXPECT_EQ(refusal(minor), "its format version is 1.1; versions 1.0, 2.0 and 3.0 are read");
}

TEST(Npy, TheHeaderMayBeWrittenInManyWays) {
  const std::string data = raw(Floats{1, 2});
  for (const std::string text :
       {"{'shape':(2,),'fortran_order':False,'descr':'<f4'}",
        "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2,)}\n",
        " {'descr': '<f4' , 'fortran_order' : False,\n'shape': (2, )\t, }   "}) {
    EXPECT_EQ(std::get<Floats>(parsed(npy(text, data)).values), (Floats{1, 2})) << text;
  }
}

TEST(Npy, ABrokenHeaderIsRefusedWithItsPlace) {
  const auto header_refusal = [](const std::string& text) {
    return refusal(npy(text, raw(Floats{1, 2})));
  };
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
  ASSERT_EQ(header_refusal(good), "no error");
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "'{' was expected in the header (byte 10)"},
      {"{}", "the header lacks one of the keys 'descr', 'fortran_order' and 'shape' (byte 12)"},
      {"{'descr': '<f4', 'shape': (2,)}",
       "the header lacks one of the keys 'descr', 'fortran_order' and 'shape' (byte 41)"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
       "the key before is not 'descr', 'fortran_order' or 'shape', or occurs twice (byte 35)"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'extra': 1}",
       "the key before is not 'descr', 'fortran_order' or 'shape', or occurs twice (byte 74)"},
      {"{'descr: <f4", "a quoted string in the header does not end (byte 11)"},
      {"{'descr': 4", "a quoted string was expected in the header (byte 20)"},
      {"{'descr': '<f4' 'shape': (2,)}", "'}' was expected in the header (byte 26)"},
      {"{'descr' '<f4'}", "':' was expected in the header (byte 19)"},
      {good + "}", "the header goes on after its closing brace (byte 65)"},
      {good + '\0', "the header goes on after its closing brace (byte 65)"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
       "True or False was expected after 'fortran_order' (byte 44)"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(header_refusal(text), expected) << text;
}

TEST(Npy, AShapeThatIsNoTupleOfExtentsIsRefused) {
  const auto shape_refusal = [](const std::string& shape) {
    const std::string why = refusal(npy(header("<f4", shape), raw(Floats{1, 2})));
    return why.substr(0, why.find(" (byte"));
  };
  const std::string extents = "'shape' is not a tuple of extents from 0 to 9223372036854775807";
  EXPECT_EQ(shape_refusal("(2)"), "a tuple of one extent is written (n,)");
  EXPECT_EQ(shape_refusal("2"), "'(' was expected in the header");
  for (const std::string shape : {"(-2,)", "(1, -2)", "(2.0,)", "(2 1)", "(,)", "(2,,1)", "(two,)",
                                  "(9223372036854775808,)", "(99999999999999999999999,)", "(2,"}) {
    EXPECT_EQ(shape_refusal(shape), extents) << shape;
  }
}

TEST(Npy, AHugeShapeNeitherOverflowsNorAllocates) {
  const std::string too_large =
      "its shape has more than 64 axes or more elements than 64 bits can count";
  const std::string max = "9223372036854775807";
  for (const std::string& shape : std::vector<std::string>{
           "(" + max + ",)", "(4294967296, 4294967296)", "(4294967296, 4294967297, 2)",
           "(0, " + max + ", " + max + ")", "(" + max + ", 0, 2)"}) {
    EXPECT_EQ(refusal(npy(header("<f8", shape), "")), too_large) << shape;
  }
  std::string axes = "(";
  for (int i = 0; i < 65; ++i) axes += "1,";
  EXPECT_EQ(refusal(npy(header("|i1", axes + ")"), "1")), too_large);
  EXPECT_EQ(
      refusal(npy(header("<f8", "(1152921504606846975,)"), "12345678")),
      "shape (1152921504606846975,) takes 9223372036854775800 bytes of data, but 8 follow the "
      "header");
}

TEST(Npy, OtherElementTypesAreRefused) {
  for (const std::string type : {"<f16", "<c8", "<U3", "|S1", "|O", "<M8", "|V2", "<f1", "<f3",
                                 "<i3", "<b2", "f4", "=f4", "|f4", "<f", "", "<f4 ", "<e4"}) {
    const std::string why = refusal(npy(header(type, "(2,)"), raw(Floats{1, 2})));
    EXPECT_TRUE(why.starts_with("elements of the type before are not read; b1, i1 to i8, "))
        << type << why;
  }
  EXPECT_EQ(refusal(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", "")),
            "a quoted string was expected in the header (byte 20)");
}

TEST(Npy, DataOfAnotherLengthAreRefused) {
  const std::string text = header("<f4", "(2, 3)");
  EXPECT_EQ(refusal(npy(text, std::string(23, ' '))),
            "shape (2, 3) takes 24 bytes of data, but 23 follow the header");
  EXPECT_EQ(refusal(npy(text, std::string(25, ' '))),
            "shape (2, 3) takes 24 bytes of data, but 25 follow the header");
}

TEST(Npy, AFileCutAnywhereIsRefused) {
  for (const char version : {'\1', '\2', '\3'}) {
    const std::string whole =
        npy(header("<f4", "(2, 3)", true) + "   \n", std::string(24, '\1'), version);
    ASSERT_TRUE(parse_npy(whole, "a.npy"));
    for (std::size_t size = 0; size < whole.size(); ++size) {
      // A copy of exactly that size lets the address sanitizer see a read behind its end.
      const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_FALSE(parse_npy({cut.data(), size}, "a.npy")) << size;
    }
  }
  EXPECT_EQ(refusal(""), "it does not begin with the bytes \\x93NUMPY");
  EXPECT_EQ(refusal("\x93NUMPY\1"), "it ends before its version number");
  EXPECT_EQ(refusal("\x93NUMPY\1\0\5"s), "it ends before the length of its header");
  EXPECT_EQ(refusal("\x93NUMPY\2\0\xFF\xFF\xFF\xFF{}"s),
            "its header should have 4294967295 bytes, but the file ends 2 bytes after the header's "
            "start");
}

TEST(Npy, AnyChangedHeaderByteGivesAnArrayOrAnError) {
  for (const bool fortran : {false, true}) {
    const std::string whole = npy(header("<f4", "(2, 3)", fortran) + "\n", std::string(24, '\1'));
    for (std::size_t at = 0; at < whole.size() - 24; ++at) {
      for (int byte = 0; byte < 256; ++byte) {
        std::string changed = whole;
        changed[at] = static_cast<char>(byte);
        const Result<Array> array = parse_npy(changed, "a.npy");
        if (!array) continue;
        // What is read is whole: as many values as the shape says.
        Index count = 1;
        for (Index extent : array->shape) count *= extent;
        const auto size = std::visit([](const auto& v) { return v.size(); }, array->values);
        ASSERT_EQ(static_cast<Index>(size), count) << at << " " << byte;
      }
    }
  }
}

TEST(Npy, ReadingNamesTheFile) {
  const Result<Array> array = read_npy("/absent/q.npy");
  ASSERT_FALSE(array);
  EXPECT_EQ(array.error().message, "cannot read /absent/q.npy: No such file or directory");
}

}  // namespace
}  // namespace headproof
