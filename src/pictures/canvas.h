// A sheet to draw on that becomes a PNG, SVG or PDF file, and text set in type.
#pragma once

#include <cairo.h>
#include <pango/pangocairo.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "headproof/result.h"
#include "pictures/colours.h"

namespace headproof {

/// A deleter for the C libraries' objects.
template <auto release>
struct Release {
  template <class T>
  void operator()(T* object) const {
    release(object);
  }
};
using CairoSurface = std::unique_ptr<cairo_surface_t, Release<cairo_surface_destroy>>;
using CairoContext = std::unique_ptr<cairo_t, Release<cairo_destroy>>;

inline constexpr Colour ink{26, 28, 33}, soft_ink{92, 97, 108}, hairline{222, 224, 229};

struct TextStyle {
  double size = 17;  ///< pixels an em
  bool bold = false;
  double width = 0;  ///< lines are broken at this width; 0: one line, however long
  int lines = 0;     ///< what takes more of them ends in an ellipsis; 0: no limit
  bool centred = false;
  Colour colour = ink;
  auto key() const { return std::tuple(size, bold, width, lines, centred); }
};

/// A piece of text set in type: its size is known, it can be drawn anywhere.
struct Lettering {
  std::shared_ptr<PangoLayout> layout;
  Colour colour;
  double width = 0, height = 0;
  double ink_middle = 0;  ///< half way down what is black, from the top
};

/// Sets text in type. What is set twice is laid out once: axis labels repeat a lot.
class Typesetter {
 public:
  Typesetter();

  /// `text` drawn literally; what has no glyph becomes U+XXXX.
  Lettering operator()(const std::string& text, const TextStyle& style);

  /// Why nothing can be set: the system has no font.
  std::optional<Error> font_error() const;

 private:
  Lettering lay_out(const std::string& text, const TextStyle& style) const;
  bool has_glyphs(const std::string& text) const;

  std::unique_ptr<PangoContext, Release<g_object_unref>> context_;
  std::map<std::pair<std::string, decltype(TextStyle().key())>, Lettering> set_;
};

/// Which point of a text stands at the given place: 0 its left or top edge, 1 its right or bottom.
struct Anchor {
  double across = 0, down = 0;
};

/// Coordinates are pixels of the PNG, y downwards.
class Canvas {
 public:
  static Result<Canvas> make(PictureFormat format, double width, double height,
                             const std::string& title);

  void text(const Lettering& text, double x, double y, Anchor anchor = {});
  /// The same, reading upwards; the anchor is meant in the text's own directions.
  void text_upwards(const Lettering& text, double x, double y, Anchor anchor = {});
  void fill(Colour colour, double x, double y, double width, double height);
  /// Lines through points, or a filled polygon.
  struct Point {
    double x, y;
  };
  void line(Colour colour, double width, const std::vector<Point>& points, bool dashed = false);
  void polygon(Colour colour, const std::vector<Point>& points);
  void disc(Colour colour, Point centre, double radius);
  /// Pixels, each exactly one pixel of the PNG; (x, y) are whole numbers.
  void pixels(cairo_surface_t* image, double x, double y);

  /// The file.
  Result<std::string> finish();

 private:
  Canvas() = default;
  void colour(Colour colour);
  Result<std::string> to_png();

  PictureFormat format_{};
  std::string id_prefix_;
  std::unique_ptr<std::string> bytes_;  // the surface writes to it: it must not move
  CairoSurface surface_;
  CairoContext context_;
};

}  // namespace headproof
