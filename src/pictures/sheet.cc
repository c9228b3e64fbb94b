#include "pictures/sheet.h"

#include <algorithm>
#include <cmath>

namespace headproof {
namespace {

constexpr double margin = 30, gap = 20;
constexpr double least_text_width = 560;

}  // namespace

Sheet::Sheet(const std::string& title, const std::string& caption, const std::string& remarks,
             double content_width, double content_height, Typesetter& set)
    : content_width_(std::ceil(content_width)), content_height_(std::ceil(content_height)) {
  const double text_width = std::max(content_width_, least_text_width);
  if (!title.empty())
    title_ = set(title, {.size = 26, .bold = true, .width = text_width, .lines = 3});
  const std::string below = caption + (caption.empty() || remarks.empty() ? "" : " ") + remarks;
  if (!below.empty())
    caption_ = set(below, {.size = 17, .width = text_width, .lines = 20, .colour = soft_ink});
}

double Sheet::width() const {
  return std::ceil(std::max({content_width_, title_.width, caption_.width}) + 2 * margin);
}

double Sheet::height() const {
  const double below = caption_.layout ? gap + caption_.height : 0;
  return std::ceil(content_y() + content_height_ + below + margin);
}

double Sheet::content_x() const { return std::floor((width() - content_width_) / 2); }

double Sheet::content_y() const {
  return std::round(margin + (title_.layout ? title_.height + gap : 0));
}

void Sheet::draw(Canvas& canvas) const {
  if (title_.layout) canvas.text(title_, margin, margin);
  if (caption_.layout) canvas.text(caption_, margin, content_y() + content_height_ + gap);
}

}  // namespace headproof
