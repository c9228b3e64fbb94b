// The labels along one side of a heat map.
#pragma once

#include <string>
#include <vector>

#include "pictures/canvas.h"

namespace headproof {

/// Labels at their own cells. Where cells are too narrow for a line of text, every other label
/// stands further out, at the end of a thin line, so that none has to be left out.
class AxisLabels {
 public:
  enum class Side { left, below };

  /// The least width of a cell, in pixels, at which all of these labels can be drawn.
  static double least_cell(const std::vector<std::string>& labels, Typesetter& set);

  /// One label a cell.
  AxisLabels(Side side, const std::vector<std::string>& labels, double cell, Typesetter& set);
  /// Numbers at some of `count` cells, `cell` pixels each.
  AxisLabels(Side side, Index count, double cell, Typesetter& set);

  /// How far the labels reach from the map.
  double depth() const { return depth_; }

  /// Draws them for a map whose top left corner (left side) or bottom left corner (below) is there.
  void draw(Canvas& canvas, double x, double y) const;

 private:
  struct Label {
    Lettering text;
    double along = 0;  // its cell's centre
    std::size_t lane = 0;
  };
  void place();

  Side side_;
  bool upwards_ = false;
  std::vector<Label> labels_;
  std::array<double, 2> lane_distance_{};
  double depth_ = 0;
};

}  // namespace headproof
