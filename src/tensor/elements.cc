#include "tensor/elements.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace headproof {
namespace {

template <class Unsigned>
Unsigned reverse_bytes(Unsigned bits) {
  std::array<unsigned char, sizeof(Unsigned)> bytes;
  std::memcpy(bytes.data(), &bits, sizeof bits);
  std::reverse(bytes.begin(), bytes.end());
  std::memcpy(&bits, bytes.data(), sizeof bits);
  return bits;
}

/// Calls `convert(bits)` for the bits of each element and collects what it returns.
template <class Unsigned, class Convert>
auto convert_each(std::string_view bytes, bool big_endian, Convert convert) {
  const bool reversed = big_endian != (std::endian::native == std::endian::big);
  std::vector<decltype(convert(Unsigned{}))> values(bytes.size() / sizeof(Unsigned));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Unsigned bits;
    std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
    values[i] = convert(reversed ? reverse_bytes(bits) : bits);
  }
  return values;
}

/// A float16 (1 sign, 5 exponent and 10 mantissa bits) as the float of the same value.
float widen_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16, exponent = (half >> 10) & 0x1FU;
  const std::uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0) {  // Zero or subnormal: a multiple of 2^-24, which a float holds exactly.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  // Infinity and NaN keep an exponent of ones; the others move from a bias of 15 to one of 127.
  const std::uint32_t wide_exponent = exponent == 0x1F ? 0xFF : exponent + 127 - 15;
  return std::bit_cast<float>(sign | wide_exponent << 23 | mantissa << 13);
}

/// Integers of any width as int64.
template <class Unsigned>
std::vector<Index> decode_integers(std::string_view bytes, ElementType type) {
  if (type.kind == ElementKind::signed_integer) {
    return convert_each<Unsigned>(bytes, type.big_endian, [](Unsigned bits) {
      return static_cast<Index>(static_cast<std::make_signed_t<Unsigned>>(bits));
    });
  }
  return convert_each<Unsigned>(bytes, type.big_endian,
                                [](Unsigned bits) { return static_cast<Index>(bits); });
}

Result<decltype(Array::values)> decode_long_integers(std::string_view bytes, ElementType type) {
  std::vector<Index> values = decode_integers<std::uint64_t>(bytes, type);
  if (type.kind == ElementKind::unsigned_integer) {
    const auto negative = std::find_if(values.begin(), values.end(), [](Index v) { return v < 0; });
    if (negative != values.end()) {
      return Error{"element " + std::to_string(negative - values.begin()) + " is " +
                   std::to_string(static_cast<std::uint64_t>(*negative)) + ", but integers up to " +
                   std::to_string(std::numeric_limits<Index>::max()) + " are read"};
    }
  }
  return decltype(Array::values)(std::move(values));
}

}  // namespace

std::optional<Index> count_elements(const std::vector<Index>& shape) {
  constexpr std::size_t max_rank = 64;
  constexpr Index max_elements = std::numeric_limits<Index>::max() / 8;
  if (shape.size() > max_rank) return std::nullopt;
  Index product = 1;
  bool empty = false;
  for (Index extent : shape) {
    if (extent < 0 || extent > max_elements / product) return std::nullopt;
    if (extent == 0) {
      empty = true;
    } else {
      product *= extent;
    }
  }
  return empty ? 0 : product;
}

Result<decltype(Array::values)> decode_elements(std::string_view bytes, ElementType type) {
  using Values = decltype(Array::values);
  const bool big = type.big_endian;
  switch (type.kind) {
    case ElementKind::boolean:
      return Values(convert_each<std::uint8_t>(
          bytes, big, [](std::uint8_t bits) { return static_cast<Index>(bits != 0); }));
    case ElementKind::signed_integer:
    case ElementKind::unsigned_integer:
      if (type.size == 1) return Values(decode_integers<std::uint8_t>(bytes, type));
      if (type.size == 2) return Values(decode_integers<std::uint16_t>(bytes, type));
      if (type.size == 4) return Values(decode_integers<std::uint32_t>(bytes, type));
      return decode_long_integers(bytes, type);
    case ElementKind::brain_floating:  // The upper half of a float.
      return Values(convert_each<std::uint16_t>(bytes, big, [](std::uint16_t bits) {
        return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
      }));
    case ElementKind::floating:
      break;
  }
  if (type.size == 2) return Values(convert_each<std::uint16_t>(bytes, big, widen_half));
  if (type.size == 4) {
    return Values(convert_each<std::uint32_t>(
        bytes, big, [](std::uint32_t bits) { return std::bit_cast<float>(bits); }));
  }
  return Values(convert_each<std::uint64_t>(
      bytes, big, [](std::uint64_t bits) { return std::bit_cast<double>(bits); }));
}

std::string encode_elements(const decltype(Array::values)& values) {
  return std::visit(
      [](const auto& numbers) {
        using Number = typename std::decay_t<decltype(numbers)>::value_type;
        using Bits = std::conditional_t<sizeof(Number) == 4, std::uint32_t, std::uint64_t>;
        std::string bytes(numbers.size() * sizeof(Number), '\0');
        for (std::size_t i = 0; i < numbers.size(); ++i) {
          auto bits = std::bit_cast<Bits>(numbers[i]);
          if constexpr (std::endian::native == std::endian::big) bits = reverse_bytes(bits);
          std::memcpy(bytes.data() + i * sizeof bits, &bits, sizeof bits);
        }
        return bytes;
      },
      values);
}

}  // namespace headproof
