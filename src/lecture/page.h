// The lecture as one self-contained page.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lecture/lecture.h"

namespace headproof {

/// One HTML file that loads nothing: sections, results, pictures, and what a reader can turn.
/// `pictures` are (name, PNG bytes); five_seeds, kernels, lemma_4_5, singular_values and stages
/// have their places. The same lecture and pictures give the same bytes.
std::string lecture_page(const Lecture& lecture,
                         const std::vector<std::pair<std::string, std::string>>& pictures);

}  // namespace headproof
