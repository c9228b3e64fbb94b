// The process that a shared library is loaded into.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace headproof {

/// "./libmine.so:symbol" as path and symbol; the symbol is headproof_subject where none is named.
std::pair<std::string, std::string> library_and_symbol(std::string_view name);

/// Loads the library and answers questions about its subject over stdin and stdout until stdin
/// ends; what the library prints to stdout goes to stderr. Returns the exit code.
int serve_library(std::string_view name);

}  // namespace headproof
