#include "pictures/png.h"

#include <png.h>

#include <memory>

namespace headproof {
namespace {

/// libpng's description of a picture, released with it.
struct Description : png_image {
  Description() : png_image{} { version = PNG_IMAGE_VERSION; }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  ~Description() { png_image_free(this); }
};

}  // namespace

Result<std::string> write_png(const unsigned char* rgb, Index width, Index height) {
  Description image;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  // No filters and light compression: a third of the time, and files that are hardly larger.
  image.flags = PNG_IMAGE_FLAG_FAST;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  const auto bytes = std::make_unique_for_overwrite<char[]>(size);
  if (png_image_write_to_memory(&image, bytes.get(), &size, 0, rgb, 0, nullptr) == 0) {
    return Error{std::string("the picture could not be made a PNG file: ") + image.message};
  }
  return std::string(bytes.get(), size);
}

Result<Pixels> read_png(std::string_view bytes) {
  Description image;
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) {
    return Error{std::string("this is not a PNG file that can be read: ") + image.message};
  }
  image.format = PNG_FORMAT_RGB;
  Pixels pixels{image.width, image.height, std::vector<unsigned char>(PNG_IMAGE_SIZE(image))};
  const png_color black{0, 0, 0};
  if (png_image_finish_read(&image, &black, pixels.rgb.data(), 0, nullptr) == 0) {
    return Error{std::string("this PNG file is damaged: ") + image.message};
  }
  return pixels;
}

}  // namespace headproof
