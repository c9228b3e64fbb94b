// What every picture has around its content: margins, a title above, a caption below.
#pragma once

#include <string>

#include "pictures/canvas.h"

namespace headproof {

class Sheet {
 public:
  /// A sheet for content of that size; the texts may be empty, `remarks` follow the caption.
  Sheet(const std::string& title, const std::string& caption, const std::string& remarks,
        double content_width, double content_height, Typesetter& set);

  double width() const;
  double height() const;
  double content_x() const;
  double content_y() const;
  void draw(Canvas& canvas) const;

 private:
  double content_width_, content_height_;
  Lettering title_, caption_;
};

}  // namespace headproof
