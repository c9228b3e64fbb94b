// headproof lecture: runs the lecture, prints it, and writes its pictures and its page.

#include "lecture/lecture.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <memory>
#include <vector>

#include "command.h"
#include "headproof/files.h"
#include "headproof/npy.h"
#include "headproof/safetensors.h"
#include "headproof/text.h"
#include "lecture/lecture_pictures.h"
#include "lecture/page.h"
#include "lecture/report.h"

namespace headproof::cli {
namespace {

struct Options {
  std::string text, seed = "0", out = "headproof-out", only, dump;
  std::vector<std::string> formats = {"png"};
  JsonOption json;
};

constexpr std::pair<std::string_view, PictureFormat> formats_by_name[] = {
    {"png", PictureFormat::png}, {"svg", PictureFormat::svg}, {"pdf", PictureFormat::pdf}};

Result<Lecture> lecture_of(const Options& options, std::uint64_t seed) {
  std::string bytes(default_text());
  std::string name = "the passage that headproof brings along";
  if (!options.text.empty()) {
    auto read = read_file(options.text);
    if (!read) return read.error();
    bytes = std::move(*read);
    name = options.text;
  }
  auto text = decode_utf8(bytes, name);
  if (!text) return text.error();
  return run_lecture(*text, name, seed);
}

std::filesystem::path page_file(const Options& options) {
  return std::filesystem::path(options.out) / "lecture.html";
}

/// Adds every file that the lecture makes to `files`; returns their paths.
Result<std::vector<std::string>> add_files(const Options& options, Lecture& lecture,
                                           OutputFiles& files) {
  std::vector<PictureFormat> formats = {PictureFormat::png};  // the page shows these
  for (const auto& [name, format] : formats_by_name) {
    const bool asked = std::count(options.formats.begin(), options.formats.end(), name) > 0;
    if (asked && format != PictureFormat::png) formats.push_back(format);
  }
  auto counterexamples = std::async(std::launch::async, [&] { run_counterexamples(lecture); });
  const auto pictures = draw_lecture_pictures(lecture, formats);
  counterexamples.get();
  if (!pictures) return pictures.error();

  const std::filesystem::path out(options.out);
  std::vector<std::pair<std::filesystem::path, std::string>> wanted;
  std::vector<std::pair<std::string, std::string>> on_page;
  for (const DrawnPicture& picture : *pictures) {
    if (picture.format == PictureFormat::png) on_page.emplace_back(picture.name, picture.bytes);
    for (const auto& [name, format] : formats_by_name) {
      if (format == picture.format &&
          std::count(options.formats.begin(), options.formats.end(), name) > 0) {
        wanted.emplace_back(out / (picture.name + "." + std::string(name)), picture.bytes);
      }
    }
  }
  wanted.emplace_back(page_file(options), lecture_page(lecture, on_page));
  wanted.emplace_back(out / "head.safetensors",
                      format_safetensors(to_named_arrays(lecture.problem.weights)));
  if (!options.dump.empty()) {
    for (std::size_t i = 0; i < lecture.tensors.size(); ++i) {
      const auto& [name, array] = lecture.tensors[i];
      wanted.emplace_back(
          std::filesystem::path(options.dump) / fmt::format("{:03}_{}.npy", i, name),
          format_npy(array));
    }
  }
  std::vector<std::string> paths;
  for (const auto& [path, bytes] : wanted) {
    if (const Status added = files.add(path, bytes); !added) return added.error();
    paths.push_back(path.string());
  }
  return paths;
}

int run(const Options& options) {
  const auto seed = parse_seed(options.seed);
  if (!seed) return refuse(seed.error().message);
  auto lecture = lecture_of(options, *seed);
  if (!lecture) return refuse(lecture.error().message);
  if (!options.only.empty() &&
      std::none_of(lecture->sections.begin(), lecture->sections.end(),
                   [&](const Section& section) { return section.id == options.only; })) {
    std::string ids;
    for (const Section& section : lecture->sections) ids += " " + section.id;
    return refuse(
        fmt::format("--only {}: there is no such section; there are{}", options.only, ids));
  }

  OutputFiles files;
  const auto paths = add_files(options, *lecture, files);
  if (!paths) return refuse(paths.error().message);
  const std::string json =
      options.json.wanted() ? lecture_json(*lecture, options.only, *paths) : std::string();
  if (options.json.wanted() && !options.json.to_stdout()) {
    if (const Status added = files.add(options.json.file, json); !added) {
      return refuse(added.error().message);
    }
  }
  if (const Status done = files.commit(); !done) return refuse(done.error().message);

  std::FILE* text_stream = options.json.to_stdout() ? stderr : stdout;
  const bool colour = isatty(fileno(text_stream)) != 0 && std::getenv("NO_COLOR") == nullptr;
  print(text_stream, lecture_text(*lecture, options.only, colour));
  print(text_stream, fmt::format("\nThe page: {}\n", page_file(options).string()));
  if (options.json.to_stdout()) print(stdout, json);
  return lecture->outcome() == Outcome::holds ? holds : violated;
}

}  // namespace

void add_lecture(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("lecture", "run the lecture from top to bottom");
  const auto options = std::make_shared<Options>();
  verb->add_option("--text", options->text, "a UTF-8 text to look at; one is built in");
  verb->add_option("--seed", options->seed, "replaces the lecture's first seed")
      ->capture_default_str();
  verb->add_option("--out", options->out, "the folder for pictures and page")
      ->capture_default_str();
  verb->add_option("--format", options->formats, "png, svg, pdf, or several with commas")
      ->delimiter(',')
      ->check(CLI::IsMember({"png", "svg", "pdf"}))
      ->capture_default_str();
  verb->add_option("--only", options->only, "print one section: 4.1 to 4.5 or ex-7");
  verb->add_option("--dump", options->dump, "a folder that gets every tensor as .npy");
  options->json.add_to(*verb);
  verb->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace headproof::cli
