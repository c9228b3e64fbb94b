// The canonical order of arithmetic: what every output bit of canonical and fused is defined by.
#pragma once

#include "headproof/tensor.h"

#if defined(__FAST_MATH__)
#error "headproof cannot be compiled with -ffast-math: it would lose NaN, infinity and the order."
#endif

namespace headproof {

/// Keys are taken in blocks of this many, counted from the sequence's first key.
inline constexpr Index key_block = 64;
/// A block's weights are summed in this many lanes, lane = key mod 16, folded 8, 4, 2, 1.
inline constexpr Index sum_lanes = 16;
/// This many blocks make a span: spans start from zero and are merged in ascending order.
inline constexpr Index blocks_per_span = 16;
inline constexpr Index span_length = key_block * blocks_per_span;

/// How many blocks hold this many keys.
constexpr Index blocks_of(Index keys) { return (keys + key_block - 1) / key_block; }

}  // namespace headproof
