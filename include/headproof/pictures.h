// Pictures of attention matrices and of the numbers around them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headproof/result.h"
#include "headproof/tensor.h"

namespace headproof {

enum class PictureFormat { png, svg, pdf };

/// One attention matrix as coloured cells: row = query (row 0 at the top), column = key. Every cell
/// has the same area, NaN is drawn in a colour of its own.
struct HeatMap {
  std::string title;
  View<const float, 2> values;             ///< [queries, keys]
  std::vector<std::string> query_labels;   ///< one a row, or none
  std::vector<std::string> key_labels;     ///< one a column, or none
  bool hide_above_diagonal = false;        ///< masked entries as blank paper, not as a value
};

/// The colours of a row of heat maps: sequential from `low` to `high`, or diverging around
/// `middle` (blue below, red above), the ends labelled when values lie beyond them.
struct ColourScale {
  std::string label;
  double low = 0, high = 1;
  std::optional<double> middle;
};

/// Heat maps side by side that share one colour scale.
struct HeatMapRow {
  std::vector<HeatMap> maps;
  ColourScale scale;
};

/// Rows of heat maps under one title.
struct HeatMapPicture {
  std::string title, caption;
  std::vector<HeatMapRow> rows;
};

/// A line with markers.
struct Line {
  std::string label;
  std::vector<double> x, y;
};

/// One set of axes with lines.
struct Chart {
  std::string title, x_label, y_label;
  bool log_x = false, log_y = false;
  std::vector<Line> lines;
  std::optional<double> y_low, y_high;
};

/// Charts side by side under one title.
struct ChartPicture {
  std::string title, caption;
  std::vector<Chart> charts;
};

/// The bytes of a file of that format.
Result<std::string> draw(const HeatMapPicture& picture, PictureFormat format);
Result<std::string> draw(const ChartPicture& picture, PictureFormat format);

}  // namespace headproof
