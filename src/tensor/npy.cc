// Source of the format: numpy.lib.format, "NPY format" in NumPy's reference.
#include "headproof/npy.h"

#include <charconv>
#include <limits>
#include <numeric>
#include <optional>

#include "headproof/files.h"
#include "tensor/elements.h"

namespace headproof {
namespace {

constexpr std::string_view magic = "\x93NUMPY";

struct Header {
  ElementType type;
  bool fortran_order;
  std::vector<Index> shape;
};

/// Reads the header's Python literal, such as
/// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }. A member without a value has failed
/// and left its reason and place in `error`.
class HeaderParser {
 public:
  /// `offset` is the place of `text` in the file, for the errors.
  HeaderParser(std::string_view text, std::size_t offset) : text_(text), offset_(offset) {}

  std::optional<Header> parse() {
    std::optional<ElementType> type;
    std::optional<bool> fortran_order;
    std::optional<std::vector<Index>> shape;
    if (!expect('{')) return std::nullopt;
    while (!accept('}')) {
      const std::optional<std::string_view> key = quoted();
      if (!key || !expect(':')) return std::nullopt;
      if (*key == "descr" && !type) {
        type = parse_type();
        if (!type) return std::nullopt;
      } else if (*key == "fortran_order" && !fortran_order) {
        fortran_order = parse_order();
        if (!fortran_order) return std::nullopt;
      } else if (*key == "shape" && !shape) {
        shape = parse_shape();
        if (!shape) return std::nullopt;
      } else {
        return fail("the key before is not 'descr', 'fortran_order' or 'shape', or occurs twice");
      }
      if (!accept(',')) {
        if (!expect('}')) return std::nullopt;
        break;
      }
    }
    if (!type || !fortran_order || !shape) {
      return fail("the header lacks one of the keys 'descr', 'fortran_order' and 'shape'");
    }
    skip_space();
    if (at_ != text_.size()) return fail("the header goes on after its closing brace");
    return Header{*type, *fortran_order, *std::move(shape)};
  }

  const std::string& error() const { return error_; }

 private:
  std::nullopt_t fail(std::string_view what) {
    if (error_.empty()) {
      error_ = std::string(what) + " (byte " + std::to_string(offset_ + at_) + ")";
    }
    return std::nullopt;
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\n\r\f").find(text_[at_]) != text_.npos)
      ++at_;
  }

  bool accept(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool expect(char c) {
    if (accept(c)) return true;
    fail(std::string("'") + c + "' was expected in the header");
    return false;
  }

  bool accept_word(std::string_view word) {
    skip_space();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  std::optional<std::string_view> quoted() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') return fail("a quoted string was expected in the header");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) return fail("a quoted string in the header does not end");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inside;
  }

  std::optional<ElementType> parse_type() {
    const std::optional<std::string_view> text = quoted();
    if (!text) return std::nullopt;
    if (text->size() == 3) {
      const char order = (*text)[0], kind = (*text)[1];
      const Index size = (*text)[2] - '0';
      const bool power = size == 1 || size == 2 || size == 4 || size == 8;
      if (power && (order == '<' || order == '>' || (order == '|' && size == 1))) {
        const bool big_endian = order == '>';
        if (kind == 'b' && size == 1) return ElementType{ElementKind::boolean, 1};
        if (kind == 'i') return ElementType{ElementKind::signed_integer, size, big_endian};
        if (kind == 'u') return ElementType{ElementKind::unsigned_integer, size, big_endian};
        if (kind == 'f' && size > 1) return ElementType{ElementKind::floating, size, big_endian};
      }
    }
    return fail(
        "elements of the type before are not read; b1, i1 to i8, u1 to u8, f2, f4 and f8 "
        "after '<' or '>' are");
  }

  std::optional<bool> parse_order() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    return fail("True or False was expected after 'fortran_order'");
  }

  std::optional<std::vector<Index>> parse_shape() {
    if (!expect('(')) return std::nullopt;
    std::vector<Index> shape;
    bool comma = true;
    while (!accept(')')) {
      skip_space();
      Index extent = 0;
      const char* first = text_.data() + at_;
      const auto [end, problem] = std::from_chars(first, text_.data() + text_.size(), extent);
      if (!comma || problem != std::errc() || extent < 0) {
        return fail("'shape' is not a tuple of extents from 0 to " +
                    std::to_string(std::numeric_limits<Index>::max()));
      }
      at_ += static_cast<std::size_t>(end - first);
      accept('L');  // Python 2 wrote long integers as 3L.
      shape.push_back(extent);
      comma = accept(',');
    }
    if (shape.size() == 1 && !comma) return fail("a tuple of one extent is written (n,)");
    return shape;
  }

  std::string_view text_;
  std::size_t offset_, at_ = 0;
  std::string error_;
};

/// The values of a Fortran-ordered file (first axis fastest) in row-major order.
template <class T>
std::vector<T> to_row_major(const std::vector<T>& values, const std::vector<Index>& shape) {
  std::vector<Index> steps(shape.size());
  std::exclusive_scan(shape.begin(), shape.end(), steps.begin(), Index{1}, std::multiplies<>());
  std::vector<Index> at(shape.size());
  std::vector<T> ordered;
  ordered.reserve(values.size());
  while (ordered.size() < values.size()) {
    const Index from = std::inner_product(at.begin(), at.end(), steps.begin(), Index{0});
    ordered.push_back(values[static_cast<std::size_t>(from)]);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      if (++at[axis] < shape[axis]) break;
      at[axis] = 0;
    }
  }
  return ordered;
}

std::string shape_text(const std::vector<Index>& shape) {
  std::string text = "(";
  for (Index extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace

Result<Array> read_npy(const std::filesystem::path& file) {
  const Result<std::string> bytes = read_file(file);
  if (!bytes) return bytes.error();
  return parse_npy(*bytes, file.string());
}

Result<Array> parse_npy(std::string_view bytes, std::string_view name) {
  const auto refuse = [name](const std::string& why) {
    return Error{"cannot read " + std::string(name) + " as .npy: " + why};
  };
  if (bytes.substr(0, magic.size()) != magic) {
    return refuse("it does not begin with the bytes \\x93NUMPY");
  }
  if (bytes.size() < magic.size() + 2) return refuse("it ends before its version number");
  const int major = static_cast<unsigned char>(bytes[6]);
  const int minor = static_cast<unsigned char>(bytes[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return refuse("its format version is " + std::to_string(major) + "." + std::to_string(minor) +
                  "; versions 1.0, 2.0 and 3.0 are read");
  }
  const std::size_t length_size = major == 1 ? 2 : 4, header_start = magic.size() + 2 + length_size;
  if (bytes.size() < header_start) return refuse("it ends before the length of its header");
  std::size_t header_length = 0;
  for (std::size_t i = header_start; i-- > header_start - length_size;) {
    header_length = header_length << 8 | static_cast<unsigned char>(bytes[i]);
  }
  if (header_length > bytes.size() - header_start) {
    return refuse("its header should have " + std::to_string(header_length) +
                  " bytes, but the file ends " + std::to_string(bytes.size() - header_start) +
                  " bytes after the header's start");
  }
  HeaderParser parser(bytes.substr(header_start, header_length), header_start);
  const std::optional<Header> header = parser.parse();
  if (!header) return refuse(parser.error());
  const std::optional<Index> count = count_elements(header->shape);
  if (!count) {
    return refuse("its shape has more than 64 axes or more elements than 64 bits can count");
  }
  const std::string_view data = bytes.substr(header_start + header_length);
  if (data.size() != static_cast<std::size_t>(*count * header->type.size)) {
    return refuse("shape " + shape_text(header->shape) + " takes " +
                  std::to_string(*count * header->type.size) + " bytes of data, but " +
                  std::to_string(data.size()) + " follow the header");
  }
  Result<decltype(Array::values)> values = decode_elements(data, header->type);
  if (!values) return refuse(values.error().message);
  Array array;
  array.shape = header->shape;
  array.values = std::move(*values);
  if (header->fortran_order) {
    std::visit([&](auto& numbers) { numbers = to_row_major(numbers, header->shape); },
               array.values);
  }
  return array;
}

std::string format_npy(const Array& array) {
  constexpr std::array<std::string_view, 3> descriptions{"<f4", "<f8", "<i8"};
  std::string header = "{'descr': '" + std::string(descriptions[array.values.index()]) +
                       "', 'fortran_order': False, 'shape': " + shape_text(array.shape) + ", }";
  // NumPy leaves room in which the first extent may grow to 21 digits in place.
  constexpr std::size_t extent_digits = 21;
  if (!array.shape.empty()) {
    header.append(extent_digits - std::to_string(array.shape[0]).size(), ' ');
  }
  // At least one space, then the newline that ends the header at a multiple of 64 bytes.
  const std::size_t prefix = magic.size() + 2 + 2;
  header.append(64 - (prefix + header.size() + 1) % 64, ' ');
  header += '\n';
  std::string bytes(magic);
  bytes += {'\x01', '\x00', static_cast<char>(header.size() & 0xFF),
            static_cast<char>(header.size() >> 8)};
  return bytes + header + encode_elements(array.values);
}

}  // namespace headproof
