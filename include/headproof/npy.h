// NumPy's .npy files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "headproof/array.h"

namespace headproof {

/// Reads a .npy file of version 1, 2 or 3, in C or Fortran order, little- or big-endian, with
/// boolean, integer (1 to 8 bytes) or floating-point (2, 4 or 8 bytes) elements. The error names
/// the file, what is wrong with it and where (NumPy's "NPY format" describes the bytes).
Result<Array> read_npy(const std::filesystem::path& file);

/// The same from bytes in memory; `name` is what an error calls them.
Result<Array> parse_npy(std::string_view bytes, std::string_view name);

/// The bytes of a version 1 .npy file: C order, little-endian, `<f4`, `<f8` or `<i8`, data from a
/// multiple of 64 bytes, byte for byte what numpy.save writes.
std::string format_npy(const Array& array);

}  // namespace headproof
