// What the caller knows of a subject, compared with what was found.
#pragma once

#include "headproof/check.h"

namespace headproof {

/// Says whether the theorem gates, and turns a known violation into an expected one.
void apply_expectations(TheoremReport& theorem, const CheckOptions& options);

/// The same for each theorem, and adds an entry to `report.theorems` for each convention that was
/// expected.
void compare_with_expectations(Report& report, const CheckOptions& options);

}  // namespace headproof
