// Numbers as a subject's dtype holds them.
#pragma once

#include "headproof/attention_subject.h"

namespace headproof {

/// The nearest number that the dtype represents.
float rounded(float value, Dtype dtype);

}  // namespace headproof
