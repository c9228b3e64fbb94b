// The lecture as text for a terminal and as JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lecture/lecture.h"

namespace headproof {

/// Breaks plain text at spaces into lines of at most `width` characters, each led by `indent`.
std::string wrapped(std::string_view text, std::string_view indent, std::size_t width = 88);

/// A file name without the control characters that would act on a terminal.
std::string on_one_line(std::string name);

/// The sections as text; `only` is the id of the one to show, or empty for all of them.
std::string lecture_text(const Lecture& lecture, std::string_view only, bool colour);

/// The same as JSON with `schema_version`; `files` are the paths written.
std::string lecture_json(const Lecture& lecture, std::string_view only,
                         const std::vector<std::string>& files);

}  // namespace headproof
