// The lecture as text for a terminal and as JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lecture/lecture.h"

namespace headproof {

/// The sections as text; `only` is the id of the one to show, or empty for all of them.
std::string lecture_text(const Lecture& lecture, std::string_view only, bool colour);

/// The same as JSON with `schema_version`; `files` are the paths written.
std::string lecture_json(const Lecture& lecture, std::string_view only,
                         const std::vector<std::string>& files);

}  // namespace headproof
