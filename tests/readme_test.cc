// The README shows a program that compiles and what that prints; the notebook in C++ prints the
// notebook's figures.

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "headproof/files.h"

namespace headproof {
namespace {

const std::filesystem::path source_folder = HEADPROOF_SOURCE_DIR;

/// What a program of the examples prints; it must exit with 0.
std::string output_of(const std::string& name) {
  const auto program = std::filesystem::path(HEADPROOF_EXAMPLES) / ("example_" + name);
  std::FILE* pipe = popen(program.c_str(), "r");
  std::string output;
  for (int byte; pipe != nullptr && (byte = std::getc(pipe)) != EOF;) {
    output += static_cast<char>(byte);
  }
  EXPECT_EQ(pipe == nullptr ? -1 : pclose(pipe), 0) << program;
  return output;
}

/// The lines between the first "```language" of `text` and the "```" after it.
std::string block(const std::string& text, const std::string& language) {
  const std::string fence = "\n```" + language + "\n";
  const auto begin = text.find(fence);
  if (begin == std::string::npos) return "no block of " + language;
  const auto first = begin + fence.size();
  return text.substr(first, text.find("```\n", first) - first);
}

TEST(Readme, ShowsTheQuickStartAndWhatItPrints) {
  const std::string readme = read_file(source_folder / "README.md").value();
  EXPECT_EQ(block(readme, "cpp"), read_file(source_folder / "examples/quick_start.cpp").value());
  EXPECT_EQ(block(readme, "text"), output_of("quick_start"));
}

TEST(Examples, Step4PrintsTheNotebooksFiguresInItsOrder) {
  const std::string output = output_of("step4");
  std::size_t place = 0;
  for (const char* figure : {"6.09e-02",
                             " 16 ",
                             "4.01 ",
                             "4.0 ",
                             "1.00 ",
                             "0.993 ",
                             "0.600\n",
                             " 64 ",
                             "8.06 ",
                             "8.0 ",
                             "1.01 ",
                             "1.000 ",
                             "0.522\n",
                             " 256 ",
                             "17.84 ",
                             "16.0 ",
                             "1.11 ",
                             "1.000 ",
                             "0.596\n",
                             "1.000 to 1.000\n",
                             "0.016 to 1.000\n",
                             "8.2e-01",
                             "rank is 8\n"}) {
    const auto found = output.find(figure, place);
    ASSERT_NE(found, std::string::npos) << figure << " is missing in\n" << output.substr(place);
    place = found + std::string(figure).size() - 1;
  }
  EXPECT_EQ(output.find("FAILS"), std::string::npos);
}

}  // namespace
}  // namespace headproof
