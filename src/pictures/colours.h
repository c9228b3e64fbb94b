// From numbers to colours that can be told apart by everyone.
#pragma once

#include <array>
#include <cstdint>

#include "headproof/pictures.h"

namespace headproof {

struct Colour {
  std::uint8_t red = 0, green = 0, blue = 0;
  bool operator==(const Colour&) const = default;
};

inline constexpr Colour paper{255, 255, 255};
/// Yellow is far from both palettes, for red-green colour blindness too.
inline constexpr Colour not_a_number_colour{255, 221, 0};

/// Whether cell (row, column) is drawn as blank paper.
inline bool is_hidden(const HeatMap& map, Index row, Index column) {
  return map.hide_above_diagonal && column > row;
}

/// `scale` with both ends known: those not given come from the finite values that the maps show.
/// The error says what is wrong with the ends.
Result<ColourScale> with_ends(ColourScale scale, const std::vector<HeatMap>& maps);

/// A colour scale whose ends are known.
class ColourMap {
 public:
  explicit ColourMap(const ColourScale& scale);

  /// Where a value lies: 0 at the low end, 1 at the high end, outside of [0, 1] beyond them, NaN
  /// for NaN. A diverging scale has its middle at 0.5.
  double position(double value) const;
  /// How far a value stands out: what aggregation keeps of several cells. NaN stands out most.
  double prominence(double value) const;

  /// The colour at a position, that of the nearer end beyond [0, 1].
  Colour at(double position) const;
  Colour operator()(double value) const { return at(position(value)); }

  const ColourScale& scale() const { return scale_; }

 private:
  double steps(double value) const;

  ColourScale scale_;
  double low_, middle_, high_;         // in equal steps of colour: logarithms if need be
  std::array<Colour, 257> palette_{};  // odd, so that the middle has an entry of its own
};

}  // namespace headproof
