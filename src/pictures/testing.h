// What the tests of pictures share: looking at pixels.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>
#include <string>

#include "pictures/colours.h"
#include "pictures/png.h"

namespace headproof {

struct PixelPlace {
  Index x = 0, y = 0;
  bool operator==(const PixelPlace&) const = default;
};

inline Colour colour_at(const Pixels& pixels, Index x, Index y) {
  const auto at = static_cast<std::size_t>(3 * (y * pixels.width + x));
  return {pixels.rgb[at], pixels.rgb[at + 1], pixels.rgb[at + 2]};
}

inline bool is_filled(const Pixels& pixels, Colour colour, PixelPlace from, Index width,
                      Index height) {
  for (Index y = from.y; y < from.y + height; ++y) {
    for (Index x = from.x; x < from.x + width; ++x) {
      if (colour_at(pixels, x, y) != colour) return false;
    }
  }
  return true;
}

/// The first rectangle of that size and colour, in reading order.
inline std::optional<PixelPlace> find_filled(const Pixels& pixels, Colour colour, Index width,
                                             Index height) {
  for (Index y = 0; y + height <= pixels.height; ++y) {
    for (Index x = 0; x + width <= pixels.width; ++x) {
      if (is_filled(pixels, colour, {x, y}, width, height)) return PixelPlace{x, y};
    }
  }
  return {};
}

inline Index count(const Pixels& pixels, Colour colour) {
  Index found = 0;
  for (Index y = 0; y < pixels.height; ++y) {
    for (Index x = 0; x < pixels.width; ++x) found += colour_at(pixels, x, y) == colour ? 1 : 0;
  }
  return found;
}

inline Tensor<float, 2> matrix(std::initializer_list<std::initializer_list<float>> rows) {
  Tensor<float, 2> values({static_cast<Index>(rows.size()),
                           rows.size() == 0 ? 0 : static_cast<Index>(rows.begin()->size())});
  auto at = values.begin();
  for (const auto& row : rows) at = std::copy(row.begin(), row.end(), at);
  return values;
}

}  // namespace headproof
