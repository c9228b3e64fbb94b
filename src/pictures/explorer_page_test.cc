#include "pictures/explorer_page.h"

#include <gtest/gtest.h>

#include <limits>

#include "headproof/pictures.h"

namespace headproof {
namespace {

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; ++at) ++found;
  return found;
}

/// What stands in the page for its script.
std::string data_of(const std::string& page) {
  const std::string open = "id=\"data\">";
  const std::size_t start = page.find(open) + open.size();
  return page.substr(start, page.find("</script>", start) - start);
}

TEST(ExplorerPage, CarriesEveryWeightAsItIs) {
  Tensor<float, 4> A({1, 1, 2, 3});
  A(0, 0, 0, 0) = 0.123456789F;
  A(0, 0, 0, 1) = std::numeric_limits<float>::quiet_NaN();
  A(0, 0, 1, 2) = std::numeric_limits<float>::denorm_min();
  const std::string data = data_of(explorer_page({.A = A}).value());
  const std::string bytes(reinterpret_cast<const char*>(A.data()), 24);
  EXPECT_NE(data.find("\"A\":\"" + base64(bytes) + "\""), std::string::npos) << data;
  EXPECT_NE(data.find("\"queries\":[\"0\",\"1\"],\"keys\":[\"0\",\"1\",\"2\"]"), std::string::npos)
      << data;
}

TEST(ExplorerPage, FindsOutWhetherTheFutureIsMasked) {
  Tensor<float, 4> A({2, 2, 3, 4});
  for (float& weight : A) weight = 0.25F;
  const auto causal = [&] {
    return data_of(explorer_page({.A = A}).value()).find("\"causal\":true") != std::string::npos;
  };
  EXPECT_FALSE(causal());
  for (Index layer = 0; layer < 2; ++layer) {
    for (Index head = 0; head < 2; ++head) {
      for (Index i = 0; i < 3; ++i) {
        for (Index j = i + 2; j < 4; ++j) A(layer, head, i, j) = 0;
      }
    }
  }
  EXPECT_TRUE(causal());
  A(1, 1, 0, 3) = 1e-30F;
  EXPECT_FALSE(causal());
}

TEST(ExplorerPage, IsNotBrokenByHostileLabels) {
  const Tensor<float, 4> A({1, 1, 1, 2});
  const std::string plain = explorer_page({.A = A}).value();
  const std::string page =
      explorer_page({.title = "</script>", .A = A, .key_labels = {"</script><!--", "{{js}}\"\\\n"}})
          .value();
  EXPECT_EQ(count(page, "<script"), count(plain, "<script"));
  EXPECT_EQ(count(page, "</script"), count(plain, "</script"));
  EXPECT_EQ(count(data_of(page), "<"), 0U);
  EXPECT_NE(data_of(page).find("{{js}}\\u0022\\u005c\\u000a"), std::string::npos);
}

TEST(ExplorerPage, LoadsNothing) {
  const std::string page = explorer_page({.A = Tensor<float, 4>({1, 1, 1, 1})}).value();
  for (const char* loader : {"url(", "@import", "fetch(", "XMLHttpRequest", "import(", "<iframe",
                             "https:", "http:", "srcset", "src="}) {
    EXPECT_EQ(page.find(loader), std::string::npos) << loader;
  }
}

TEST(ExplorerPage, RefusesWhatItCannotShow) {
  const Tensor<float, 4> A({1, 1, 2, 2});
  EXPECT_EQ(explorer_page({.A = Tensor<float, 4>({1, 0, 2, 2})}).error().message,
            "there are no heads to explore");
  EXPECT_EQ(explorer_page({.A = A, .key_labels = {"a"}}).error().message,
            "there are 2 keys and 1 labels for them");
  const float one = 1;
  const View<const float, 4> many(&one, {1, 1, 1 << 13, 1 << 12}, {0, 0, 0, 0});
  EXPECT_NE(explorer_page({.A = many}).error().message.find("choose fewer layers or heads"),
            std::string::npos);
}

}  // namespace
}  // namespace headproof
