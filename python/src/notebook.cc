#include "notebook.h"

namespace headproof::python {

std::string in_frame(std::string_view page, std::string_view height, bool scripted) {
  std::string html = "<iframe sandbox=\"" + std::string(scripted ? "allow-scripts" : "") +
                     "\" style=\"width: 100%; height: " + std::string(height) +
                     "; border: 0\" srcdoc=\"";
  for (const char letter : page) {
    if (letter == '&') {
      html += "&amp;";
    } else if (letter == '"') {
      html += "&quot;";
    } else {
      html += letter;
    }
  }
  return html + "\"></iframe>";
}

}  // namespace headproof::python
