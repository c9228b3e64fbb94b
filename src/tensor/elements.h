// The bytes of numbers in files, and the numbers they stand for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headproof/array.h"

namespace headproof {

enum class ElementKind { boolean, signed_integer, unsigned_integer, floating, brain_floating };

/// How a file writes one number.
struct ElementType {
  ElementKind kind;
  Index size;  ///< bytes: 1 for boolean; 1, 2, 4, 8 for integers; 2, 4, 8 for floating; 2 for brain
  bool big_endian = false;
};

/// How many elements an array of this shape has; nothing when an extent is negative, when there are
/// more than 64 axes (NumPy's limit), or when the bytes of such an array, extents of 0 counted as
/// 1, are more than 64 bits can count. What passes can be strided over without overflow.
std::optional<Index> count_elements(const std::vector<Index>& shape);

/// The numbers that the bytes stand for, in the order of the bytes; precondition: the number of
/// bytes is a multiple of the type's size. The error is the rest of a sentence that begins with the
/// array's name: an unsigned integer is above the largest int64.
Result<decltype(Array::values)> decode_elements(std::string_view bytes, ElementType type);

/// The bytes of the numbers, least significant byte first.
std::string encode_elements(const decltype(Array::values)& values);

}  // namespace headproof
