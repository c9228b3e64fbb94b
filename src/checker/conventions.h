// The conventions by their names: what each of their values means, and which may be expected.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headproof/check.h"

namespace headproof {

/// One convention as it was found: `value` is empty when it was not found out.
struct ConventionFound {
  std::string key, value;
  std::string gloss;  ///< what the value means, in a few words
  bool bitwise = false;
};

/// All conventions in the order in which they are told, bitwise ones last ("bitwise.batch").
std::vector<ConventionFound> conventions_found(const Conventions& conventions);

/// Why KEY=VALUE cannot be expected, in a sentence that lists what can; nothing when it can.
std::optional<std::string> expectation_error(std::string_view key, std::string_view value);

/// Whether a convention that was found is the expected one.
bool meets_expectation(const ConventionFound& found, std::string_view expected);

}  // namespace headproof
