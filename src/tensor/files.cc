#include "headproof/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace headproof {
namespace {

namespace fs = std::filesystem;

Error cannot(std::string_view verb, const fs::path& file, std::string_view why) {
  return Error{"cannot " + std::string(verb) + " " + file.string() + ": " + std::string(why)};
}

Error cannot(std::string_view verb, const fs::path& file, std::error_code why) {
  return cannot(verb, file, why.message());
}

std::error_code last_error() { return {errno, std::generic_category()}; }

/// Writes all bytes and closes the descriptor; some file systems report at the close only that they
/// are full.
std::error_code write_and_close(int descriptor, std::string_view bytes) {
  std::error_code problem;
  while (!bytes.empty() && !problem) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (written < 0 && errno != EINTR) {
      problem = last_error();
    }
  }
  if (close(descriptor) != 0 && !problem) problem = last_error();
  return problem;
}

/// Where the bytes of `file` belong: symbolic links are followed, also one to a file that does not
/// exist yet, so that they keep pointing.
fs::path follow_links(fs::path file, std::error_code& problem) {
  constexpr int max_links = 40;
  for (int links = 0; fs::is_symlink(fs::symlink_status(file, problem)); ++links) {
    if (links == max_links) {
      problem = std::make_error_code(std::errc::too_many_symbolic_link_levels);
      break;
    }
    const fs::path target = fs::read_symlink(file, problem);
    if (problem) break;
    file = file.parent_path() / target;
  }
  // That nothing stands there yet is no problem.
  if (problem == std::errc::no_such_file_or_directory) problem.clear();
  return file;
}

/// Creates `folder` and those above it, and appends the new ones to `created`.
std::error_code create_folders(const fs::path& folder, std::vector<fs::path>& created) {
  std::error_code problem;
  if (folder.empty() || fs::is_directory(folder, problem)) return {};
  if (const std::error_code above = create_folders(folder.parent_path(), created)) return above;
  if (fs::create_directory(folder, problem)) created.push_back(folder);
  return problem;
}

}  // namespace

Result<std::string> read_file(const fs::path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return cannot("read", file, last_error());
  std::string bytes;
  constexpr std::size_t chunk = 1 << 16;
  std::error_code problem;
  for (bool at_end = false; !at_end && !problem;) {
    const std::size_t size = bytes.size();
    bytes.resize(size + chunk);
    const ssize_t got = read(descriptor, bytes.data() + size, chunk);
    if (got < 0 && errno != EINTR) problem = last_error();
    at_end = got == 0;
    bytes.resize(size + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
  close(descriptor);
  if (problem) return cannot("read", file, problem);
  return bytes;
}

OutputFiles::~OutputFiles() {
  std::error_code ignored;
  for (const Staged& file : staged_) fs::remove(file.temporary, ignored);
  // Innermost first; a folder in which something else appeared meanwhile is not empty and stays.
  std::for_each(new_folders_.rbegin(), new_folders_.rend(),
                [&ignored](const fs::path& folder) { fs::remove(folder, ignored); });
}

Status OutputFiles::add(const fs::path& file, std::string_view bytes) {
  std::error_code problem;
  fs::path final = follow_links(file, problem);
  if (problem) return cannot("write", file, problem);
  if (const fs::path name = final.filename(); name.empty() || name == "." || name == "..") {
    return cannot("write", file, "it names a folder, not a file");
  }
  final = fs::absolute(final, problem);
  if (!problem) problem = create_folders(final.parent_path(), new_folders_);
  if (!problem) final = fs::canonical(final.parent_path(), problem) / final.filename();
  if (problem) return cannot("write", file, problem);
  if (std::any_of(staged_.begin(), staged_.end(),
                  [&final](const Staged& other) { return other.final == final; })) {
    return cannot("write", file, "another output has the same name");
  }
  const fs::file_status old = fs::status(final, problem);
  if (fs::is_directory(old)) return cannot("write", file, "it is a folder");
  if (fs::exists(old) && !fs::is_regular_file(old)) {
    return cannot("write", file, "it is not an ordinary file, so it cannot be replaced as a whole");
  }
  // A rename would replace even a file that is protected against writing.
  if (fs::exists(old) && faccessat(AT_FDCWD, final.c_str(), W_OK, AT_EACCESS) != 0) {
    return cannot("write", file, last_error());
  }

  fs::path temporary;
  int descriptor = -1;
  for (int attempt = 0; descriptor < 0; ++attempt) {
    temporary = final.parent_path() / (".headproof." + std::to_string(getpid()) + "." +
                                       std::to_string(attempt) + ".partial");
    descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno != EEXIST) return cannot("write", file, last_error());
  }
  problem = write_and_close(descriptor, bytes);
  if (!problem && fs::exists(old)) fs::permissions(temporary, old.permissions(), problem);
  if (problem) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    return cannot("write", file, problem);
  }
  staged_.push_back({temporary, final});
  return std::monostate{};
}

Status OutputFiles::commit() {
  std::vector<fs::path> kept(staged_.size());  // Where an old file waits; empty when none stood.
  std::error_code problem, ignored;
  std::size_t renamed = 0;
  for (; renamed < staged_.size(); ++renamed) {
    const auto& [temporary, final] = staged_[renamed];
    const fs::file_status old = fs::symlink_status(final, ignored);
    if (fs::exists(old) && !fs::is_directory(old)) {
      fs::path spare = fs::path(temporary).replace_extension("old");
      // The old file gets a second name; without hard links in the file system it steps aside.
      fs::create_hard_link(final, spare, problem);
      if (problem) fs::rename(final, spare, problem);
      if (problem) break;
      kept[renamed] = std::move(spare);
    }
    fs::rename(temporary, final, problem);
    if (problem) break;
  }
  for (std::size_t i = 0; problem && i < staged_.size(); ++i) {
    if (!kept[i].empty()) {
      std::error_code lost;
      fs::rename(kept[i], staged_[i].final, lost);
      if (lost) kept[i].clear();  // The spare is the only copy left: it stays.
    } else if (i < renamed) {
      fs::remove(staged_[i].final, ignored);
    }
  }
  // A rename between two names of one file does nothing, so this also ends a second name.
  for (const fs::path& spare : kept) {
    if (!spare.empty()) fs::remove(spare, ignored);
  }
  if (problem) return cannot("write", staged_[renamed].final, problem);
  staged_.clear();
  new_folders_.clear();
  return std::monostate{};
}

}  // namespace headproof
