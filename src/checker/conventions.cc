#include "checker/conventions.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "theorems/findings.h"

namespace headproof {
namespace {

struct Meaning {
  std::string_view value, gloss;
};

struct Convention {
  std::string_view key;
  std::string Conventions::*member;
  std::vector<Meaning> meanings;
};

const std::vector<Convention>& all() {
  static const std::vector<Convention> list = {
      {"corner",
       &Conventions::corner,
       {{"top_left", "query i sees keys 0 to i, however many keys there are"},
        {"bottom_right", "the last query sees every key"},
        {"as_asked", "top left or bottom right, as the caller asks"}}},
      {"padding_corner",
       &Conventions::padding_corner,
       {{"unpadded", "the last query stands at the last key that is no padding"},
        {"padded", "the last query stands at the last key of all, padding too"}}},
      {"scale",
       &Conventions::scale,
       {{"1/sqrt(head_dim)", "what scores are multiplied by when no scale is given"}}},
      {"empty_row",
       &Conventions::empty_row,
       {{"zero", "a query that may see no key gets zeros"},
        {"nan", "a query that may see no key gets NaN"},
        {"mean_of_values", "a query that may see no key gets the mean of all values"}}},
      {"mask_true",
       &Conventions::mask_true,
       {{"may_attend", "true in a mask lets the query see the key"},
        {"masked", "true in a mask hides the key"}}},
      {"softcap_order",
       &Conventions::softcap_order,
       {{"before_mask", "scores are capped, then a bias is added"},
        {"after_mask", "a bias is added, then the sum is capped"}}},
      {"kv_map",
       &Conventions::kv_map,
       {{"grouped", "query head h reads key head h / (num_heads / num_kv_heads)"},
        {"tiled", "query head h reads key head h % num_kv_heads"}}},
      {"window_counts_self",
       &Conventions::window_counts_self,
       {{"yes", "a window of w is the query's own key and w - 1 before it"},
        {"no", "a window of w is the query's own key and w before it"}}},
      {"nan_policy",
       &Conventions::nan_policy,
       {{"propagates", "a NaN that a query may see shows in its row"},
        {"hides", "a NaN that a query may see does not show"}}},
      {"lse_base",
       &Conventions::lse_base,
       {{"e", "lse is a natural logarithm"}, {"2", "lse is a logarithm to base 2"}}},
  };
  return list;
}

constexpr std::pair<std::string_view, std::string_view> bitwise_meanings[] = {
    {"determinism", "the same call again"},
    {"threads", "with another number of threads"},
    {"batch", "whatever else is in the batch"},
    {"prefix", "whatever follows in the sequence"},
    {"decode", "one query after the other"}};

constexpr std::string_view bitwise_prefix = "bitwise.";

std::string gloss_of(const Convention& convention, const std::string& value) {
  for (const Meaning& meaning : convention.meanings) {
    if (meaning.value == value) return std::string(meaning.gloss);
  }
  if (value.empty()) return "";
  return convention.key == "scale" && value != "other"
             ? "what scores seem to be multiplied by when no scale is given"
             : "not as any convention has it";
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::vector<ConventionFound> conventions_found(const Conventions& conventions) {
  std::vector<ConventionFound> found;
  for (const Convention& convention : all()) {
    const std::string& value = conventions.*convention.member;
    found.push_back({std::string(convention.key), value, gloss_of(convention, value), false});
  }
  for (const auto& [name, gloss] : bitwise_meanings) {
    const auto at = conventions.bitwise.find(std::string(name));
    ConventionFound entry{std::string(bitwise_prefix) + std::string(name), "", "", true};
    if (at != conventions.bitwise.end()) {
      entry.value = at->second;
      entry.gloss =
          (at->second == "holds" ? "the same bits: " : "other bits: ") + std::string(gloss);
    }
    found.push_back(std::move(entry));
  }
  return found;
}

std::optional<std::string> expectation_error(std::string_view key, std::string_view value) {
  std::string keys, values;
  for (const Convention& convention : all()) {
    keys += " " + std::string(convention.key);
    if (convention.key != key) continue;
    for (const Meaning& meaning : convention.meanings) {
      if (meaning.value == value) return std::nullopt;
      values += " " + std::string(meaning.value);
    }
    if (key == "scale") {
      if (parse_number(value)) return std::nullopt;
      values += " or a number";
    }
  }
  for (const auto& [name, gloss] : bitwise_meanings) {
    const std::string full = std::string(bitwise_prefix) + std::string(name);
    keys += " " + full;
    if (full != key) continue;
    if (value == "holds" || value == "differs") return std::nullopt;
    values = " holds differs";
  }
  if (values.empty()) {
    return "there is no convention " + std::string(key) + "; there are" + keys;
  }
  return std::string(key) + " is never " + std::string(value) + "; it may be" + values;
}

bool meets_expectation(const ConventionFound& found, std::string_view expected) {
  if (found.value == expected) return true;
  // A scale that was measured has the digits that were told, and the head_dim that it was seen at.
  const auto wanted = found.key == "scale" ? parse_number(expected) : std::nullopt;
  return wanted && found.value.substr(0, found.value.find(' ')) == number(*wanted);
}

}  // namespace headproof
