// PNG files as pixels.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "headproof/result.h"
#include "headproof/tensor.h"

namespace headproof {

/// A picture, row 0 at the top, each pixel red, green, blue.
struct Pixels {
  Index width = 0, height = 0;
  std::vector<unsigned char> rgb = {};  ///< [height, width, 3]

  bool operator==(const Pixels&) const = default;
};

/// Decodes a PNG file; what is transparent lies on black.
Result<Pixels> read_png(std::string_view bytes);

/// A PNG file of `rgb`, [height, width, 3]: fast, and the same bytes for the same pixels.
Result<std::string> write_png(const unsigned char* rgb, Index width, Index height);

}  // namespace headproof
