#include "pictures/svg.h"

#include <gtest/gtest.h>

namespace headproof {
namespace {

TEST(Svg, IdsAreNumberedInOrderOfAppearanceAndReferencesFollow) {
  EXPECT_EQ(with_stable_ids(R"x(<g id="image77"/><use xlink:href="#image77"/><g id="glyph0-1"/>)x"
                            R"x(<g clip-path="url(#clip9)"/><clipPath id="clip9"/>)x",
                            "p-"),
            R"(<g id="p-0"/><use xlink:href="#p-0"/><g id="p-1"/>)"
            R"x(<g clip-path="url(#p-2)"/><clipPath id="p-2"/>)x");
}

TEST(Svg, OtherAttributesStayAsTheyAre) {
  const std::string svg = R"(<svg width="10px" grid="3"><path d="M 1 2"/></svg>)";
  EXPECT_EQ(with_stable_ids(svg, "p-"), svg);
  EXPECT_EQ(with_stable_ids("", "p-"), "");
}

TEST(Svg, EnlargedImagesKeepSharpCells) {
  EXPECT_NE(with_stable_ids(R"(<image id="a" width="1"/>)", "").find("image-rendering:pixelated"),
            std::string::npos);
}

}  // namespace
}  // namespace headproof
