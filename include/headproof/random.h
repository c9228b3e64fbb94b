// Random numbers with the same bits as PyTorch's CPU generator.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <random>

#include "headproof/tensor.h"

namespace headproof {

/// PyTorch's CPU generator: MT19937, and its ways from 32-bit draws to numbers, bit for bit those
/// that PyTorch (1.13 to 2.x) returns for the same seed and the same sequence of calls.
/// Source: M. Matsumoto and T. Nishimura, "Mersenne Twister", ACM TOMACS 8 (1998); the logarithm,
/// sine and cosine are the single-precision polynomials of S. Moshier's Cephes library.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) { manual_seed(seed); }

  /// Starts again from `seed`, of which the low 32 bits count; forgets the cached normal.
  void manual_seed(std::uint64_t seed);

  /// Fills with uniform numbers in [low, high), one draw each.
  void uniform(View<float, 1> out, float low, float high);

  /// Fills with standard normal numbers: Box-Muller in blocks of 16 in float when there are at
  /// least 16 elements, in double one after the other (with a cached second value) below that.
  void normal(View<float, 1> out);

  /// Standard normal numbers of any shape; only the number of elements matters to the stream.
  template <class... Sizes>
  auto randn(Sizes... sizes) {
    Tensor<float, sizeof...(Sizes)> out({static_cast<Index>(sizes)...});
    normal({out.data(), {out.size()}});
    return out;
  }

  /// Uniform numbers in [0, 1) of any shape.
  template <class... Sizes>
  auto rand(Sizes... sizes) {
    Tensor<float, sizeof...(Sizes)> out({static_cast<Index>(sizes)...});
    uniform({out.data(), {out.size()}}, 0.0F, 1.0F);
    return out;
  }

  /// Integers in [low, high), `low < high`; a range of 2^28 or more takes 64-bit draws, as in
  /// PyTorch since 2.7 (before, one of 2^32 or more).
  Tensor<Index, 1> randint(Index low, Index high, Index count);

  /// A permutation of 0 .. n - 1.
  Tensor<Index, 1> randperm(Index n);

 private:
  std::uint64_t draw64();
  double normal_double();

  std::mt19937 engine_;
  std::optional<double> cached_normal_;
};

}  // namespace headproof
