// The instruction sets that vector code is compiled for; included before any header of Highway.
#pragma once

// Targets without a fused multiply-add are left out; plain scalar code with std::fma stays. So are
// those that newer releases of Highway add above AVX-512, for which nothing here is different.
// Bit 29 is NEON without AES, which older releases have no name for. ARM's SVE is left out because
// sums are kept in arrays of vectors, and its vectors have no size before the program runs; NEON
// takes its place.
#define HWY_BROKEN_EMU128 1
#define HWY_DISABLED_TARGETS ~(HWY_SCALAR | HWY_AVX2 | HWY_AVX3 | HWY_NEON | (1LL << 29))
