#include "subjects/guarded.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "headproof/subject.h"

namespace headproof {

Index size_of(int dtype) {
  return dtype == HEADPROOF_FLOAT64 ? 8 : dtype == HEADPROOF_FLOAT32 ? 4 : 2;
}

void store(double value, int dtype, unsigned char* place) {
  if (dtype == HEADPROOF_FLOAT64) {
    std::memcpy(place, &value, 8);
    return;
  }
  const auto single = static_cast<float>(value);
  if (dtype == HEADPROOF_FLOAT32) {
    std::memcpy(place, &single, 4);
    return;
  }
  const auto bits = std::bit_cast<std::uint32_t>(single);
  auto half = static_cast<std::uint16_t>(bits >> 16);  // bfloat16
  if (dtype == HEADPROOF_FLOAT16) {
    const auto sign = static_cast<std::uint32_t>(bits >> 16 & 0x8000U);
    std::uint32_t rest = 0;
    if (std::isnan(value)) {
      rest = 0x7E00;
    } else if (std::isinf(value)) {
      rest = 0x7C00;
    } else if (std::fabs(single) < 0x1p-14F) {
      rest = static_cast<std::uint32_t>(std::fabs(single) * 0x1p24F);
    } else {
      rest = ((bits & 0x7FFFFFFFU) - (112U << 23)) >> 13;
    }
    half = static_cast<std::uint16_t>(sign | rest);
  }
  std::memcpy(place, &half, 2);
}

double load(int dtype, const unsigned char* place) {
  if (dtype == HEADPROOF_FLOAT64) {
    double value = 0;
    std::memcpy(&value, place, 8);
    return value;
  }
  if (dtype == HEADPROOF_FLOAT32) {
    float value = 0;
    std::memcpy(&value, place, 4);
    return value;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, place, 2);
  if (dtype == HEADPROOF_BFLOAT16) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
  }
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const double size = exponent == 31  ? (fraction == 0 ? HUGE_VAL : std::nan(""))
                      : exponent == 0 ? std::ldexp(fraction, -24)
                                      : std::ldexp(1024 + fraction, exponent - 25);
  return half & 0x8000 ? -size : size;
}

bool heads_are_equal(const Tensor<float, 4>& tensor) {
  const auto [batch, heads, rows, channels] = tensor.shape();
  for (Index b = 0; b < batch; ++b) {
    const float* first = tensor[b][0].data;
    for (Index h = 1; h < heads; ++h) {
      if (!std::equal(first, first + rows * channels, tensor[b][h].data)) return false;
    }
  }
  return true;
}

Guarded::Guarded(std::string name, const std::array<Index, 4>& shape, int dtype, bool heads_inside,
                 Index gap, bool apart, bool one_head)
    : shape_(shape), dtype_(dtype), name_(std::move(name)) {
  const auto [batch, all_heads, rows, channels] = shape;
  const Index heads = one_head ? std::min<Index>(all_heads, 1) : all_heads;
  const Index width = (apart ? 2 : 1) * channels + gap, step = apart ? -2 : 1;
  strides_ = heads_inside ? std::array<Index, 4>{rows * heads * width, width, heads * width, step}
                          : std::array<Index, 4>{heads * rows * width, rows * width, width, step};
  if (one_head) strides_[1] = 0;
  const Index size = batch * heads * rows * width * size_of(dtype);
  // Wide enough for a write that is off by a row, a head or a whole tensor.
  zone_ = 4096 + std::min<Index>(size, 1 << 20) / 64 * 64;
  size_ = size;
  bytes_.assign(static_cast<std::size_t>(2 * zone_ + size), blank);
  if (gap > 0) offset_ = size_of(dtype);  // a row does not begin where a cache line does
  if (apart) offset_ += 2 * std::max<Index>(channels - 1, 0) * size_of(dtype);
}

std::optional<std::string> Guarded::trespass() const {
  const auto is_blank = [](const unsigned char* zone, Index size) {
    return zone[0] == blank && std::memcmp(zone, zone + 1, static_cast<std::size_t>(size - 1)) == 0;
  };
  const unsigned char* all = bytes_.data();
  const Index behind = zone_ + size_, end = behind + zone_;
  if (is_blank(all, zone_) && is_blank(all + behind, zone_)) return std::nullopt;
  Index count = 0, farthest = 0;
  bool before = false;
  for (Index at = 0; at < end; at = at + 1 == zone_ ? behind : at + 1) {
    if (all[at] == blank) continue;
    ++count;
    const Index distance = at < zone_ ? zone_ - at : at + 1 - behind;
    if (distance > farthest) {
      farthest = distance;
      before = at < zone_;
    }
  }
  return "it wrote " + std::to_string(count) + " bytes outside of " + name_ + ", up to " +
         std::to_string(farthest) + " bytes " +
         (before ? "before its first number" : "after its last number");
}

}  // namespace headproof
