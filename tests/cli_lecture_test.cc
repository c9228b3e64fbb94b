// headproof lecture as users meet it: what it prints, which files it leaves, what it refuses.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "command.h"
#include "goldens.h"
#include "headproof/npy.h"
#include "headproof/text.h"

namespace headproof {
namespace {

using nlohmann::json;
using CliLecture = CommandTest;
using Names = std::set<std::string>;

constexpr const char* pictures[] = {"five_seeds", "kernels", "lemma_4_5", "singular_values",
                                    "stages"};

/// The files of `--out` with pictures in these formats.
Names files_with(const std::vector<std::string>& formats) {
  Names names = {"lecture.html", "head.safetensors"};
  for (const char* picture : pictures) {
    for (const std::string& format : formats) names.insert(std::string(picture) + "." + format);
  }
  return names;
}

Names names_of(const std::map<std::string, std::string>& tree) {
  Names names;
  for (const auto& [name, bytes] : tree) names.insert(name);
  return names;
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; ++at) ++found;
  return found;
}

bool has(std::string_view text, std::string_view part) { return count(text, part) > 0; }

/// A text of 60 characters, long enough for the pictures.
const std::string sixty(60, 'a');

TEST_F(CliLecture, PrintsEverySectionAndWritesPicturesPageAndWeights) {
  const Ended ended = run("lecture");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(ended.err, "");
  for (const char* section : {"4.1", "4.2", "4.3", "4.4", "4.5", "ex-7"}) {
    EXPECT_TRUE(has(ended.out, "\n\n" + std::string(section) + "  ")) << section;
  }
  EXPECT_TRUE(has(ended.out, "11 of 11 results hold\n")) << ended.out;
  EXPECT_TRUE(ended.out.ends_with("\nThe page: headproof-out/lecture.html\n")) << ended.out;
  Names names = {"headproof-out"};
  for (const std::string& file : files_with({"png"})) names.insert("headproof-out/" + file);
  EXPECT_EQ(names_of(tree()), names);
}

TEST_F(CliLecture, TheTextItBringsAlongHasNothingToRepair) {
  EXPECT_FALSE(default_text().starts_with("\xEF\xBB\xBF"));
  EXPECT_FALSE(has(default_text(), "\r"));
  const Ended ended = run("lecture");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_FALSE(has(ended.out, "byte order mark"));
  EXPECT_FALSE(has(ended.out, "became LF"));
}

TEST_F(CliLecture, DrawsTheFormatsThatAreAskedFor) {
  EXPECT_EQ(run("lecture --out commas --format svg,pdf,png").exit_code, 0);
  EXPECT_EQ(run("lecture --out repeated --format svg --format pdf").exit_code, 0);
  EXPECT_EQ(run("lecture --out twice --format pdf,pdf").exit_code, 0);
  EXPECT_EQ(names_of(tree("commas")), files_with({"svg", "pdf", "png"}));
  EXPECT_EQ(names_of(tree("repeated")), files_with({"svg", "pdf"}));
  EXPECT_EQ(names_of(tree("twice")), files_with({"pdf"}));
  for (const std::string picture : pictures) {
    EXPECT_TRUE(content("commas/" + picture + ".png").starts_with("\x89PNG\r\n")) << picture;
    EXPECT_TRUE(content("commas/" + picture + ".pdf").starts_with("%PDF-")) << picture;
    EXPECT_TRUE(has(content("commas/" + picture + ".svg"), "<svg ")) << picture;
  }
  // The page shows the same pictures whatever the formats of the files.
  EXPECT_TRUE(content("commas/lecture.html") == content("repeated/lecture.html"));
  expect_refused("\"$HEADPROOF\" lecture --format gif", {"--format", "gif", "png", "svg", "pdf"});
  expect_refused("\"$HEADPROOF\" lecture --format png,gif", {"--format", "gif"});
}

TEST_F(CliLecture, OnlyChangesWhatIsPrintedAndNoNumber) {
  const json whole = json::parse(run("lecture --out whole --json").out);
  for (const json& section : whole["sections"]) {
    const std::string id = section["id"];
    const Ended ended = run("lecture --out one --json one.json --only " + id);
    EXPECT_EQ(ended.exit_code, 0) << id;
    EXPECT_TRUE(has(ended.out, "\n\n" + id + "  ")) << id;
    EXPECT_EQ(count(ended.out, "\n\n4.") + count(ended.out, "\n\nex-7  "), 1U) << ended.out;
    const json one = json::parse(content("one.json"));
    ASSERT_EQ(one["sections"].size(), 1U) << id;
    EXPECT_EQ(one["sections"][0], section) << id;
    EXPECT_TRUE(tree("one") == tree("whole")) << id;
  }
  expect_refused("\"$HEADPROOF\" lecture --only 4.9",
                 {"--only 4.9", "4.1", "4.2", "4.3", "4.4", "4.5", "ex-7"});
}

TEST_F(CliLecture, JsonGoesToStdoutAndTheTextThenToStderr) {
  const Ended plain = run("lecture");
  const Ended ended = run("lecture --json");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(ended.err, plain.out);
  const json document = json::parse(ended.out);
  EXPECT_EQ(document["schema_version"], 1);
  EXPECT_EQ(document["command"], "lecture");
  EXPECT_EQ(document["outcome"], "holds");
  EXPECT_EQ(document["seed"], 0);
  for (const std::string file : document["files"]) {
    EXPECT_TRUE(std::filesystem::exists(folder_ / file)) << file;
  }
  EXPECT_EQ(run("lecture --json -").out, ended.out);
  EXPECT_EQ(run("lecture --json /dev/stdout").out, ended.out);
}

TEST_F(CliLecture, JsonIsNotMistakenForTheOptionAfterIt) {
  const Ended ended = run("lecture --json --seed 3 --out x");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(json::parse(ended.out)["seed"], 3);
  EXPECT_EQ(names_of(tree()).count("x/lecture.html"), 1U);
}

TEST_F(CliLecture, JsonGoesToAFileToo) {
  const Ended ended = run("lecture --out x --json x/reports/report.json");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(ended.err, "");
  EXPECT_TRUE(has(ended.out, "results hold"));
  EXPECT_EQ(content("x/reports/report.json"), run("lecture --out x --json").out);
  expect_refused("\"$HEADPROOF\" lecture --out x --json x", {"x: it is a folder"});
  expect_refused("\"$HEADPROOF\" lecture --out x --json x/reports", {"x/reports: it is a folder"});
  expect_refused("\"$HEADPROOF\" lecture --out y --json y", {"y"});
  expect_refused("\"$HEADPROOF\" lecture --out y --json y/lecture.html", {"y/lecture.html"});
}

TEST_F(CliLecture, DumpsTheTensorsOfTheManifestWithTheGoldenBits) {
  const char* chosen = std::getenv("HEADPROOF_SHARED");
  const std::filesystem::path shared = chosen != nullptr ? chosen : HEADPROOF_SHARED;
  const auto folder = shared / "goldens" / "seed_0", text = shared / "data" / "tinyshakespeare.txt";
  const auto manifest = read_file(folder / "manifest.json");
  if (!manifest || !std::filesystem::exists(text)) {
    GTEST_SKIP() << "there are no golden tensors in " << shared;
  }
  // The manifest writes -Infinity, which is no JSON.
  Names expected;
  const std::regex entry("\"file\": \"([^\"]+)\"");
  for (std::sregex_iterator at(manifest->begin(), manifest->end(), entry), end; at != end; ++at) {
    expected.insert((*at)[1]);
  }
  EXPECT_EQ(expected.size(), 91U);

  const Ended ended = run("lecture --text '" + text.string() + "' --dump dump --out pictures");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_TRUE(has(ended.out, "1,115,394 characters, vocabulary 65")) << ended.out;
  const auto dumped = tree("dump");
  EXPECT_EQ(names_of(dumped), expected);
  std::size_t compared = 0;
  for (const auto& [file, bytes] : dumped) {
    const std::string name = file.substr(4, file.size() - 8);  // NNN_name.npy
    const bool drawn = std::any_of(std::begin(goldens::drawn), std::end(goldens::drawn),
                                   [&](const auto& golden) { return golden.name == name; });
    if (!drawn) continue;
    EXPECT_TRUE(bytes == read_file(folder / file).value()) << file;
    ++compared;
  }
  EXPECT_EQ(compared, std::size(goldens::drawn));
}

TEST_F(CliLecture, OutDumpAndJsonMayShareAFolder) {
  const Ended ended = run("lecture --out x --dump x --json x/report.json");
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(tree("x").size(), 91U + 7U + 1U);
}

TEST_F(CliLecture, OnlyTheLow32BitsOfASeedCount) {
  const auto dump_of = [this](const std::string& seed) {
    const Ended ended = run("lecture --only 4.1 --dump " + seed + " --seed " + seed);
    EXPECT_EQ(ended.exit_code, 0) << seed << ended.err;
    return tree(seed);
  };
  const auto largest = dump_of("4294967295");
  EXPECT_EQ(largest.size(), 91U);
  EXPECT_TRUE(dump_of("-1") == largest);
  EXPECT_TRUE(dump_of("18446744073709551615") == largest);
  EXPECT_TRUE(dump_of("-9223372036854775808") == dump_of("0"));
  EXPECT_FALSE(dump_of("1") == largest);
}

TEST_F(CliLecture, ASeedThatIsNoWholeNumberInRangeIsRefused) {
  for (const std::string seed : {"1.5", "abc", "18446744073709551616", "-9223372036854775809", "1 ",
                                 " 1", "0x10", "1e3", "--", "-", "nan"}) {
    expect_refused("\"$HEADPROOF\" lecture --seed='" + seed + "'",
                   {"--seed " + seed, "-2^63 to 2^64 - 1"});
  }
}

TEST_F(CliLecture, ATextThatCannotBeUsedIsRefused) {
  write("empty.txt", "");
  write("short.txt", std::string(47, 'a'));
  write("mark.txt", "\xEF\xBB\xBF" + std::string(47, 'a'));
  write("invalid.txt", sixty + "\xFF" + sixty);
  write("cut.txt", sixty + "\xE2\x82");
  write("binary", content(HEADPROOF_BINARY));
  std::filesystem::create_symlink("loop", folder_ / "loop");
  const auto text = [](const std::string& file) { return "\"$HEADPROOF\" lecture --text " + file; };
  expect_refused(text("none.txt"), {"none.txt", "No such file"});
  expect_refused(text("."), {" .", "directory"});
  expect_refused(text("loop"), {"loop", "symbolic links"});
  expect_refused(text("empty.txt"), {"empty.txt", " 0 characters", "48"});
  expect_refused(text("short.txt"), {"short.txt", " 47 characters", "48"});
  expect_refused(text("mark.txt"), {"mark.txt", " 47 characters", "48"});
  expect_refused(text("invalid.txt"), {"invalid.txt", "UTF-8", "0xFF", "offset 60"});
  expect_refused(text("cut.txt"), {"cut.txt", "UTF-8", "0xE2", "offset 60"});
  expect_refused(text("binary"), {"binary", "UTF-8", "offset"});
}

TEST_F(CliLecture, TextsOf48CharactersAndOfAMillionAreRead) {
  write("48.txt", std::string(48, 'a'));
  write("million.txt", std::string(1'000'000, 'a'));
  EXPECT_TRUE(has(run("lecture --text 48.txt").out, "48 characters, vocabulary 1 (48.txt)"));
  EXPECT_TRUE(has(run("lecture --text million.txt").out, "1,000,000 characters, vocabulary 1"));
  const Ended piped = shell("\"$HEADPROOF\" lecture --text /dev/stdin < 48.txt");
  EXPECT_TRUE(has(piped.out, "48 characters, vocabulary 1")) << piped.err;
}

TEST_F(CliLecture, ByteOrderMarkAndLineEndsAreRepairedAndReported) {
  std::string lf, windows = "\xEF\xBB\xBF";
  for (int line = 0; line < 20; ++line) {
    lf += "line " + std::to_string(line) + "\n";
    // A lone CR ended lines once, too.
    windows += "line " + std::to_string(line) + (line == 7 ? "\r" : "\r\n");
  }
  write("lf.txt", lf);
  write("windows.txt", windows);
  const Ended plain = run("lecture --text lf.txt --dump lf");
  const Ended repaired = run("lecture --text windows.txt --dump windows");
  EXPECT_FALSE(has(plain.out, "byte order mark"));
  EXPECT_FALSE(has(plain.out, "became LF"));
  EXPECT_TRUE(has(repaired.out, "A byte order mark at the start of the text was dropped."));
  EXPECT_TRUE(has(repaired.out, "20 line ends CRLF or CR became LF."));
  EXPECT_TRUE(tree("lf") == tree("windows"));
}

TEST_F(CliLecture, HostileCharactersHarmNeitherReportNorPage) {
  std::string text = "$x^2$ *bold* `code` \\frac{1}{2} </script><script>alert(1)</script> & <!-- ";
  text += "{{data}} \"quoted\" \xF0\x9F\x98\x80 \xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D e\xCC\x81 ";
  text += std::string("\0\x01\x1B[31m\x7F", 8) + "\xE2\x80\xAE\xE2\x80\xA8";
  // Wherever the window of 48 characters falls, some of them are hostile.
  for (std::size_t shift = 0; shift < text.size(); shift += 48) {
    while (shift < text.size() && (static_cast<unsigned char>(text[shift]) & 0xC0) == 0x80) ++shift;
    write("$hostile`'&<b>.txt", text.substr(shift) + text.substr(0, shift));
    const Ended ended =
        run("lecture --text '$hostile`'\\''&<b>.txt' --format png,svg,pdf --json report.json");
    ASSERT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_EQ(ended.err, "");
    EXPECT_FALSE(has(ended.out, "\x1B"));
    EXPECT_FALSE(has(ended.out, std::string_view("\0", 1)));
    const json report = json::parse(content("report.json"));
    EXPECT_EQ(report["text"], "$hostile`'&<b>.txt");

    const std::string page = content("headproof-out/lecture.html");
    EXPECT_TRUE(decode_utf8(page, "page"));
    EXPECT_EQ(count(page, "<script"), count(page, "</script"));
    EXPECT_FALSE(has(page, "<script>alert"));
    EXPECT_FALSE(has(page, "&<b>"));
    EXPECT_FALSE(has(page, "<!-- "));
    EXPECT_TRUE(page.ends_with("</html>\n")) << page.substr(page.size() - 40);
  }
}

TEST_F(CliLecture, ColoursAreForTerminalsThatWantThem) {
  EXPECT_FALSE(has(run("lecture").out, "\x1B"));
  if (shell("command -v script").exit_code != 0) GTEST_SKIP() << "there is no program `script`";
  const auto on_terminal = [this](const std::string& variables) {
    return shell("env " + variables + " script -qec '\"$HEADPROOF\" lecture' /dev/null").out;
  };
  EXPECT_TRUE(has(on_terminal("-u NO_COLOR"), "\x1B[1m"));
  const std::string plain = on_terminal("NO_COLOR=1");
  EXPECT_TRUE(has(plain, "results hold"));
  EXPECT_FALSE(has(plain, "\x1B"));
}

TEST_F(CliLecture, TwoRunsWriteTheSameBytes) {
  const std::string arguments =
      "lecture --format png,svg,pdf --out x --dump x/tensors --json x/report.json";
  const Ended first = run(arguments);
  const auto files = tree();
  // The next second, in another language and without a home: no date and no setting gets in.
  const Ended second = shell("sleep 1; LC_ALL=de_DE.UTF-8 HOME=/none \"$HEADPROOF\" " + arguments);
  EXPECT_EQ(first.exit_code, 0);
  EXPECT_EQ(second.out, first.out);
  for (const auto& [name, bytes] : tree()) {
    EXPECT_TRUE(files.count(name) == 1 && files.at(name) == bytes) << name;
  }
}

TEST_F(CliLecture, ReplacesItsFilesAndLeavesOthersAlone) {
  std::filesystem::create_directory(folder_ / "x");
  write("x/lecture.html", "old");
  write("x/mine.txt", "mine");
  EXPECT_EQ(run("lecture --out x").exit_code, 0);
  Names expected = files_with({"png"});
  expected.insert("mine.txt");
  EXPECT_EQ(names_of(tree("x")), expected);
  EXPECT_EQ(content("x/mine.txt"), "mine");
  EXPECT_TRUE(has(content("x/lecture.html"), "</html>"));
}

TEST_F(CliLecture, FoldersMayHaveAnyNameAndNeedNotExist) {
  for (const std::string out :
       {"a b/c'd", "été/文", "x/y/z/", "./here", "up/../beside", "-dash", "\xFF\xFE"}) {
    std::string quoted = out;
    if (const auto at = quoted.find('\''); at != out.npos) quoted.replace(at, 1, "'\\''");
    const Ended ended = run("lecture --out='" + quoted + "'");
    EXPECT_EQ(ended.exit_code, 0) << out << ended.err;
    EXPECT_EQ(names_of(tree(out)), files_with({"png"})) << out;
  }
}

TEST_F(CliLecture, FilesAreWrittenThroughALinkToAFolder) {
  std::filesystem::create_directory(folder_ / "real");
  std::filesystem::create_symlink("real", folder_ / "link");
  EXPECT_EQ(run("lecture --out link").exit_code, 0);
  EXPECT_EQ(names_of(tree("real")), files_with({"png"}));
}

TEST_F(CliLecture, AFolderThatCannotBeWrittenIsRefusedAndNothingIsLeft) {
  write("file", "a file");
  std::filesystem::create_directories(folder_ / "x" / "lecture.html");
  write("x/kernels.png", "old");
  std::filesystem::create_symlink("loop", folder_ / "loop");
  const auto out = [](const std::string& folder) {
    return "\"$HEADPROOF\" lecture --out " + folder;
  };
  expect_refused(out("file"), {"cannot write file/", "Not a directory"});
  expect_refused(out("file/x/y"), {"cannot write file/x/y/", "Not a directory"});
  expect_refused(out("/proc/headproof"), {"cannot write /proc/headproof/"});
  expect_refused(out("loop"), {"cannot write loop/", "symbolic links"});
  expect_refused(out("x"), {"cannot write x/lecture.html: it is a folder"});
  expect_refused(out("y --dump file"), {"cannot write file/000_head_key.npy", "Not a directory"});
  expect_refused(out("y --json /dev/null"), {"cannot write /dev/null"});
  expect_refused(out("y --json file/report.json"), {"cannot write file/report.json"});
  if (geteuid() != 0) {
    std::filesystem::create_directory(folder_ / "read_only");
    std::filesystem::permissions(folder_ / "read_only", std::filesystem::perms(0555));
    expect_refused(out("read_only"), {"cannot write read_only/", "Permission denied"});
  }
}

TEST_F(CliLecture, AFileSystemThatIsFullLeavesNothingBehind) {
  // The shell's limit on the size of a file stands in for a full disk: 20 blocks of 512 bytes hold
  // the text of the terminal, not the pictures.
  expect_refused("ulimit -f 20; \"$HEADPROOF\" lecture --out new/folder",
                 {"cannot write new/folder/", "File too large"});
  expect_refused("ulimit -f 20; \"$HEADPROOF\" lecture --out new --dump new",
                 {"cannot write new/", "File too large"});
}

TEST_F(CliLecture, AFolderThatIsGoneIsRefused) {
  expect_refused("mkdir gone; cd gone; rmdir ../gone; \"$HEADPROOF\" lecture",
                 {"cannot write headproof-out/", "No such file"});
}

}  // namespace
}  // namespace headproof
