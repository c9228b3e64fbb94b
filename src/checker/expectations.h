// What the caller knows of a subject, compared with what was found.
#pragma once

#include "headproof/check.h"

namespace headproof {

/// Says of each theorem whether it gates, turns known violations into expected ones, and adds an
/// entry to `report.theorems` for each convention that was expected.
void compare_with_expectations(Report& report, const CheckOptions& options);

}  // namespace headproof
