// Source of the format: github.com/huggingface/safetensors, "Format".
#include "headproof/safetensors.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "headproof/files.h"
#include "tensor/elements.h"

namespace headproof {
namespace {

using nlohmann::json;

constexpr std::size_t length_size = 8;  // The bytes that hold the header's length.

struct NamedType {
  std::string_view name;
  ElementType type;
};
constexpr std::array<NamedType, 13> element_types{{{"BOOL", {ElementKind::boolean, 1}},
                                                   {"I8", {ElementKind::signed_integer, 1}},
                                                   {"I16", {ElementKind::signed_integer, 2}},
                                                   {"I32", {ElementKind::signed_integer, 4}},
                                                   {"I64", {ElementKind::signed_integer, 8}},
                                                   {"U8", {ElementKind::unsigned_integer, 1}},
                                                   {"U16", {ElementKind::unsigned_integer, 2}},
                                                   {"U32", {ElementKind::unsigned_integer, 4}},
                                                   {"U64", {ElementKind::unsigned_integer, 8}},
                                                   {"F16", {ElementKind::floating, 2}},
                                                   {"BF16", {ElementKind::brain_floating, 2}},
                                                   {"F32", {ElementKind::floating, 4}},
                                                   {"F64", {ElementKind::floating, 8}}}};

/// One tensor of the header; `begin` and `end` count from the end of the header.
struct Entry {
  std::string name;
  ElementType type;
  std::vector<Index> shape;
  std::uint64_t begin, end;
};

/// A name as an error shows it: in quotes, whatever it contains.
std::string shown(const std::string& name) { return json(name).dump(); }

/// The header as JSON in which no object holds a name twice.
Result<json> parse_header(std::string_view text) {
  // The parser would skip a byte order mark and stop at a zero byte; the format allows neither.
  if (text.empty() || text[0] != '{') return Error{"its header does not begin with '{'"};
  if (const std::size_t zero = text.find('\0'); zero != text.npos) {
    return Error{"byte " + std::to_string(length_size + zero) +
                 " of its header is zero; a header is padded with spaces"};
  }
  std::optional<std::string> twice;
  std::vector<std::set<std::string>> open_objects;
  const auto watch = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) open_objects.pop_back();
    if (event == json::parse_event_t::key &&
        !open_objects.back().insert(value.get<std::string>()).second) {
      twice = value.get<std::string>();
    }
    return true;
  };
  try {
    json header = json::parse(text, watch);
    if (twice) return Error{"the name " + shown(*twice) + " occurs twice in its header"};
    return header;
  } catch (const json::parse_error& error) {
    return Error{"its header is not JSON at byte " + std::to_string(length_size + error.byte - 1)};
  }
}

std::optional<std::vector<Index>> parse_shape(const json& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<Index> shape;
  for (const json& extent : value) {
    if (!extent.is_number_unsigned()) return std::nullopt;
    // An extent of 2^63 or more turns negative here, which count_elements refuses.
    shape.push_back(static_cast<Index>(extent.get<std::uint64_t>()));
  }
  return shape;
}

/// The description of one tensor, checked against the number of data bytes in the file.
Result<Entry> parse_entry(const std::string& name, const json& value, std::uint64_t data_size) {
  const auto refuse = [&name](const std::string& why) {
    return Error{"tensor " + shown(name) + " " + why};
  };
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets")) {
    return refuse("is not described by dtype, shape and data_offsets");
  }
  const json& dtype = value["dtype"];
  const auto type = std::find_if(element_types.begin(), element_types.end(),
                                 [&](const NamedType& known) { return dtype == known.name; });
  if (type == element_types.end()) {
    return refuse(
        "has a dtype that is not read; BOOL, I8 to I64, U8 to U64, F16, BF16, F32 and "
        "F64 are");
  }
  const std::optional<std::vector<Index>> shape = parse_shape(value["shape"]);
  const std::optional<Index> count = shape ? count_elements(*shape) : std::nullopt;
  if (!count) {
    return refuse(
        "has a shape that is not a list of at most 64 extents whose product 64 bits hold");
  }
  const json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    return refuse("has data_offsets that are not two integers from 0");
  }
  const auto begin = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
  if (begin > end || end > data_size) {
    return refuse("claims bytes " + std::to_string(begin) + " to " + std::to_string(end) +
                  " of the data, which has " + std::to_string(data_size));
  }
  const auto needed = static_cast<std::uint64_t>(*count * type->type.size);
  if (end - begin != needed) {
    return refuse("claims " + std::to_string(end - begin) +
                  " bytes, but its shape and dtype take " + std::to_string(needed));
  }
  return Entry{name, type->type, *shape, begin, end};
}

}  // namespace

Result<NamedArrays> read_safetensors(const std::filesystem::path& file) {
  const Result<std::string> bytes = read_file(file);
  if (!bytes) return bytes.error();
  return parse_safetensors(*bytes, file.string());
}

Result<NamedArrays> parse_safetensors(std::string_view bytes, std::string_view name) {
  const auto refuse = [name](const std::string& why) {
    return Error{"cannot read " + std::string(name) + " as .safetensors: " + why};
  };
  if (bytes.size() < length_size) {
    return refuse("it has " + std::to_string(bytes.size()) +
                  " bytes, fewer than the 8 of the header's length");
  }
  std::uint64_t header_size = 0;
  for (std::size_t i = length_size; i-- > 0;) {
    header_size = header_size << 8 | static_cast<unsigned char>(bytes[i]);
  }
  if (header_size > bytes.size() - length_size) {
    return refuse("its header should have " + std::to_string(header_size) + " bytes, but only " +
                  std::to_string(bytes.size() - length_size) + " follow");
  }
  const Result<json> header = parse_header(bytes.substr(length_size, header_size));
  if (!header) return refuse(header.error().message);
  const std::string_view data = bytes.substr(length_size + header_size);

  std::vector<Entry> entries;
  for (const auto& [key, value] : header->items()) {
    if (key == "__metadata__") continue;
    Result<Entry> entry = parse_entry(key, value, data.size());
    if (!entry) return refuse(entry.error().message);
    entries.push_back(std::move(*entry));
  }
  // In the order of their bytes, each tensor begins where the one before ends.
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  std::uint64_t at = 0;
  NamedArrays arrays;
  for (const Entry& entry : entries) {
    if (entry.begin != at) {
      return refuse(
          "tensor " + shown(entry.name) + " begins at byte " + std::to_string(entry.begin) +
          " of the data, where byte " + std::to_string(at) +
          " is the next free one: " + (entry.begin < at ? "tensors overlap" : "there is a hole"));
    }
    at = entry.end;
    Result<decltype(Array::values)> values =
        decode_elements(data.substr(entry.begin, entry.end - entry.begin), entry.type);
    if (!values) return refuse("tensor " + shown(entry.name) + ": " + values.error().message);
    Array& array = arrays[entry.name];
    array.shape = entry.shape;
    array.values = std::move(*values);
  }
  if (at != data.size()) {
    return refuse("the last " + std::to_string(data.size() - at) +
                  " bytes of the data belong to no tensor");
  }
  return arrays;
}

std::string format_safetensors(const NamedArrays& arrays) {
  constexpr std::array<std::string_view, 3> dtypes{"F32", "F64", "I64"};
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::string data;
  // As the format's own writer does: wide elements first, so that every tensor begins at a multiple
  // of its element's size.
  for (const std::size_t kind : {2U, 1U, 0U}) {
    for (const auto& [name, array] : arrays) {
      if (array.values.index() != kind) continue;
      const std::size_t begin = data.size();
      data += encode_elements(array.values);
      header[name] = {
          {"dtype", dtypes[kind]}, {"shape", array.shape}, {"data_offsets", {begin, data.size()}}};
    }
  }
  // A name that is not UTF-8 cannot be JSON: its broken bytes become U+FFFD.
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.append((length_size - text.size() % length_size) % length_size, ' ');
  const std::vector<Index> size{static_cast<Index>(text.size())};
  return encode_elements(size) + text + data;
}

}  // namespace headproof
