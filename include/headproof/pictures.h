// Pictures of attention matrices and of the numbers around them.
//
// Every text is drawn literally: no markup is interpreted, and what cannot be shown (control
// characters, characters no font has, bytes that are not UTF-8) appears as a visible stand-in.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "headproof/result.h"
#include "headproof/tensor.h"

namespace headproof {

enum class PictureFormat { png, svg, pdf };

/// One attention matrix as coloured cells: row = query (row 0 at the top), column = key. Every cell
/// has the same area, NaN is drawn in a colour of its own.
struct HeatMap {
  std::string title = {};
  View<const float, 2> values = {};            ///< [queries, keys]; must outlive the drawing
  std::vector<std::string> query_labels = {};  ///< one a row; none: the rows are numbered
  std::vector<std::string> key_labels = {};    ///< one a column; none: the columns are numbered
  bool hide_above_diagonal = false;  ///< keys after the query as blank paper, not as a value
};

/// How values become colours: sequential from `low` to `high`, or diverging around `middle` (blue
/// below, orange above). An end that is not given is that of the finite values shown, for a
/// diverging scale the same distance on both sides. Values beyond an end take its colour, and the
/// colour bar gets an arrow there.
struct ColourScale {
  std::string label = {};
  std::optional<double> low = 0.0, high = 1.0;
  std::optional<double> middle = {};
  bool logarithmic = false;  ///< equal ratios, not equal differences, make equal steps of colour
  std::string hidden_label = "masked";  ///< what blank paper means
};

/// Heat maps side by side that share one colour scale; the colour bar stands at their right.
struct HeatMapGroup {
  std::vector<HeatMap> maps = {};
  ColourScale scale = {};
};

/// Rows of groups of heat maps under one title. Labels that are those of the map to the left (of
/// the row below) are not repeated.
struct HeatMapPicture {
  std::string title = {}, caption = {};
  std::vector<std::vector<HeatMapGroup>> rows = {};
};

/// A line with markers. Points that are not finite, or not positive on a logarithmic axis, are left
/// out, and the caption says so.
struct Line {
  std::string label = {};
  std::vector<double> x = {}, y = {};
};

/// A dashed vertical line with a note beside it.
struct Mark {
  double x = 0;
  std::string note = {};
};

/// One set of axes with lines.
struct Chart {
  std::string title = {}, x_label = {}, y_label = {};
  bool log_x = false, log_y = false;
  std::vector<Line> lines = {};
  std::vector<Mark> marks = {};
  std::vector<double> x_ticks = {};  ///< where the x axis is labelled; none: at round numbers
  /// An end that is not given is that of the points.
  std::optional<double> y_low = {}, y_high = {};
};

/// Charts side by side under one title.
struct ChartPicture {
  std::string title = {}, caption = {};
  std::vector<Chart> charts = {};
};

/// The bytes of a file of that format: the same for the same picture and the same fonts. May be
/// called from several threads at once.
Result<std::string> draw(const HeatMapPicture& picture, PictureFormat format);
Result<std::string> draw(const ChartPicture& picture, PictureFormat format);

/// Attention matrices that a reader walks through, one at a time.
struct Explorer {
  std::string title = {};
  View<const float, 4> A = {};  ///< [layers, heads, queries, keys]; must outlive the call
  /// One for each layer, head, query, key; none: they are numbered.
  std::vector<std::string> layer_names = {}, head_names = {};
  std::vector<std::string> query_labels = {}, key_labels = {};
};

/// One HTML file that loads nothing: a map whose cells a reader points at, the weights of a query
/// as colours of the keys' labels, and choices of layer and head. The error says that there is
/// nothing to show, more than 2^24 weights, or another number of labels.
Result<std::string> explorer_page(const Explorer& explorer);

}  // namespace headproof
