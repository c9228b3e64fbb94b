#include "pictures/axis_labels.h"

#include <algorithm>

#include "pictures/ticks.h"

namespace headproof {
namespace {

constexpr double tick_length = 5, gap = 3;
/// What is longer than this many em stands in one lane only: two would take too much room.
constexpr double longest_in_two_lanes = 2;
constexpr double smallest_type = 11, largest_type = 16, longest_label = 170;
/// Lines of capitals and digits may stand closer than a line's full height.
constexpr double lines_per_em = 0.94;
constexpr double most_off_centre = 1.5;

bool fit_in_two_lanes(const std::vector<std::string>& labels, Typesetter& set) {
  return std::all_of(labels.begin(), labels.end(), [&set](const std::string& label) {
    return set(label, {.size = largest_type}).width <= longest_in_two_lanes * largest_type;
  });
}

}  // namespace

double AxisLabels::least_cell(const std::vector<std::string>& labels, Typesetter& set) {
  if (labels.empty()) return 1;
  return smallest_type * lines_per_em / (fit_in_two_lanes(labels, set) ? 2 : 1);
}

AxisLabels::AxisLabels(Side side, const std::vector<std::string>& labels, double cell,
                       Typesetter& set)
    : side_(side) {
  const bool two_lanes = cell < largest_type * lines_per_em && fit_in_two_lanes(labels, set);
  const double pitch = two_lanes ? 2 * cell : cell;
  const double size = std::clamp(pitch / lines_per_em, smallest_type, largest_type);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels_.push_back({set(labels[i], {.size = size, .width = longest_label, .lines = 1}),
                       (static_cast<double>(i) + 0.5) * cell, two_lanes ? i % 2 : 0});
  }
  upwards_ = side == Side::below &&
             std::any_of(labels_.begin(), labels_.end(),
                         [pitch](const Label& label) { return label.text.width > pitch; });
  place();
}

AxisLabels::AxisLabels(Side side, Index count, double cell, Typesetter& set) : side_(side) {
  // Room for about one number in 40 pixels.
  const int most = std::clamp(static_cast<int>(static_cast<double>(count) * cell / 40), 1, 12);
  for (const Tick& tick : index_ticks(count, most)) {
    labels_.push_back({set(tick.label, {.size = 15}), (tick.value + 0.5) * cell, 0});
  }
  place();
}

void AxisLabels::place() {
  std::array<double, 2> lane_depth{};
  for (const Label& label : labels_) {
    const bool lengthwise = side_ == Side::left || upwards_;
    const double depth = lengthwise ? label.text.width : label.text.height;
    lane_depth[label.lane] = std::max(lane_depth[label.lane], depth);
  }
  lane_distance_ = {tick_length + gap, tick_length + gap + lane_depth[0] + gap};
  depth_ =
      lane_depth[1] > 0 ? lane_distance_[1] + lane_depth[1] : lane_distance_[0] + lane_depth[0];
}

void AxisLabels::draw(Canvas& canvas, double x, double y) const {
  for (const Label& label : labels_) {
    const double far = lane_distance_[label.lane], line_end = far - gap;
    if (side_ == Side::left) {
      const double at = y + label.along;
      canvas.line(label.lane == 0 ? soft_ink : hairline, 1, {{x - line_end, at}, {x - 1, at}});
      // A comma or a mark for a space sits low on its line; here it has to be seen at its own row.
      const double low = label.text.ink_middle - label.text.height / 2;
      const double raised = low - std::clamp(low, -most_off_centre, most_off_centre);
      canvas.text(label.text, x - far, at - raised, {1, 0.5});
    } else {
      const double at = x + label.along;
      canvas.line(label.lane == 0 ? soft_ink : hairline, 1, {{at, y + 1}, {at, y + line_end}});
      if (upwards_) {
        canvas.text_upwards(label.text, at, y + far, {1, 0.5});
      } else {
        canvas.text(label.text, at, y + far, {0.5, 0});
      }
    }
  }
}

}  // namespace headproof
