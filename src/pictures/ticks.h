// Where an axis is labelled, and how numbers are written there.
#pragma once

#include <string>
#include <vector>

namespace headproof {

struct Tick {
  double value = 0;
  std::string label;
};

/// A number in as few characters as it needs: a real minus sign, powers of ten as superscripts.
std::string number_label(double value);

/// About `most` ticks at most, at multiples of 1, 2 or 5 times a power of ten, in [low, high].
std::vector<Tick> linear_ticks(double low, double high, int most);

/// The same for the whole numbers 0 .. count - 1.
std::vector<Tick> index_ticks(long long count, int most);

/// About `most` ticks at most, at powers of two (of ten where there are many), in [low, high],
/// 0 < low.
std::vector<Tick> log_ticks(double low, double high, int most);

}  // namespace headproof
