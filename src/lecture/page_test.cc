#include "lecture/page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "prose/math.h"

namespace headproof {
namespace {

using Pictures = std::vector<std::pair<std::string, std::string>>;

/// The first bytes of a PNG of 640 by 480 pixels.
const std::string png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\2\x80\0\0\1\xE0", 24);
const Pictures pictures = {{"five_seeds", png},
                           {"kernels", png},
                           {"lemma_4_5", png},
                           {"singular_values", png},
                           {"stages", png}};

Finding finding(std::string what, Outcome outcome) {
  Finding result;
  result.what = std::move(what);
  result.claim = Claim::bounded;
  result.outcome = outcome;
  result.error = outcome == Outcome::holds ? 0.25 : 1e6;
  result.bound = 1;
  return result;
}

/// A lecture made up by hand, with every theorem of the registry in one of its sections.
Lecture made_up_lecture() {
  constexpr Index length = 48, model_dim = 32, head_dim = 16;
  Lecture lecture;
  lecture.text_name = "made up";
  lecture.shown = std::u32string(length, U'a');
  Generator generator(0);
  lecture.tensors = {{"xin", generator.randn(1, length, model_dim)},
                     {"h_seed0_key", generator.randn(head_dim, model_dim)},
                     {"h_seed0_query", generator.randn(head_dim, model_dim)}};
  for (int seed = 0; seed < 5; ++seed) {
    lecture.tensors.emplace_back("h_seed" + std::to_string(seed) + "_A",
                                 generator.randn(length, length));
  }
  for (const char* id : {"4.1", "4.2", "4.3", "4.4", "4.5", "ex-7"}) {
    lecture.sections.push_back({id, "Title of " + std::string(id), {"Begins with $x^2$."}});
  }
  for (const Theorem& theorem : theorems()) {
    const Verdict holds{{finding("claim that holds", Outcome::holds)}};
    const Verdict fails{{finding("claim that fails", Outcome::violated)}};
    lecture.sections[1].items.push_back(
        ResultItem{std::string(theorem.id), holds, std::string(theorem.breaks), fails});
  }
  lecture.sections[2].items.push_back(Table{{"$d_k$", "name"}, {{"16", "one"}, {"256", "two"}}});
  return lecture;
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; ++at) ++found;
  return found;
}

/// What stands between the first `open` and the next `close`.
std::string between(const std::string& text, const std::string& open, const std::string& close) {
  const std::size_t start = text.find(open) + open.size();
  return text.substr(start, text.find(close, start) - start);
}

nlohmann::json data_of(const std::string& page) {
  return nlohmann::json::parse(between(page, "id=\"lecture-data\">", "</script>"));
}

TEST(Page, HasEverySectionResultAndPicture) {
  const Lecture lecture = made_up_lecture();
  const std::string page = lecture_page(lecture, pictures);
  for (const Section& section : lecture.sections) {
    EXPECT_NE(page.find(section.title + "</h2>"), std::string::npos) << section.title;
    EXPECT_NE(page.find(section.title + "</a>"), std::string::npos) << section.title;
  }
  for (const Theorem& theorem : theorems()) {
    EXPECT_NE(page.find(math_to_html(theorem.title)), std::string::npos) << theorem.id;
    EXPECT_NE(page.find(escape_html(theorem.code)), std::string::npos) << theorem.id;
    EXPECT_NE(page.find("<code>" + std::string(theorem.breaks) + "</code>"), std::string::npos)
        << theorem.id;
  }
  EXPECT_EQ(count(page, "claim that holds"), theorems().size());
  EXPECT_EQ(count(page, "claim that fails"), theorems().size());
  EXPECT_EQ(count(page, "25&nbsp;% of the bound"), theorems().size());
  EXPECT_EQ(count(page,
                  "src=\"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAoAAAAHg\" "
                  "width=\"640\" height=\"480\""),
            pictures.size());
  EXPECT_NE(page.find("<td class=\"number\">256</td><td>two</td>"), std::string::npos);
  EXPECT_EQ(page.find("{{"), std::string::npos);
}

TEST(Page, LeavesOutThePicturesThatAreNotGiven) {
  const std::string page = lecture_page(made_up_lecture(), {});
  EXPECT_EQ(count(page, "<img"), 0U);
  EXPECT_EQ(count(page, "<figure>"), 0U);
}

TEST(Page, LoadsNothing) {
  const std::string page = lecture_page(made_up_lecture(), pictures);
  for (const std::string attribute : {"src=\"", "href=\""}) {
    for (std::size_t at = 0; (at = page.find(attribute, at)) != std::string::npos;) {
      at += attribute.size();
      const std::string target = page.substr(at, 5);
      EXPECT_TRUE(target.starts_with("#") || target == "data:") << page.substr(at, 60);
    }
  }
  for (const char* loader :
       {"url(", "@import", "fetch(", "XMLHttpRequest", "import(", "<iframe", "https:", "srcset"}) {
    EXPECT_EQ(page.find(loader), std::string::npos) << loader;
  }
  // The name of SVG's namespace is no address that anyone asks.
  EXPECT_EQ(count(page, "http:"), count(page, "http://www.w3.org/2000/svg"));
}

TEST(Page, LinksOnlyToWhatIsThere) {
  const std::string page = lecture_page(made_up_lecture(), pictures);
  const std::string link = "href=\"#";
  for (std::size_t at = 0; (at = page.find(link, at)) != std::string::npos;) {
    at += link.size();
    const std::string target = page.substr(at, page.find('"', at) - at);
    EXPECT_EQ(count(page, " id=\"" + target + "\""), 1U) << target;
  }
}

TEST(Page, IsNotBrokenByHostileText) {
  const std::string hostile =
      "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&{{js}}";
  Lecture lecture = made_up_lecture();
  const std::size_t scripts = count(lecture_page(lecture, pictures), "<script");
  lecture.text_name = hostile;
  lecture.shown = U"</script><!--\"\\ &{{data}}$x$\u2028\u202E😀א\n\u0001";
  lecture.shown.resize(48, U'<');
  lecture.sections[0].title = lecture.sections[0].id = hostile;
  lecture.sections[2].items.push_back(Table{{hostile}, {{hostile}}});
  Verdict verdict{{finding(hostile, Outcome::violated)}};
  verdict.findings[0].note = hostile;
  lecture.sections[3].items.push_back(ResultItem{hostile, verdict, hostile, verdict});

  const std::string page = lecture_page(lecture, pictures);
  EXPECT_EQ(count(page, "<script"), scripts);
  EXPECT_EQ(count(page, "</script"), scripts);
  EXPECT_EQ(count(page, "<img src=x"), 0U);
  EXPECT_EQ(count(page, "id=\"lecture-data\""), 1U);
  EXPECT_EQ(count(between(page, "id=\"lecture-data\">", "</script>"), "<"), 0U);
  const auto labels = data_of(page)["labels"].get<std::vector<std::string>>();
  EXPECT_EQ(labels, visible_labels(lecture.shown));
}

TEST(Page, WritesNumbersThatJsonHasNoWordForAsNull) {
  Lecture lecture = made_up_lecture();
  Tensor<float, 2> A({48, 48});
  A(0, 0) = std::numeric_limits<float>::quiet_NaN();
  A(1, 0) = std::numeric_limits<float>::infinity();
  A(1, 1) = 0.123456789F;
  for (auto& [name, array] : lecture.tensors) {
    if (name == "h_seed4_A") array = A;
  }
  const nlohmann::json weights = data_of(lecture_page(lecture, pictures))["weights"];
  ASSERT_EQ(weights.size(), 5U);
  ASSERT_EQ(weights[4].size(), 48U * 49 / 2);
  EXPECT_TRUE(weights[4][0].is_null());
  EXPECT_TRUE(weights[4][1].is_null());
  EXPECT_EQ(weights[4][2].get<double>(), 0.12346);
}

TEST(Page, CarriesTheScoresOfTheFirstHead) {
  const Lecture lecture = made_up_lecture();
  const nlohmann::json scores = data_of(lecture_page(lecture, pictures))["scores"];
  ASSERT_EQ(scores.size(), 48U * 49 / 2);
  const auto x = to_tensor<float, 3>(lecture.tensor("xin")).value();
  const auto w_q = to_tensor<float, 2>(lecture.tensor("h_seed0_query")).value();
  const auto w_k = to_tensor<float, 2>(lecture.tensor("h_seed0_key")).value();
  double score = 0;  // of query 1 and key 0, which stand second in the list
  for (Index c = 0; c < 16; ++c) {
    double q_1 = 0, k_0 = 0;
    for (Index m = 0; m < 32; ++m) {
      q_1 += static_cast<double>(w_q(c, m)) * static_cast<double>(x(0, 1, m));
      k_0 += static_cast<double>(w_k(c, m)) * static_cast<double>(x(0, 0, m));
    }
    score += q_1 * k_0 / 4;
  }
  EXPECT_NEAR(scores[1].get<double>(), score, 1e-4 * std::fabs(score));
}

TEST(Page, SaysWhatIsViolatedAndWhatGoesUnnoticed) {
  Lecture lecture = made_up_lecture();
  const Verdict holds{{finding("a claim", Outcome::holds)}};
  const Verdict fails{{finding("a claim", Outcome::violated)}};
  lecture.sections[1].items = {ResultItem{"prop-3.1", fails, "no-mask", holds}};
  const std::string page = lecture_page(lecture, pictures);
  EXPECT_NE(page.find("10<sup>6</sup> times the bound"), std::string::npos);
  EXPECT_NE(page.find("</span> violated</span></header>"), std::string::npos);
  EXPECT_NE(page.find("This check does not notice."), std::string::npos);
}

TEST(Page, TellsAResultInFullOnlyOnce) {
  Lecture lecture = made_up_lecture();
  const Verdict holds{{finding("the second time", Outcome::holds)}};
  lecture.sections[3].items.push_back(ResultItem{"prop-3.1", holds, "", {}});
  const std::string page = lecture_page(lecture, pictures);
  EXPECT_EQ(count(page, "id=\"result-prop-3-1\""), 1U);
  EXPECT_EQ(count(page, "the second time"), 1U);
  EXPECT_EQ(count(page, escape_html(find_theorem("prop-3.1")->code)), 1U);
}

TEST(Page, IsTheSameForTheSameLecture) {
  EXPECT_EQ(lecture_page(made_up_lecture(), pictures), lecture_page(made_up_lecture(), pictures));
}

}  // namespace
}  // namespace headproof
