// headproof serve-library: the process that the checker loads a shared library into. Not for
// people: it speaks the protocol of docs/subjects.md on stdin and stdout.

#include <memory>
#include <string>

#include "command.h"
#include "subjects/library_host.h"

namespace headproof::cli {

void add_serve_library(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("serve-library", "for the checker's own use");
  verb->group("");  // not listed
  auto name = std::make_shared<std::string>();
  verb->add_option("LIBRARY", *name)->required();
  verb->callback([name, &exit_code] { exit_code = serve_library(*name); });
}

}  // namespace headproof::cli
