#include "theorems/saturation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace headproof {
namespace {

constexpr std::size_t block = 8;

/// Odd integers from -255 to 255, all equally likely; their variance is (256^2 - 1) / 3.
constexpr double level_variance = 21845;

using Levels = std::vector<std::int16_t>;

void draw_levels(Levels& levels, std::vector<std::uint8_t>& bytes, std::mt19937& engine) {
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    const auto draw = static_cast<std::uint32_t>(engine());
    for (std::size_t byte = 0; byte < 4; ++byte) {
      bytes[i + byte] = static_cast<std::uint8_t>(draw >> (8 * byte));
    }
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    levels[i] = static_cast<std::int16_t>(2 * bytes[i] - 255);
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

std::vector<Saturation> sample_saturation(const std::vector<Index>& d_k, Index blocks) {
  std::mt19937 engine(45);
  const auto width = static_cast<std::size_t>(d_k.back());
  std::vector<std::uint8_t> bytes((block * width + 3) / 4 * 4);
  Levels q(bytes.size()), k(bytes.size());
  std::vector<Saturation> means(d_k.size());
  std::vector<double> square_sums(d_k.size());
  std::vector<std::array<double, block>> scores(d_k.size());

  for (Index n = 0; n < blocks; ++n) {
    draw_levels(q, bytes, engine);
    draw_levels(k, bytes, engine);
    std::vector<double> block_variances(d_k.size());
    for (std::size_t i = 0; i < block; ++i) {
      for (std::size_t j = 0; j < block; ++j) {
        std::int32_t dot = 0;
        std::size_t c = 0;
        for (std::size_t s = 0; s < d_k.size(); ++s) {
          const auto end = static_cast<std::size_t>(d_k[s]);
          for (; c < end; ++c) dot += q[i * width + c] * k[j * width + c];
          scores[s][j] = dot / level_variance;
          block_variances[s] += scores[s][j] * scores[s][j] / (block * block);
        }
      }
      for (std::size_t s = 0; s < d_k.size(); ++s) {
        const Row raw = softmax_row(scores[s], 1);
        const Row scaled = softmax_row(scores[s], 1 / std::sqrt(static_cast<double>(d_k[s])));
        means[s].largest_raw += raw.largest;
        means[s].jacobian_raw += raw.jacobian;
        means[s].largest_scaled += scaled.largest;
        means[s].jacobian_scaled += scaled.jacobian;
      }
    }
    for (std::size_t s = 0; s < d_k.size(); ++s) {
      means[s].variance += block_variances[s];
      square_sums[s] += block_variances[s] * block_variances[s];
    }
  }

  const auto count = static_cast<double>(blocks);
  for (std::size_t s = 0; s < d_k.size(); ++s) {
    Saturation& mean = means[s];
    mean.d_k = d_k[s];
    mean.variance /= count;
    mean.standard_error =
        std::sqrt((square_sums[s] / count - mean.variance * mean.variance) / (count - 1));
    for (double* total :
         {&mean.largest_raw, &mean.jacobian_raw, &mean.largest_scaled, &mean.jacobian_scaled}) {
      *total /= count * block;
    }
  }
  return means;
}

}  // namespace headproof
