#include "pictures/png.h"

#include <gtest/gtest.h>

namespace headproof {
namespace {

TEST(Png, ReadsWhatItWrites) {
  Pixels pixels{5, 3, {}};
  for (unsigned i = 0; i < 45; ++i) pixels.rgb.push_back(static_cast<unsigned char>(i * 37));
  const auto file = write_png(pixels.rgb.data(), pixels.width, pixels.height);
  ASSERT_TRUE(file);
  const auto again = read_png(*file);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, pixels);
}

TEST(Png, WhatIsNotAWholePngFileIsRefused) {
  const std::vector<unsigned char> rgb(3 * 64 * 64, 7);
  const auto file = write_png(rgb.data(), 64, 64);
  ASSERT_TRUE(file);
  EXPECT_FALSE(read_png(""));
  EXPECT_FALSE(read_png("GIF89a"));
  EXPECT_FALSE(read_png(std::string_view(*file).substr(0, 40)));
}

TEST(Png, AnEmptyPictureIsRefused) { EXPECT_FALSE(write_png(nullptr, 0, 0)); }

}  // namespace
}  // namespace headproof
