// The lecture's five pictures.
#pragma once

#include <string>
#include <vector>

#include "headproof/pictures.h"
#include "lecture/lecture.h"

namespace headproof {

/// A picture's file name without ending, and its bytes in one format.
struct DrawnPicture {
  std::string name;
  PictureFormat format;
  std::string bytes;
};

/// five_seeds, kernels, lemma_4_5, singular_values and stages in each of the formats, each drawn by
/// a thread of its own.
Result<std::vector<DrawnPicture>> draw_lecture_pictures(const Lecture& lecture,
                                                        const std::vector<PictureFormat>& formats);

}  // namespace headproof
