#include "pictures/explorer_page.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <functional>

#include "headproof/pictures.h"

namespace headproof {

extern const std::string_view explorer_html;

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string encoded;
  encoded.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      group = group << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      encoded += i <= count ? digits[group >> (18 - 6 * i) & 63] : '=';
    }
  }
  return encoded;
}

std::string json_string(std::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || c == '"' || c == '\\' || c == '<') {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(byte));
      json += buffer;
    } else {
      json += c;
    }
  }
  return json + "\"";
}

namespace {

/// `html` with each {{name}} replaced by `value(name)`, which is not looked at again.
std::string fill(std::string_view html, const std::function<std::string(std::string_view)>& value) {
  std::string filled;
  for (;;) {
    const std::size_t open = html.find("{{");
    filled += html.substr(0, open);
    if (open == html.npos) return filled;
    const std::size_t close = html.find("}}", open);
    filled += value(html.substr(open + 2, close - open - 2));
    html.remove_prefix(close + 2);
  }
}

std::string json_list(const std::vector<std::string>& texts) {
  std::string json;
  for (const std::string& text : texts) json += (json.empty() ? "" : ",") + json_string(text);
  return "[" + json + "]";
}

/// The given labels, or numbers.
std::vector<std::string> labels_of(const std::vector<std::string>& given, Index count) {
  if (!given.empty()) return given;
  std::vector<std::string> numbers;
  for (Index i = 0; i < count; ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

/// Whether no query of any head reads a key beyond its own position, the last query standing at the
/// last key.
bool is_causal(const View<const float, 4>& A) {
  const Index shift = A.shape[3] - A.shape[2];
  if (shift < 0 || A.shape[3] < 2) return false;
  for (Index layer = 0; layer < A.shape[0]; ++layer) {
    for (Index head = 0; head < A.shape[1]; ++head) {
      for (Index i = 0; i < A.shape[2]; ++i) {
        for (Index j = i + shift + 1; j < A.shape[3]; ++j) {
          if (A(layer, head, i, j) != 0) return false;
        }
      }
    }
  }
  return true;
}

std::optional<Error> explorer_error(const Explorer& explorer) {
  const char* const names[] = {"layers", "heads", "queries", "keys"};
  const std::vector<std::string>* const labels[] = {&explorer.layer_names, &explorer.head_names,
                                                    &explorer.query_labels, &explorer.key_labels};
  for (std::size_t axis = 0; axis < 4; ++axis) {
    const Index extent = explorer.A.shape[axis];
    if (extent < 1) return Error{std::string("there are no ") + names[axis] + " to explore"};
    if (!labels[axis]->empty() && static_cast<Index>(labels[axis]->size()) != extent) {
      return Error{"there are " + std::to_string(extent) + " " + names[axis] + " and " +
                   std::to_string(labels[axis]->size()) + " labels for them"};
    }
  }
  // What a browser opens without pain, and what a notebook keeps.
  constexpr Index most = Index{1} << 24;
  if (explorer.A.size() <= most) return std::nullopt;
  return Error{std::to_string(explorer.A.size()) + " weights are more than the " +
               std::to_string(most) + " that a page holds; choose fewer layers or heads"};
}

}  // namespace

Result<std::string> explorer_page(const Explorer& explorer) {
  static_assert(std::endian::native == std::endian::little, "the page's numbers are so");
  if (auto error = explorer_error(explorer)) return *error;
  const View<const float, 4>& A = explorer.A;
  const Tensor<float, 4> dense(A);
  const std::string_view bytes(reinterpret_cast<const char*>(dense.data()),
                               static_cast<std::size_t>(dense.size()) * sizeof(float));
  const std::string data =
      "{\"title\":" + json_string(explorer.title) +
      ",\"layers\":" + json_list(labels_of(explorer.layer_names, A.shape[0])) +
      ",\"heads\":" + json_list(labels_of(explorer.head_names, A.shape[1])) +
      ",\"queries\":" + json_list(labels_of(explorer.query_labels, A.shape[2])) +
      ",\"keys\":" + json_list(labels_of(explorer.key_labels, A.shape[3])) +
      ",\"causal\":" + (is_causal(A) ? "true" : "false") + ",\"A\":\"" + base64(bytes) + "\"}";
  return fill(explorer_html, [&](std::string_view name) {
    if (name == "css") return std::string(explorer_css);
    if (name == "js") return std::string(explorer_js);
    return data;
  });
}

}  // namespace headproof
