#include <algorithm>
#include <cmath>

#include "pictures/axis_labels.h"
#include "pictures/canvas.h"
#include "pictures/colour_bar.h"
#include "pictures/heat_map.h"
#include "pictures/sheet.h"

namespace headproof {
namespace {

constexpr double map_gap = 22, bar_gap = 16, group_gap = 48, row_gap = 30;
constexpr double word_gap = 5, title_gap = 10;
constexpr TextStyle word_style{.size = 17, .colour = soft_ink};
constexpr double map_title_size = 19;

using Rows = std::vector<std::vector<HeatMapGroup>>;

std::string size_text(const HeatMap& map) {
  return std::to_string(map.values.shape[0]) + " × " + std::to_string(map.values.shape[1]);
}

std::optional<Error> label_error(const HeatMap& map, const std::vector<std::string>& labels,
                                 std::size_t axis) {
  if (labels.empty() || static_cast<Index>(labels.size()) == map.values.shape[axis]) return {};
  const std::string kind = axis == 0 ? "query" : "key";
  return Error{"the heat map \"" + map.title + "\" is " + size_text(map) + " and has " +
               std::to_string(labels.size()) + " " + kind + " labels; it takes " +
               std::to_string(map.values.shape[axis]) + " or none"};
}

/// Why these maps cannot be drawn; nothing when they can.
std::optional<Error> picture_error(const Rows& rows) {
  if (rows.empty()) return Error{"a picture needs at least one heat map"};
  for (const auto& row : rows) {
    if (row.empty()) return Error{"a row of a picture needs at least one group of heat maps"};
    for (const HeatMapGroup& group : row) {
      if (group.maps.empty()) return Error{"a group of heat maps needs at least one map"};
      for (const HeatMap& map : group.maps) {
        if (auto error = label_error(map, map.query_labels, 0)) return error;
        if (auto error = label_error(map, map.key_labels, 1)) return error;
      }
    }
  }
  return {};
}

std::vector<const HeatMap*> maps_of(const std::vector<HeatMapGroup>& row) {
  std::vector<const HeatMap*> maps;
  for (const HeatMapGroup& group : row) {
    for (const HeatMap& map : group.maps) maps.push_back(&map);
  }
  return maps;
}

/// What holds for all maps of the picture.
struct Plan {
  CellSize cell;
  bool with_labels = true;  // false: positions are numbered instead
  std::string remarks;      // what the reader has to know about it
};

/// One size of cell for all maps, so that areas can be compared.
Plan make_plan(const Rows& rows, Typesetter& set) {
  std::size_t maps_across = 1;
  Index longest = 1;
  double least_cell = 1;
  for (const auto& row : rows) {
    const auto maps = maps_of(row);
    maps_across = std::max(maps_across, maps.size());
    for (const HeatMap* map : maps) {
      longest = std::max({longest, map->values.shape[0], map->values.shape[1]});
      least_cell = std::max({least_cell, AxisLabels::least_cell(map->query_labels, set),
                             AxisLabels::least_cell(map->key_labels, set)});
    }
  }
  // A side of 4096 pixels, less when many maps have to share what cairo can draw.
  const auto crowd = static_cast<Index>(std::max(maps_across, rows.size()));
  const Index side_limit = std::max<Index>(1, std::min<Index>(4096, 24000 / crowd));
  const double good_side = std::min(560.0, 1680.0 / static_cast<double>(maps_across));

  Plan plan;
  plan.cell.block = (longest + side_limit - 1) / side_limit;
  const double cells =
      std::ceil(static_cast<double>(longest) / static_cast<double>(plan.cell.block));
  double cell = std::clamp(std::floor(good_side / cells), 1.0, 44.0);
  if (std::ceil(least_cell) * cells <= static_cast<double>(side_limit)) {
    cell = std::max(cell, std::ceil(least_cell));
  } else {
    plan.with_labels = false;
    plan.remarks = "There are too many positions to label each one: the axes carry their numbers.";
  }
  plan.cell.pixels = static_cast<int>(cell);
  if (plan.cell.block > 1) {
    const std::string block = std::to_string(plan.cell.block);
    plan.remarks += std::string(plan.remarks.empty() ? "" : " ") +
                    "Each cell shows the most prominent of " + block + " × " + block + " entries.";
  }
  return plan;
}

AxisLabels labels_of(const HeatMap& map, const MapSize& size, const Plan& plan,
                     AxisLabels::Side side, Typesetter& set) {
  const bool queries = side == AxisLabels::Side::left;
  const auto& labels = queries ? map.query_labels : map.key_labels;
  const double cell = queries ? size.cell_height : size.cell_width;
  if (plan.with_labels && !labels.empty()) return {side, labels, cell, set};
  return {side, map.values.shape[queries ? 0 : 1], cell / static_cast<double>(size.block), set};
}

bool same_queries(const HeatMap& a, const HeatMap& b) {
  return a.values.shape[0] == b.values.shape[0] && a.query_labels == b.query_labels;
}

/// Whether the maps below carry the same key labels, so that one set serves both rows.
bool same_keys(const std::vector<HeatMapGroup>& row, const std::vector<HeatMapGroup>& below) {
  const auto a = maps_of(row), b = maps_of(below);
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto* upper, const auto* lower) {
                      return upper->values.shape[1] == lower->values.shape[1] &&
                             upper->key_labels == lower->key_labels;
                    });
}

/// A map and what stands around it; x is the cells' left edge, from the row's own.
struct PlacedMap {
  const HeatMap* map;
  MapSize size;
  std::shared_ptr<ColourMap> colours;
  Lettering title;
  std::optional<AxisLabels> query_labels, key_labels;
  double x = 0;
};

struct PlacedBar {
  std::shared_ptr<ColourMap> colours;
  ColourBar bar;
  double x = 0;
};

/// One row, laid out from left to right; heights are those of its highest parts.
struct PlacedRow {
  std::vector<PlacedMap> maps;
  std::vector<PlacedBar> bars;
  double width = 0, titles_height = 0, maps_height = 0, keys_height = 0;
  double height() const { return titles_height + maps_height + keys_height; }
};

Result<PlacedRow> place(const std::vector<HeatMapGroup>& row, bool with_keys, const Plan& plan,
                        Typesetter& set) {
  const double word_height = set("query i", word_style).height;
  PlacedRow placed;
  for (const HeatMapGroup& group : row) {
    const auto scale = with_ends(group.scale, group.maps);
    if (!scale) return scale.error();
    const auto colours = std::make_shared<ColourMap>(*scale);
    double group_height = 0;
    for (const HeatMap& map : group.maps) {
      const HeatMap* left = placed.maps.empty() ? nullptr : placed.maps.back().map;
      PlacedMap next{&map, MapSize(map, plan.cell), colours, {}, {}, {}};
      if (!next.size.is_empty()) {
        if (left == nullptr || !same_queries(*left, map)) {
          next.query_labels = labels_of(map, next.size, plan, AxisLabels::Side::left, set);
          placed.width += word_height + word_gap + next.query_labels->depth();
        }
        if (with_keys) {
          next.key_labels = labels_of(map, next.size, plan, AxisLabels::Side::below, set);
          placed.keys_height =
              std::max(placed.keys_height, next.key_labels->depth() + word_gap + word_height);
        }
      }
      next.x = std::round(placed.width);
      next.title = set(map.title, {.size = map_title_size,
                                   .width = std::max(220.0, next.size.width * 1.0),
                                   .lines = 3,
                                   .centred = true});
      if (!map.title.empty()) {
        placed.titles_height = std::max(placed.titles_height, next.title.height + title_gap);
      }
      group_height = std::max(group_height, next.size.height * 1.0);
      // A title wider than its map pushes the next one away.
      const double overhang = std::max(0.0, next.title.width - next.size.width) / 2;
      next.x += std::round(overhang);
      placed.width = next.x + next.size.width + overhang + map_gap;
      placed.maps.push_back(std::move(next));
    }
    // A bar beside a low map needs more height than the map to be read.
    group_height = std::max(group_height, 170.0);
    placed.maps_height = std::max(placed.maps_height, group_height);
    placed.width = std::round(placed.width - map_gap + bar_gap);
    placed.bars.push_back({colours,
                           ColourBar(*colours, contents(group.maps, *colours), group_height, set),
                           placed.width});
    placed.width += placed.bars.back().bar.width() + group_gap;
  }
  placed.width -= group_gap;
  return placed;
}

void draw_row(Canvas& canvas, const PlacedRow& row, double left, double top, Typesetter& set) {
  const double maps_y = std::round(top + row.titles_height);
  const Lettering query_word = set("query i", word_style), key_word = set("key j", word_style);
  for (const PlacedMap& placed : row.maps) {
    const double x = left + placed.x;
    const double centre = x + placed.size.width / 2.0;
    canvas.text(placed.title, centre, maps_y - title_gap, {0.5, 1});
    draw_cells(canvas, *placed.map, *placed.colours, placed.size, static_cast<int>(x),
               static_cast<int>(maps_y), set);
    if (placed.query_labels) {
      placed.query_labels->draw(canvas, x, maps_y);
      canvas.text_upwards(query_word, x - placed.query_labels->depth() - word_gap,
                          maps_y + placed.size.height / 2.0, {0.5, 1});
    }
    if (placed.key_labels) {
      const double y = maps_y + placed.size.height;
      placed.key_labels->draw(canvas, x, y);
      canvas.text(key_word, centre, y + placed.key_labels->depth() + word_gap, {0.5, 0});
    }
  }
  for (const PlacedBar& placed : row.bars) placed.bar.draw(canvas, left + placed.x, maps_y);
}

}  // namespace

Result<std::string> draw(const HeatMapPicture& picture, PictureFormat format) {
  if (auto error = picture_error(picture.rows)) return *error;
  Typesetter set;
  if (auto error = set.font_error()) return *error;
  const Plan plan = make_plan(picture.rows, set);
  std::vector<PlacedRow> rows;
  double width = 0, height = -row_gap;
  for (std::size_t i = 0; i < picture.rows.size(); ++i) {
    const bool with_keys =
        i + 1 == picture.rows.size() || !same_keys(picture.rows[i], picture.rows[i + 1]);
    auto row = place(picture.rows[i], with_keys, plan, set);
    if (!row) return row.error();
    width = std::max(width, row->width);
    height += row->height() + row_gap;
    rows.push_back(std::move(*row));
  }
  const Sheet sheet(picture.title, picture.caption, plan.remarks, width, height, set);
  auto canvas = Canvas::make(format, sheet.width(), sheet.height(), picture.title);
  if (!canvas) return canvas.error();
  sheet.draw(*canvas);
  double y = sheet.content_y();
  for (const PlacedRow& row : rows) {
    draw_row(*canvas, row, sheet.content_x(), y, set);
    y = std::round(y + row.height() + row_gap);
  }
  return canvas->finish();
}

}  // namespace headproof
