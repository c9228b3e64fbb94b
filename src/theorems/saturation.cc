#include "theorems/saturation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace headproof {
namespace {

constexpr Index block = 8;

/// Odd integers from -255 to 255, all equally likely; their variance is (256^2 - 1) / 3.
constexpr double level_variance = 21845;

void fill_levels(std::vector<std::int16_t>& levels, std::mt19937& engine) {
  for (std::size_t i = 0; i < levels.size(); i += 4) {
    auto draw = static_cast<std::uint32_t>(engine());
    for (std::size_t byte = 0; byte < 4; ++byte, draw >>= 8) {
      levels[i + byte] = static_cast<std::int16_t>(2 * static_cast<int>(draw & 0xFF) - 255);
    }
  }
}

struct Row {
  double largest, jacobian;
};

/// The largest weight of softmax(scale * scores), and the norm of its Jacobian: with p the weights,
/// |diag(p) - p p^T|^2 = sum p^2 - 2 sum p^3 + (sum p^2)^2.
Row softmax_row(const std::array<double, block>& scores, double scale) {
  const double maximum = *std::max_element(scores.begin(), scores.end());
  double sum = 0, squares = 0, cubes = 0;
  for (double score : scores) {
    const double p = std::exp(scale * (score - maximum));
    sum += p;
    squares += p * p;
    cubes += p * p * p;
  }
  squares /= sum * sum;
  cubes /= sum * sum * sum;
  return {1 / sum, std::sqrt(std::max(0.0, squares - 2 * cubes + squares * squares))};
}

}  // namespace

Saturation sample_saturation(Index d_k, Index blocks) {
  std::mt19937 engine(45);
  const auto width = static_cast<std::size_t>(d_k);
  std::vector<std::int16_t> q((block * width + 3) / 4 * 4), k(q.size());
  const double scale = 1 / std::sqrt(static_cast<double>(d_k));

  Saturation mean{.d_k = d_k};
  double square_sum = 0;
  for (Index n = 0; n < blocks; ++n) {
    fill_levels(q, engine);
    fill_levels(k, engine);
    double block_variance = 0;
    for (std::size_t i = 0; i < block; ++i) {
      std::array<double, block> scores{};
      for (std::size_t j = 0; j < block; ++j) {
        std::int32_t dot = 0;
        for (std::size_t c = 0; c < width; ++c) dot += q[i * width + c] * k[j * width + c];
        scores[j] = dot / level_variance;
        block_variance += scores[j] * scores[j] / (block * block);
      }
      const Row raw = softmax_row(scores, 1), scaled = softmax_row(scores, scale);
      mean.largest_raw += raw.largest;
      mean.jacobian_raw += raw.jacobian;
      mean.largest_scaled += scaled.largest;
      mean.jacobian_scaled += scaled.jacobian;
    }
    mean.variance += block_variance;
    square_sum += block_variance * block_variance;
  }
  const auto count = static_cast<double>(blocks);
  mean.variance /= count;
  mean.standard_error =
      std::sqrt((square_sum / count - mean.variance * mean.variance) / (count - 1));
  for (double* total :
       {&mean.largest_raw, &mean.jacobian_raw, &mean.largest_scaled, &mean.jacobian_scaled}) {
    *total /= count * block;
  }
  return mean;
}

}  // namespace headproof
