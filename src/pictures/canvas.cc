#include "pictures/canvas.h"

#include <cairo-pdf.h>
#include <cairo-svg.h>
#include <utf8.h>

#include <cmath>
#include <cstring>
#include <iterator>
#include <numbers>

#include "headproof/text.h"
#include "pictures/png.h"
#include "pictures/svg.h"

namespace headproof {
namespace {

/// A page in print is this much smaller than its pixels, so that it fits on paper.
constexpr double points_per_pixel = 0.4;

std::string valid_utf8(const std::string& text) {
  std::string valid;
  utf8::replace_invalid(text.begin(), text.end(), std::back_inserter(valid));
  return valid;
}

/// One string a character, each something that shows, or that belongs between or above what shows:
/// blanks within the text and marks after their letter stay as they are.
std::vector<std::string> visible_characters(const std::string& text) {
  constexpr char32_t no_break_space = 0xA0;
  const std::string valid = valid_utf8(text);
  std::vector<std::string> characters;
  for (auto at = valid.begin(); at != valid.end();) {
    const auto begin = at;
    const char32_t character = utf8::next(at, valid.end());
    const bool stays = character == U' ' || character == no_break_space ||
                       (g_unichar_ismark(character) && !characters.empty());
    characters.push_back(stays ? std::string(begin, at) : visible_label(character));
  }
  return characters;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string whole;
  for (const std::string& part : parts) whole += part;
  return whole;
}

std::string code_points(const std::string& text) {
  static constexpr char digits[] = "0123456789ABCDEF";
  std::string names;
  for (auto at = text.begin(); at != text.end();) {
    const auto character = static_cast<std::uint32_t>(utf8::next(at, text.end()));
    names += "U+";
    for (int shift = character > 0xFFFFF  ? 20
                     : character > 0xFFFF ? 16
                                          : 12;
         shift >= 0; shift -= 4) {
      names += digits[(character >> shift) & 15U];
    }
  }
  return names;
}

/// Short and the same on every machine (FNV-1a).
std::string id_prefix(const std::string& title) {
  std::uint32_t hash = 2166136261U;
  for (const char byte : title) hash = (hash ^ static_cast<unsigned char>(byte)) * 16777619U;
  return "p" + std::to_string(hash) + "-";
}

cairo_status_t append(void* bytes, const unsigned char* data, unsigned length) {
  static_cast<std::string*>(bytes)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

}  // namespace

Typesetter::Typesetter()
    // Pango keeps one such font map a thread, so that threads need no lock.
    : context_(pango_font_map_create_context(pango_cairo_font_map_get_default())) {
  // Spelt out, so that a desktop's settings change nothing.
  cairo_font_options_t* options = cairo_font_options_create();
  cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
  cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
  cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
  pango_context_set_round_glyph_positions(context_.get(), FALSE);
  pango_cairo_context_set_font_options(context_.get(), options);
  cairo_font_options_destroy(options);
}

Lettering Typesetter::lay_out(const std::string& text, const TextStyle& style) const {
  Lettering result{{pango_layout_new(context_.get()), g_object_unref}, style.colour};
  PangoLayout* layout = result.layout.get();
  PangoFontDescription* font = pango_font_description_new();
  pango_font_description_set_family_static(font, "DejaVu Sans");
  pango_font_description_set_weight(font, style.bold ? PANGO_WEIGHT_BOLD : PANGO_WEIGHT_NORMAL);
  pango_font_description_set_absolute_size(font, style.size * PANGO_SCALE);
  pango_layout_set_font_description(layout, font);
  pango_font_description_free(font);
  pango_layout_set_text(layout, text.data(), static_cast<int>(text.size()));
  pango_layout_set_alignment(layout, style.centred ? PANGO_ALIGN_CENTER : PANGO_ALIGN_LEFT);
  if (style.width > 0) {
    pango_layout_set_wrap(layout, PANGO_WRAP_WORD_CHAR);
    if (style.lines > 0) {
      pango_layout_set_ellipsize(layout, PANGO_ELLIPSIZE_END);
      pango_layout_set_height(layout, -style.lines);
    }
    pango_layout_set_width(layout, static_cast<int>(style.width * PANGO_SCALE));
    // Narrowed to what the lines take, so that the text can be placed by its own edges.
    PangoRectangle extents;
    pango_layout_get_extents(layout, nullptr, &extents);
    pango_layout_set_width(layout, extents.width);
  }
  PangoRectangle inked, extents;
  pango_layout_get_extents(layout, &inked, &extents);
  result.width = static_cast<double>(extents.width) / PANGO_SCALE;
  result.height = static_cast<double>(extents.height) / PANGO_SCALE;
  result.ink_middle = (inked.y + inked.height / 2.0) / PANGO_SCALE;
  return result;
}

bool Typesetter::has_glyphs(const std::string& text) const {
  return pango_layout_get_unknown_glyphs_count(lay_out(text, {}).layout.get()) == 0;
}

std::optional<Error> Typesetter::font_error() const {
  if (has_glyphs("0")) return std::nullopt;
  return Error{
      "fontconfig finds no font on this system with which to write; the package fonts-dejavu-core, "
      "or another with fonts, brings some"};
}

Lettering Typesetter::operator()(const std::string& text, const TextStyle& style) {
  const auto [at, is_new] = set_.try_emplace({text, style.key()});
  if (is_new) {
    std::vector<std::string> characters = visible_characters(text);
    at->second = lay_out(joined(characters), style);
    if (pango_layout_get_unknown_glyphs_count(at->second.layout.get()) > 0) {
      for (std::string& character : characters) {
        if (!has_glyphs(character)) character = code_points(character);
      }
      at->second = lay_out(joined(characters), style);
    }
  }
  Lettering result = at->second;
  result.colour = style.colour;
  return result;
}

Result<Canvas> Canvas::make(PictureFormat format, double width, double height,
                            const std::string& title) {
  constexpr double cairo_limit = 32767;
  if (width > cairo_limit || height > cairo_limit) {
    return Error{"the picture would be " + std::to_string(std::lround(width)) + " by " +
                 std::to_string(std::lround(height)) +
                 " pixels, and 32767 a side are possible; draw fewer maps in one picture"};
  }
  Canvas canvas;
  canvas.format_ = format;
  canvas.id_prefix_ = id_prefix(title);
  canvas.bytes_ = std::make_unique<std::string>();
  const double points_wide = width * points_per_pixel, points_high = height * points_per_pixel;
  switch (format) {
    case PictureFormat::png:
      canvas.surface_.reset(cairo_image_surface_create(CAIRO_FORMAT_RGB24,
                                                       static_cast<int>(std::lround(width)),
                                                       static_cast<int>(std::lround(height))));
      break;
    case PictureFormat::svg:
      canvas.surface_.reset(
          cairo_svg_surface_create_for_stream(append, canvas.bytes_.get(), width, height));
      cairo_svg_surface_set_document_unit(canvas.surface_.get(), CAIRO_SVG_UNIT_PX);
      break;
    case PictureFormat::pdf:
      canvas.surface_.reset(cairo_pdf_surface_create_for_stream(append, canvas.bytes_.get(),
                                                                points_wide, points_high));
      cairo_pdf_surface_set_metadata(canvas.surface_.get(), CAIRO_PDF_METADATA_TITLE,
                                     joined(visible_characters(title)).c_str());
      // Without a date of its own, a file would tell when it was made and never be the same twice.
      cairo_pdf_surface_set_metadata(canvas.surface_.get(), CAIRO_PDF_METADATA_CREATE_DATE, "");
      break;
  }
  canvas.context_.reset(cairo_create(canvas.surface_.get()));
  if (format == PictureFormat::pdf) {
    cairo_scale(canvas.context_.get(), points_per_pixel, points_per_pixel);
  }
  canvas.fill(paper, 0, 0, width, height);
  return canvas;
}

void Canvas::colour(Colour colour) {
  cairo_set_source_rgb(context_.get(), colour.red / 255.0, colour.green / 255.0,
                       colour.blue / 255.0);
}

void Canvas::text(const Lettering& text, double x, double y, Anchor anchor) {
  colour(text.colour);
  cairo_move_to(context_.get(), x - anchor.across * text.width, y - anchor.down * text.height);
  pango_cairo_show_layout(context_.get(), text.layout.get());
  cairo_new_path(context_.get());  // else the next line would start at this text
}

void Canvas::text_upwards(const Lettering& written, double x, double y, Anchor anchor) {
  cairo_save(context_.get());
  cairo_translate(context_.get(), x, y);
  cairo_rotate(context_.get(), -std::numbers::pi / 2);
  text(written, 0, 0, anchor);
  cairo_restore(context_.get());
}

void Canvas::fill(Colour with, double x, double y, double width, double height) {
  colour(with);
  cairo_rectangle(context_.get(), x, y, width, height);
  cairo_fill(context_.get());
}

void Canvas::line(Colour with, double width, const std::vector<Point>& points, bool dashed) {
  colour(with);
  const double dash[] = {6, 5};
  cairo_set_dash(context_.get(), dash, dashed ? 2 : 0, 0);
  cairo_set_line_width(context_.get(), width);
  cairo_set_line_join(context_.get(), CAIRO_LINE_JOIN_MITER);
  for (const Point& point : points) cairo_line_to(context_.get(), point.x, point.y);
  cairo_stroke(context_.get());
}

void Canvas::polygon(Colour with, const std::vector<Point>& points) {
  colour(with);
  for (const Point& point : points) cairo_line_to(context_.get(), point.x, point.y);
  cairo_close_path(context_.get());
  cairo_fill(context_.get());
}

void Canvas::disc(Colour with, Point centre, double radius) {
  colour(with);
  cairo_arc(context_.get(), centre.x, centre.y, radius, 0, 2 * std::numbers::pi);
  cairo_fill(context_.get());
}

void Canvas::pixels(cairo_surface_t* image, double x, double y) {
  cairo_set_source_surface(context_.get(), image, x, y);
  // Enlarged pixels stay rectangles.
  cairo_pattern_set_filter(cairo_get_source(context_.get()), CAIRO_FILTER_NEAREST);
  cairo_paint(context_.get());
}

/// The pixels without the unused byte that cairo keeps with each.
Result<std::string> Canvas::to_png() {
  cairo_surface_flush(surface_.get());
  unsigned char* const data = cairo_image_surface_get_data(surface_.get());
  const Index width = cairo_image_surface_get_width(surface_.get());
  const Index height = cairo_image_surface_get_height(surface_.get());
  const Index stride = cairo_image_surface_get_stride(surface_.get());
  // Packed where they stand, the surface has served: a copy would cost fresh memory.
  unsigned char* to = data;
  for (Index y = 0; y < height; ++y) {
    for (Index x = 0; x < width; ++x) {
      std::uint32_t pixel = 0;
      std::memcpy(&pixel, data + y * stride + 4 * x, sizeof pixel);
      *to++ = static_cast<unsigned char>(pixel >> 16U);
      *to++ = static_cast<unsigned char>(pixel >> 8U);
      *to++ = static_cast<unsigned char>(pixel);
    }
  }
  return write_png(data, width, height);
}

Result<std::string> Canvas::finish() {
  cairo_status_t status = cairo_status(context_.get());
  context_.reset();
  if (status == CAIRO_STATUS_SUCCESS && format_ == PictureFormat::png) return to_png();
  cairo_surface_finish(surface_.get());
  if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_status(surface_.get());
  if (status != CAIRO_STATUS_SUCCESS) {
    return Error{std::string("the picture could not be drawn: ") + cairo_status_to_string(status)};
  }
  if (format_ == PictureFormat::svg) return with_stable_ids(*bytes_, id_prefix_);
  return std::move(*bytes_);
}

}  // namespace headproof
