#include "pictures/colour_bar.h"

#include <algorithm>
#include <cmath>

namespace headproof {
namespace {

constexpr double bar_width = 18, arrow_height = 14, swatch_height = 30, swatch_size = 18;
constexpr double tick_length = 5, gap = 6, type_size = 16;

}  // namespace

Contents contents(const std::vector<HeatMap>& maps, const ColourMap& colours) {
  Contents found;
  // Rounding at an end is not a value beyond it.
  constexpr double slack = 1e-6;
  for (const HeatMap& map : maps) {
    for (Index row = 0; row < map.values.shape[0]; ++row) {
      for (Index column = 0; column < map.values.shape[1]; ++column) {
        if (is_hidden(map, row, column)) {
          found.hidden = true;
          break;
        }
        const double position = colours.position(static_cast<double>(map.values(row, column)));
        found.below |= position < -slack;
        found.above |= position > 1 + slack;
        found.not_a_number |= std::isnan(position);
      }
    }
  }
  return found;
}

ColourBar::ColourBar(const ColourMap& colours, const Contents& shown, double height,
                     Typesetter& set)
    : colours_(colours), shown_(shown), height_(height) {
  const TextStyle style{.size = type_size, .width = 200, .lines = 1};
  if (shown.hidden) swatches_.push_back({paper, set(colours.scale().hidden_label, style)});
  if (shown.not_a_number) swatches_.push_back({not_a_number_colour, set("NaN", style)});
  height_ -= swatch_height * static_cast<double>(swatches_.size());

  const ColourScale& scale = colours.scale();
  const int most = std::clamp(static_cast<int>(height_ / 32), 2, 9);
  const auto ticks = scale.logarithmic ? log_ticks(*scale.low, *scale.high, most)
                                       : linear_ticks(*scale.low, *scale.high, most);
  double text_width = 0;
  for (const Tick& tick : ticks) {
    ticks_.push_back({colours.position(tick.value), set(tick.label, style)});
    text_width = std::max(text_width, ticks_.back().text.width);
  }
  label_ = set(scale.label, {.size = 18, .width = height_, .lines = 2, .centred = true});
  label_x_ = bar_width + tick_length + gap + text_width + gap;
  width_ = label_x_ + label_.height;
  for (const Swatch& swatch : swatches_) {
    width_ = std::max(width_, swatch_size + gap + swatch.text.width);
  }
}

void ColourBar::draw(Canvas& canvas, double x, double y) const {
  const double top = y + (shown_.above ? arrow_height : 0);
  const double bottom = y + height_ - (shown_.below ? arrow_height : 0);
  const double right = x + bar_width, tip = x + bar_width / 2;
  const auto rows = static_cast<int>(std::lround(bottom - top));
  for (int row = 0; row < rows; ++row) {
    // Each strip reaches to the bar's end, so that no seam opens between two of them.
    canvas.fill(colours_.at(1 - (row + 0.5) / rows), x, top + row, bar_width, rows - row);
  }
  std::vector<Canvas::Point> outline{{x - 0.5, bottom + 0.5}, {x - 0.5, top - 0.5}};
  if (shown_.above) {
    canvas.polygon(colours_.at(1), {{x, top}, {tip, y}, {right, top}});
    outline.push_back({tip, y - 0.5});
  }
  outline.push_back({right + 0.5, top - 0.5});
  outline.push_back({right + 0.5, bottom + 0.5});
  if (shown_.below) {
    canvas.polygon(colours_.at(0), {{x, bottom}, {tip, y + height_}, {right, bottom}});
    outline.push_back({tip, y + height_ + 0.5});
  }
  outline.push_back(outline.front());
  canvas.line(soft_ink, 1, outline);

  for (const Labelled& tick : ticks_) {
    const double at = bottom - tick.position * (bottom - top);
    canvas.line(soft_ink, 1, {{right + 1, at}, {right + tick_length, at}});
    canvas.text(tick.text, right + tick_length + gap, at, {0, 0.5});
  }
  canvas.text_upwards(label_, x + label_x_, y + height_ / 2, {0.5, 0});

  double swatch_y = y + height_ + swatch_height - swatch_size;
  for (const Swatch& swatch : swatches_) {
    canvas.fill(soft_ink, x - 1, swatch_y - 1, swatch_size + 2, swatch_size + 2);
    canvas.fill(swatch.colour, x, swatch_y, swatch_size, swatch_size);
    canvas.text(swatch.text, x + swatch_size + gap, swatch_y + swatch_size / 2, {0, 0.5});
    swatch_y += swatch_height;
  }
}

}  // namespace headproof
