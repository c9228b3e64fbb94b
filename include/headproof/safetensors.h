// Named tensors in .safetensors files.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "headproof/array.h"

namespace headproof {

/// Tensors by name, in the order of their names.
using NamedArrays = std::map<std::string, Array>;

/// Reads a .safetensors file: an 8-byte little-endian header length, a JSON header, the data.
/// Element types BOOL, I8 to I64, U8 to U64 (within int64), F16, BF16, F32, F64. `__metadata__` is
/// skipped. Refused, each with a sentence that names the file and the tensor: a header that is
/// not JSON or longer than the file, a name that occurs twice, offsets that are out of the data,
/// overlap, leave a hole or do not fit shape and type.
Result<NamedArrays> read_safetensors(const std::filesystem::path& file);

/// The same from bytes in memory; `name` is what an error calls them.
Result<NamedArrays> parse_safetensors(std::string_view bytes, std::string_view name);

/// The bytes of a .safetensors file (F32, F64, I64), header padded with spaces so that the data
/// begin at a multiple of 8 bytes.
std::string format_safetensors(const NamedArrays& arrays);

}  // namespace headproof
