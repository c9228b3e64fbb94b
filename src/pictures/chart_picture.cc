#include <algorithm>
#include <cmath>
#include <limits>

#include "pictures/canvas.h"
#include "pictures/sheet.h"
#include "pictures/ticks.h"

namespace headproof {
namespace {

// Okabe and Ito's colours, told apart by everyone; the markers differ too.
constexpr Colour line_colours[] = {{0, 114, 178},   {213, 94, 0},   {0, 158, 115},
                                   {204, 121, 167}, {86, 180, 233}, {230, 159, 0}};

Colour line_colour(std::size_t index) { return line_colours[index % std::size(line_colours)]; }

constexpr double plot_height = 340, chart_gap = 56;
/// A chart that stands alone may be wide.
constexpr double plot_width_alone = 860, plot_width_beside_others = 500;
constexpr double tick_length = 6, gap = 8, sample_width = 44, marker_radius = 5.5;
constexpr TextStyle tick_style{.size = 16}, word_style{.size = 17, .colour = soft_ink};
constexpr TextStyle legend_style{.size = 17, .width = 400, .lines = 1};

/// One direction of a chart: numbers to fractions of the plot's side.
struct Axis {
  bool logarithmic = false;
  double low = 0, high = 1;

  bool can_show(double value) const { return std::isfinite(value) && !(logarithmic && value <= 0); }
  double step(double value) const { return logarithmic ? std::log(value) : value; }
  double position(double value) const {
    return (step(value) - step(low)) / (step(high) - step(low));
  }
  std::vector<Tick> ticks(int most) const {
    return logarithmic ? log_ticks(low, high, most) : linear_ticks(low, high, most);
  }
};

/// The range of what can be shown, a little wider so that markers stand clear of the frame.
Axis axis_around(const std::vector<double>& values, bool logarithmic, double margin) {
  Axis axis{logarithmic};
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : values) {
    if (!axis.can_show(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low > high) low = high = 1;
  if (logarithmic) {
    const double ratio = std::pow(low == high ? 4.0 : high / low, margin);
    axis.low = std::max(low / ratio, std::numeric_limits<double>::min());
    axis.high = std::min(high * ratio, std::numeric_limits<double>::max());
  } else {
    const double width = margin * (low == high ? std::max(1.0, std::abs(low)) : high - low);
    axis.low = low - width;
    axis.high = high + width;
  }
  return axis;
}

std::optional<Error> chart_error(const Chart& chart) {
  const std::string name = "the chart \"" + chart.title + "\" ";
  for (const Line& line : chart.lines) {
    if (line.x.size() != line.y.size()) {
      return Error{name + "has a line \"" + line.label + "\" with " +
                   std::to_string(line.x.size()) + " values of x and " +
                   std::to_string(line.y.size()) + " of y; it takes as many of both"};
    }
  }
  for (const auto& end : {chart.y_low, chart.y_high}) {
    if (end && !Axis{chart.log_y}.can_show(*end)) {
      return Error{name + "has an end of its y axis at " + number_label(*end) +
                   (chart.log_y ? "; a logarithmic axis takes finite ends above 0"
                                : "; an axis takes finite ends")};
    }
  }
  return {};
}

/// A chart whose axes are chosen and whose texts are set: its size is known.
class PlacedChart {
 public:
  PlacedChart(const Chart& chart, double plot_width, Typesetter& set);

  double left() const { return y_word_.height + gap + y_labels_width_ + gap + tick_length; }
  double above() const { return title_height_ + legend_height(); }
  double below() const { return tick_length + gap + 20 + gap + x_word_.height; }
  bool axes_are_sound() const { return x_.low < x_.high && y_.low < y_.high; }
  Index points_left_out() const { return points_left_out_; }

  /// (x, y): the plot's top left corner.
  void draw(Canvas& canvas, double x, double y) const;

 private:
  struct Labelled {
    double position;
    Lettering text;
  };
  /// (x, y): where its sample begins, from the legend's top left corner.
  struct LegendEntry {
    std::size_t line;
    Lettering text;
    double x, y;
    double width() const { return sample_width + gap + text.width; }
  };
  static std::vector<Labelled> labelled(const Axis& axis, const std::vector<Tick>& ticks,
                                        Typesetter& set);
  double legend_height() const {
    return legend_.empty() ? 0 : legend_.back().y + legend_.back().text.height + 2 * gap;
  }
  void set_legend(Typesetter& set);
  void draw_axes(Canvas& canvas, double x, double y) const;
  void draw_line(Canvas& canvas, std::size_t index, double x, double y) const;
  void draw_legend(Canvas& canvas, double x, double y) const;
  static void draw_marker(Canvas& canvas, std::size_t index, Canvas::Point at);

  const Chart& chart_;
  double plot_width_;
  Axis x_, y_;
  Lettering title_, x_word_, y_word_;
  std::vector<Labelled> x_ticks_, y_ticks_;
  std::vector<LegendEntry> legend_;
  std::vector<Lettering> notes_;
  double y_labels_width_ = 0, title_height_ = 0;
  Index points_left_out_ = 0;
};

PlacedChart::PlacedChart(const Chart& chart, double plot_width, Typesetter& set)
    : chart_(chart), plot_width_(plot_width) {
  std::vector<double> all_x, all_y;
  for (const Line& line : chart.lines) {
    for (std::size_t i = 0; i < line.x.size(); ++i) {
      if (Axis{chart.log_x}.can_show(line.x[i]) && Axis{chart.log_y}.can_show(line.y[i])) {
        all_x.push_back(line.x[i]);
        all_y.push_back(line.y[i]);
      } else {
        ++points_left_out_;
      }
    }
  }
  x_ = axis_around(all_x, chart.log_x, 0.05);
  y_ = axis_around(all_y, chart.log_y, 0.07);
  if (chart.y_low) y_.low = *chart.y_low;
  if (chart.y_high) y_.high = *chart.y_high;

  std::vector<Tick> x_ticks;
  for (const double value : chart.x_ticks) x_ticks.push_back({value, number_label(value)});
  x_ticks_ = labelled(
      x_, chart.x_ticks.empty() ? x_.ticks(static_cast<int>(plot_width / 70)) : x_ticks, set);
  y_ticks_ = labelled(y_, y_.ticks(7), set);
  for (const Labelled& tick : y_ticks_) {
    y_labels_width_ = std::max(y_labels_width_, tick.text.width);
  }
  TextStyle y_style = word_style;
  y_style.width = plot_height;
  y_style.lines = 2;
  y_style.centred = true;
  TextStyle x_style = y_style;
  x_style.width = plot_width;
  x_word_ = set(chart.x_label, x_style);
  y_word_ = set(chart.y_label, y_style);
  title_ = set(chart.title, {.size = 19, .width = plot_width, .lines = 3, .centred = true});
  title_height_ = chart.title.empty() ? 0 : title_.height + gap;
  set_legend(set);
  for (const Mark& mark : chart.marks) {
    notes_.push_back(
        set(mark.note, {.size = 16, .width = 0.55 * plot_width, .lines = 4, .colour = soft_ink}));
  }
}

std::vector<PlacedChart::Labelled> PlacedChart::labelled(const Axis& axis,
                                                         const std::vector<Tick>& ticks,
                                                         Typesetter& set) {
  std::vector<Labelled> result;
  for (const Tick& tick : ticks) {
    if (axis.can_show(tick.value) && axis.position(tick.value) >= 0 &&
        axis.position(tick.value) <= 1) {
      result.push_back({axis.position(tick.value), set(tick.label, tick_style)});
    }
  }
  return result;
}

/// Entries side by side, each row of them centred.
void PlacedChart::set_legend(Typesetter& set) {
  double x = 0, y = 0;
  std::size_t row_begin = 0;
  const auto end_row = [&] {
    const double spare = plot_width_ - (x - 3 * gap);
    for (; row_begin < legend_.size(); ++row_begin) legend_[row_begin].x += spare / 2;
  };
  for (std::size_t i = 0; i < chart_.lines.size(); ++i) {
    if (chart_.lines[i].label.empty()) continue;
    LegendEntry entry{i, set(chart_.lines[i].label, legend_style), 0, 0};
    if (x > 0 && x + entry.width() > plot_width_) {
      end_row();
      x = 0;
      y += entry.text.height + gap / 2;
    }
    entry.x = x;
    entry.y = y;
    x += entry.width() + 3 * gap;
    legend_.push_back(entry);
  }
  end_row();
}

void PlacedChart::draw_axes(Canvas& canvas, double x, double y) const {
  const double bottom = y + plot_height;
  for (const Labelled& tick : y_ticks_) {
    const double at = std::round(bottom - tick.position * plot_height) + 0.5;
    canvas.line(hairline, 1, {{x, at}, {x + plot_width_, at}});
    canvas.line(soft_ink, 1, {{x - tick_length, at}, {x, at}});
    canvas.text(tick.text, x - tick_length - gap, at, {1, 0.5});
  }
  for (const Labelled& tick : x_ticks_) {
    const double at = std::round(x + tick.position * plot_width_) + 0.5;
    canvas.line(hairline, 1, {{at, y}, {at, bottom}});
    canvas.line(soft_ink, 1, {{at, bottom}, {at, bottom + tick_length}});
    canvas.text(tick.text, at, bottom + tick_length + gap / 2, {0.5, 0});
  }
  canvas.line(soft_ink, 1,
              {{x + 0.5, y}, {x + 0.5, bottom + 0.5}, {x + plot_width_, bottom + 0.5}});
  canvas.text(x_word_, x + plot_width_ / 2, y + plot_height + below(), {0.5, 1});
  canvas.text_upwards(y_word_, x - left(), y + plot_height / 2, {0.5, 0});
}

void PlacedChart::draw_marker(Canvas& canvas, std::size_t index, Canvas::Point at) {
  const Colour colour = line_colour(index);
  const double r = marker_radius;
  switch (index % 4) {
    case 0:
      return canvas.disc(colour, at, r);
    case 1:
      return canvas.fill(colour, at.x - 0.9 * r, at.y - 0.9 * r, 1.8 * r, 1.8 * r);
    case 2:
      return canvas.polygon(
          colour, {{at.x, at.y - 1.2 * r}, {at.x + 1.2 * r, at.y + r}, {at.x - 1.2 * r, at.y + r}});
    default:
      return canvas.polygon(colour, {{at.x, at.y - 1.3 * r},
                                     {at.x + 1.3 * r, at.y},
                                     {at.x, at.y + 1.3 * r},
                                     {at.x - 1.3 * r, at.y}});
  }
}

void PlacedChart::draw_line(Canvas& canvas, std::size_t index, double x, double y) const {
  const Line& line = chart_.lines[index];
  std::vector<Canvas::Point> stretch;
  const auto end_stretch = [&] {
    canvas.line(line_colour(index), 2.5, stretch);
    for (const Canvas::Point& point : stretch) draw_marker(canvas, index, point);
    stretch.clear();
  };
  for (std::size_t i = 0; i < line.x.size(); ++i) {
    if (x_.can_show(line.x[i]) && y_.can_show(line.y[i])) {
      stretch.push_back({x + x_.position(line.x[i]) * plot_width_,
                         y + (1 - y_.position(line.y[i])) * plot_height});
    } else {
      end_stretch();
    }
  }
  end_stretch();
}

void PlacedChart::draw_legend(Canvas& canvas, double x, double y) const {
  for (const LegendEntry& entry : legend_) {
    const double left = x + entry.x, middle = y + entry.y + entry.text.height / 2;
    canvas.line(line_colour(entry.line), 2.5, {{left, middle}, {left + sample_width, middle}});
    draw_marker(canvas, entry.line, {left + sample_width / 2, middle});
    canvas.text(entry.text, left + sample_width + gap, y + entry.y);
  }
}

void PlacedChart::draw(Canvas& canvas, double x, double y) const {
  canvas.text(title_, x + plot_width_ / 2, y - above(), {0.5, 0});
  draw_legend(canvas, x, y - legend_height());
  draw_axes(canvas, x, y);
  double note_y = y + gap;
  for (std::size_t i = 0; i < chart_.marks.size(); ++i) {
    const double position = x_.position(chart_.marks[i].x);
    if (!(position >= 0 && position <= 1)) continue;
    const double at = std::round(x + position * plot_width_) + 0.5;
    canvas.line(soft_ink, 1.5, {{at, y}, {at, y + plot_height}}, true);
    // Beside the line, on the side where there is more room.
    const double side = position < 0.5 ? 1 : -1;
    canvas.text(notes_[i], at + side * gap, note_y, {position < 0.5 ? 0.0 : 1.0, 0});
    note_y += notes_[i].height + gap;
  }
  for (std::size_t i = 0; i < chart_.lines.size(); ++i) draw_line(canvas, i, x, y);
}

}  // namespace

Result<std::string> draw(const ChartPicture& picture, PictureFormat format) {
  if (picture.charts.empty()) return Error{"a picture needs at least one chart"};
  Typesetter set;
  if (auto error = set.font_error()) return *error;
  std::vector<PlacedChart> charts;
  double width = -chart_gap, above = 0, below = 0;
  Index left_out = 0;
  const double plot_width =
      picture.charts.size() == 1 ? plot_width_alone : plot_width_beside_others;
  for (const Chart& chart : picture.charts) {
    if (auto error = chart_error(chart)) return *error;
    const PlacedChart& placed = charts.emplace_back(chart, plot_width, set);
    if (!placed.axes_are_sound()) {
      return Error{"the chart \"" + chart.title +
                   "\" has a y axis whose low end is not below its " + "high end; exchange them"};
    }
    width += placed.left() + plot_width + chart_gap;
    above = std::max(above, placed.above());
    below = std::max(below, placed.below());
    left_out += placed.points_left_out();
  }
  std::string remarks;
  if (left_out > 0) {
    remarks = "Points that these axes cannot show, left out: " + std::to_string(left_out) + ".";
  }
  const Sheet sheet(picture.title, picture.caption, remarks, width, above + plot_height + below,
                    set);
  auto canvas = Canvas::make(format, sheet.width(), sheet.height(), picture.title);
  if (!canvas) return canvas.error();
  sheet.draw(*canvas);
  double x = sheet.content_x();
  for (const PlacedChart& chart : charts) {
    x = std::round(x + chart.left());
    chart.draw(*canvas, x, std::round(sheet.content_y() + above));
    x += plot_width + chart_gap;
  }
  return canvas->finish();
}

}  // namespace headproof
