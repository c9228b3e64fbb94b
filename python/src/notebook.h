// HTML for a cell of a notebook.
#pragma once

#include <string>
#include <string_view>

namespace headproof::python {

/// A whole page in a frame of its own, isolated from the notebook: its scripts run (if `scripted`),
/// but see nothing outside.
std::string in_frame(std::string_view page, std::string_view height, bool scripted);

}  // namespace headproof::python
