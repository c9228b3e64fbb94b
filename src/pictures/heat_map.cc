#include "pictures/heat_map.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace headproof {
namespace {

/// A matrix of one row or column would else be a hair.
constexpr int least_thickness = 60;
/// Beside smaller cells a dark line would pass for a value.
constexpr int least_cell_with_dark_frame = 4;
constexpr int empty_width = 150, empty_height = 60;

Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

std::uint32_t pixel_of(Colour colour) {
  return static_cast<std::uint32_t>(colour.red) << 16U |
         static_cast<std::uint32_t>(colour.green) << 8U | colour.blue;
}

/// The colour of one cell: paper when all its entries are hidden.
Colour cell_colour(const HeatMap& map, const ColourMap& colours, Index block, Index row,
                   Index column) {
  const Index end_row = std::min((row + 1) * block, map.values.shape[0]);
  const Index end_column = std::min((column + 1) * block, map.values.shape[1]);
  double shown = 0, most = -std::numeric_limits<double>::infinity();
  bool any = false;
  for (Index i = row * block; i < end_row; ++i) {
    for (Index j = column * block; j < end_column && !is_hidden(map, i, j); ++j) {
      const double value = map.values(i, j);
      const double prominence = block == 1 ? 0 : colours.prominence(value);
      if (any && prominence <= most) continue;
      any = true;
      most = prominence;
      shown = value;
    }
  }
  return any ? colours(shown) : paper;
}

/// How many cells of a row are not hidden.
Index cells_shown(const HeatMap& map, const MapSize& size, Index row) {
  if (!map.hide_above_diagonal) return size.columns;
  const Index last_query = std::min((row + 1) * size.block, map.values.shape[0]) - 1;
  return std::min(ceil_div(last_query + 1, size.block), size.columns);
}

/// A line just outside the cells that are not hidden: it covers none of them.
std::vector<Canvas::Point> outline(const HeatMap& map, const MapSize& size, int x, int y) {
  std::vector<Canvas::Point> points{{x - 0.5, y + size.height + 0.5}, {x - 0.5, y - 0.5}};
  for (Index row = 0; row < size.rows; ++row) {
    const double right =
        x + static_cast<double>(cells_shown(map, size, row)) * size.cell_width + 0.5;
    const double top = y + static_cast<double>(row) * size.cell_height - 0.5;
    if (points.back().x != right) {
      points.push_back({points.back().x, top});
      points.push_back({right, top});
    }
  }
  points.push_back({points.back().x, y + size.height + 0.5});
  points.push_back(points.front());
  return points;
}

}  // namespace

MapSize::MapSize(const HeatMap& map, const CellSize& cell)
    : block(cell.block),
      rows(ceil_div(map.values.shape[0], block)),
      columns(ceil_div(map.values.shape[1], block)),
      cell_width(cell.pixels),
      cell_height(cell.pixels),
      width(empty_width),
      height(empty_height) {
  if (is_empty()) return;
  cell_width = std::max(cell_width, static_cast<int>(ceil_div(least_thickness, columns)));
  cell_height = std::max(cell_height, static_cast<int>(ceil_div(least_thickness, rows)));
  width = static_cast<int>(columns) * cell_width;
  height = static_cast<int>(rows) * cell_height;
}

void draw_cells(Canvas& canvas, const HeatMap& map, const ColourMap& colours, const MapSize& size,
                int x, int y, Typesetter& set) {
  if (size.is_empty()) {
    canvas.text(set("empty: " + std::to_string(map.values.shape[0]) + " × " +
                        std::to_string(map.values.shape[1]),
                    {.size = 16, .colour = soft_ink}),
                x + size.width / 2.0, y + size.height / 2.0, {0.5, 0.5});
    return;
  }
  // One image in every format: vector rectangles would show seams where viewers smooth their edges.
  const CairoSurface image(cairo_image_surface_create(CAIRO_FORMAT_RGB24, size.width, size.height));
  unsigned char* const data = cairo_image_surface_get_data(image.get());
  if (data == nullptr) return;  // the canvas reports the failure when this image is drawn
  const Index stride = cairo_image_surface_get_stride(image.get());
  std::vector<std::uint32_t> line(static_cast<std::size_t>(size.width));
  for (Index row = 0; row < size.rows; ++row) {
    for (Index column = 0; column < size.columns; ++column) {
      const Colour colour = cell_colour(map, colours, size.block, row, column);
      std::fill_n(line.begin() + column * size.cell_width, size.cell_width, pixel_of(colour));
    }
    for (Index y_in_cell = 0; y_in_cell < size.cell_height; ++y_in_cell) {
      std::memcpy(data + (row * size.cell_height + y_in_cell) * stride, line.data(),
                  line.size() * sizeof line[0]);
    }
  }
  cairo_surface_mark_dirty(image.get());
  canvas.pixels(image.get(), x, y);
  const bool dark = std::min(size.cell_width, size.cell_height) >= least_cell_with_dark_frame;
  canvas.line(dark ? soft_ink : hairline, 1, outline(map, size, x, y));
}

}  // namespace headproof
