// Anything at all as a line of the protocol with bytes behind it. The first byte chooses the side:
// what a subject may write, or what a library's process may be asked.

#include "subjects/protocol.h"

#include <cstdlib>

namespace {

using namespace headproof;  // NOLINT

void hello(std::string_view text) {
  const auto read = parse_hello(Line(text));
  if (!read) return;
  // What was understood is said in a way that is understood in the same way.
  const std::string said = format_hello(*read);
  const auto again = parse_hello(Line(said));
  if (!again || format_hello(*again) != said) std::abort();
}

void question(std::string_view text, const Domain& domain) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view payload = text.substr(std::min(end + 1, text.size()));
  const Line line(text.substr(0, end));
  (void)bytes_that_follow(line);
  const auto read = parse_question(line, payload, domain);
  if (!read) return;
  const std::string said = format_question(*read, domain);
  const std::size_t said_end = said.find('\n');
  const Line said_line(std::string_view(said).substr(0, said_end));
  const std::string_view said_payload = std::string_view(said).substr(said_end + 1);
  if (*bytes_that_follow(said_line) != static_cast<Index>(said_payload.size())) std::abort();
  const auto again = parse_question(said_line, said_payload, domain);
  if (!again || format_question(*again, domain) != said) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'h') {
    hello(text);
  } else {
    Domain domain;
    domain.dtype = data[0] == 'd' ? Dtype::float64 : Dtype::float32;
    domain.layout = data[0] == 'b' ? Layout::bshd : Layout::bhsd;
    question(text, domain);
  }
  return 0;
}
