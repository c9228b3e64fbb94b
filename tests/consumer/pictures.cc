// A program that draws one matrix.
#include <headproof/pictures.h>

#include <cstdio>

int main() {
  headproof::Tensor<float, 2> A({2, 2});
  A(0, 0) = 1.0F;
  A(1, 0) = A(1, 1) = 0.5F;
  headproof::HeatMapGroup group;
  group.maps.emplace_back().values = A;
  headproof::HeatMapPicture picture;
  picture.rows.push_back({group});
  const auto bytes = headproof::draw(picture, headproof::PictureFormat::png);
  if (!bytes) std::puts(bytes.error().message.c_str());
  return bytes && bytes.value().substr(1, 3) == "PNG" ? 0 : 1;
}
