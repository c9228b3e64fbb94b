// One heat map on the sheet: its cells, its frame and where they are.
#pragma once

#include "pictures/canvas.h"
#include "pictures/colours.h"

namespace headproof {

/// How matrices become cells of whole pixels: `block` by `block` entries make a cell.
struct CellSize {
  Index block = 1;
  int pixels = 1;
};

/// The size, in pixels and in cells, at which one matrix is drawn.
struct MapSize {
  MapSize(const HeatMap& map, const CellSize& cell);

  Index block, rows, columns;   // cells
  int cell_width, cell_height;  // pixels
  int width, height;            // pixels; an empty matrix takes some room for its note
  bool is_empty() const { return rows == 0 || columns == 0; }
};

/// Draws a matrix with its top left corner at (x, y), whole numbers. Of the entries that share a
/// cell it shows the most prominent one; it frames those that are not hidden.
void draw_cells(Canvas& canvas, const HeatMap& map, const ColourMap& colours, const MapSize& size,
                int x, int y, Typesetter& set);

}  // namespace headproof
