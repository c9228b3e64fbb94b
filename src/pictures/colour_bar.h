// The key that says which colour is which value.
#pragma once

#include <string>
#include <vector>

#include "pictures/canvas.h"
#include "pictures/colours.h"
#include "pictures/ticks.h"

namespace headproof {

/// What the maps of a group contain besides ordinary values; the key explains only that.
struct Contents {
  bool below = false, above = false;  ///< values beyond the scale's ends
  bool hidden = false, not_a_number = false;
};

Contents contents(const std::vector<HeatMap>& maps, const ColourMap& colours);

/// A vertical bar with ticks and a label, and below it a swatch for each other kind of cell.
class ColourBar {
 public:
  ColourBar(const ColourMap& colours, const Contents& shown, double height, Typesetter& set);

  double width() const { return width_; }
  void draw(Canvas& canvas, double x, double y) const;

 private:
  struct Labelled {
    double position = 0;
    Lettering text;
  };
  struct Swatch {
    Colour colour;
    Lettering text;
  };
  const ColourMap& colours_;
  Contents shown_;
  double height_, label_x_ = 0, width_ = 0;
  std::vector<Labelled> ticks_;
  std::vector<Swatch> swatches_;
  Lettering label_;
};

}  // namespace headproof
