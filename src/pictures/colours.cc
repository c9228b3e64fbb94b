#include "pictures/colours.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "pictures/ticks.h"

namespace headproof {
namespace {

/// A colour by lightness, chroma and hue in Oklab (B. Ottosson, "A perceptual color space for image
/// processing", 2020, whose matrices these are): equal steps of lightness look equal.
Colour from_oklch(double lightness, double chroma, double hue_degrees) {
  const double hue = hue_degrees * std::numbers::pi / 180;
  const double a = chroma * std::cos(hue), b = chroma * std::sin(hue);
  const double l = std::pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
  const double m = std::pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
  const double s = std::pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
  const auto to_byte = [](double linear) {
    const double c = std::clamp(linear, 0.0, 1.0);
    const double gamma = c <= 0.0031308 ? 12.92 * c : 1.055 * std::pow(c, 1 / 2.4) - 0.055;
    return static_cast<std::uint8_t>(std::lround(255 * gamma));
  };
  return {to_byte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
          to_byte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
          to_byte(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

/// One hue; 0 is tinted, so that it differs from blank paper.
Colour sequential(double t) {
  return from_oklch(0.94 - 0.66 * t, 0.02 + 0.36 * t * (1 - 0.8 * t), 255 + 8 * t);
}

/// Blue below the middle, orange above, the lightness the same on both sides.
Colour diverging(double t) {
  const double distance = std::abs(2 * t - 1);
  const double chroma = 0.36 * distance * (1 - 0.64 * distance);
  return from_oklch(0.95 - 0.5 * distance, chroma, t < 0.5 ? 255 : 50);
}

/// Calls `function(value)` for every cell that is not hidden.
template <class Function>
void for_each_shown(const std::vector<HeatMap>& maps, Function&& function) {
  for (const HeatMap& map : maps) {
    for (Index row = 0; row < map.values.shape[0]; ++row) {
      for (Index column = 0; column < map.values.shape[1]; ++column) {
        if (is_hidden(map, row, column)) break;
        function(static_cast<double>(map.values(row, column)));
      }
    }
  }
}

}  // namespace

Result<ColourScale> with_ends(ColourScale scale, const std::vector<HeatMap>& maps) {
  if (!scale.low || !scale.high) {
    double least = std::numeric_limits<double>::infinity(), greatest = -least;
    for_each_shown(maps, [&](double value) {
      if (!std::isfinite(value) || (scale.logarithmic && value <= 0)) return;
      least = std::min(least, value);
      greatest = std::max(greatest, value);
    });
    if (least > greatest) least = greatest = scale.middle.value_or(1);
    if (scale.middle && scale.logarithmic) {
      const double ratio = std::max({greatest / *scale.middle, *scale.middle / least, 1 + 1e-6});
      least = *scale.middle / ratio;
      greatest = *scale.middle * ratio;
    } else if (scale.middle) {
      const double width =
          std::max({greatest - *scale.middle, *scale.middle - least, 1e-6 * std::abs(*scale.middle),
                    std::numeric_limits<double>::min()});
      least = *scale.middle - width;
      greatest = *scale.middle + width;
    }
    if (!scale.low) scale.low = least;
    if (!scale.high) scale.high = greatest;
    // One value alone still needs a scale to stand on.
    if (*scale.low == *scale.high) *scale.high += std::max(1e-6 * std::abs(*scale.high), 1e-300);
  }
  const auto complain = [&scale](const std::string& what) {
    return Error{"the colour scale \"" + scale.label + "\" " + what};
  };
  if (!std::isfinite(*scale.low) || !std::isfinite(*scale.high) || *scale.low >= *scale.high) {
    return complain("goes from " + number_label(*scale.low) + " to " + number_label(*scale.high) +
                    "; it needs two finite ends, the lower one first");
  }
  if (scale.logarithmic && *scale.low <= 0) {
    return complain("is logarithmic and starts at " + number_label(*scale.low) +
                    "; it must start above 0");
  }
  if (scale.middle && !(*scale.low < *scale.middle && *scale.middle < *scale.high)) {
    return complain("has its middle at " + number_label(*scale.middle) +
                    ", which must lie between its ends " + number_label(*scale.low) + " and " +
                    number_label(*scale.high));
  }
  return scale;
}

ColourMap::ColourMap(const ColourScale& scale)
    : scale_(scale),
      low_(steps(*scale.low)),
      middle_(scale.middle ? steps(*scale.middle) : 0),
      high_(steps(*scale.high)) {
  if (!scale.middle) middle_ = low_ + (high_ - low_) / 2;
  for (std::size_t i = 0; i < palette_.size(); ++i) {
    const double t = static_cast<double>(i) / static_cast<double>(palette_.size() - 1);
    palette_[i] = scale.middle ? diverging(t) : sequential(t);
  }
}

double ColourMap::steps(double value) const {
  if (!scale_.logarithmic) return value;
  // The logarithm of a negative number would be NaN, which means something else here.
  return std::log(value < 0 ? 0 : value);
}

double ColourMap::position(double value) const {
  const double at = steps(value);
  return at < middle_ ? 0.5 - 0.5 * ((middle_ - at) / (middle_ - low_))
                      : 0.5 + 0.5 * ((at - middle_) / (high_ - middle_));
}

double ColourMap::prominence(double value) const {
  if (std::isnan(value)) return std::numeric_limits<double>::infinity();
  return scale_.middle ? std::abs(position(value) - 0.5) : position(value);
}

Colour ColourMap::at(double position) const {
  if (std::isnan(position)) return not_a_number_colour;
  const double last = static_cast<double>(palette_.size() - 1);
  return palette_[static_cast<std::size_t>(std::lround(last * std::clamp(position, 0.0, 1.0)))];
}

}  // namespace headproof
