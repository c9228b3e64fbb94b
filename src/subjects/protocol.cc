#include "subjects/protocol.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>

namespace headproof {

static_assert(std::endian::native == std::endian::little, "the protocol's numbers are so");

namespace {

constexpr Index most = Index{1} << 40;

using Shape = std::array<Index, 4>;

/// Calls `take` with each part of `text` between `separator`s, those that are empty left out.
template <class Take>
void split(std::string_view text, char separator, Take&& take) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) take(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

template <class T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return value;
}

Error wrong(std::string_view key, std::string_view value, const std::string& must) {
  return Error{"has " + std::string(key) + "=" + in_one_line(value) + "; it must be " + must};
}

std::string exact(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

std::string token(std::string_view key, std::string_view value) {
  return " " + std::string(key) + "=" + std::string(value);
}
std::string token(std::string_view key, Index value) { return token(key, std::to_string(value)); }

std::string joined(const Shape& shape) {
  std::string text;
  for (Index extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

/// The elements of `count` numbers; nothing when they are too many to be meant.
std::optional<Index> elements(std::initializer_list<Index> shape) {
  Index count = 1;
  for (Index extent : shape) {
    if (extent > most || (extent > 0 && count > most / extent)) return std::nullopt;
    count *= extent;
  }
  return count;
}

Index number_size(Dtype dtype) { return dtype == Dtype::float64 ? 8 : 4; }

/// The view's elements in the order in which they go over the pipe.
template <class T>
View<T, 4> in_order(View<T, 4> view, Layout layout) {
  return layout == Layout::bhsd ? view : view.transposed(1, 2);
}

template <class Number, class T, std::size_t Rank>
void put(std::string& bytes, View<const T, Rank> view) {
  std::size_t at = bytes.size();
  bytes.resize(at + static_cast<std::size_t>(view.size()) * sizeof(Number));
  view.for_each([&](const T& value) {
    const auto number = static_cast<Number>(value);
    std::memcpy(bytes.data() + at, &number, sizeof number);
    at += sizeof number;
  });
}

template <class Number, class T, std::size_t Rank>
void take(std::string_view& bytes, View<T, Rank> view) {
  const char* at = bytes.data();
  view.for_each([&](T& value) {
    Number number{};
    std::memcpy(&number, at, sizeof number);
    value = static_cast<T>(number);
    at += sizeof number;
  });
  bytes.remove_prefix(static_cast<std::size_t>(view.size()) * sizeof(Number));
}

/// Numbers of the dtype: float64 ones, or float32 for all others.
template <class T, std::size_t Rank>
void put_numbers(std::string& bytes, View<const T, Rank> view, Dtype dtype) {
  dtype == Dtype::float64 ? put<double>(bytes, view) : put<float>(bytes, view);
}
template <class T, std::size_t Rank>
void take_numbers(std::string_view& bytes, View<T, Rank> view, Dtype dtype) {
  dtype == Dtype::float64 ? take<double>(bytes, view) : take<float>(bytes, view);
}

template <class T>
void put_tensor(std::string& bytes, const Tensor<T, 4>& tensor, const Domain& domain) {
  put_numbers(bytes, in_order(tensor.view(), domain.layout), domain.dtype);
}
template <class T>
Tensor<T, 4> take_tensor(std::string_view& bytes, const Shape& shape, const Domain& domain) {
  Tensor<T, 4> tensor(shape);
  take_numbers(bytes, in_order(tensor.view(), domain.layout), domain.dtype);
  return tensor;
}

constexpr std::array<std::string_view, 3> causal_names = {"none", "top_left", "bottom_right"};

}  // namespace

Line::Line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  const std::size_t end = std::min(text.find(' '), text.size());
  word_ = text.substr(0, end);
  rest_ = text.substr(std::min(end + 1, text.size()));
  split(rest_, ' ', [this](std::string_view part) {
    const std::size_t equals = part.find('=');
    tokens_.emplace_back(part.substr(0, equals),
                         equals == part.npos ? std::string_view() : part.substr(equals + 1));
  });
}

std::optional<std::string_view> Line::find(std::string_view key) const {
  for (const auto& [name, value] : tokens_) {
    if (name == key) return value;
  }
  return std::nullopt;
}

Result<Index> Line::number(std::string_view key, Index otherwise, Index lowest) const {
  const auto value = find(key);
  if (!value) return otherwise;
  const auto read = number_in<Index>(*value);
  if (!read || *read < lowest || *read > most) {
    return wrong(key, *value, "a whole number from " + std::to_string(lowest) + " on");
  }
  return *read;
}

std::optional<std::string_view> Line::unknown(std::initializer_list<std::string_view> keys) const {
  for (const auto& [name, value] : tokens_) {
    if (std::find(keys.begin(), keys.end(), name) == keys.end()) return name;
  }
  return std::nullopt;
}

std::string in_one_line(std::string_view text) {
  constexpr std::size_t longest = 300;
  std::string line;
  for (char letter : text.substr(0, longest)) {
    const bool printable = letter >= ' ' && letter <= '~';
    line += letter == '\n' || letter == '\t' ? ' ' : printable ? letter : '?';
  }
  return text.size() > longest ? line + "..." : line;
}

std::string format_hello(const Hello& hello) {
  const Domain& domain = hello.domain;
  std::string line = "ok" + token("protocol", protocol_version);
  if (!hello.name.empty()) {
    std::string name = in_one_line(hello.name);
    std::replace(name.begin(), name.end(), ' ', '_');
    line += token("name", name);
  }
  if (hello.whole_head) line += token("kind", "head");
  line += token("dtype", name_of(domain.dtype)) + token("layout", name_of(domain.layout));
  std::string list;
  for (Index dim : domain.head_dims) list += (list.empty() ? "" : ",") + std::to_string(dim);
  if (!list.empty()) line += token("head_dims", list);
  line += token("length_multiple", domain.length_multiple) + token("max_length", domain.max_length);
  list.clear();
  for (int at = 0; at < feature_count; ++at) {
    const auto feature = static_cast<Feature>(at);
    if (!domain.features.has(feature)) continue;
    list += (list.empty() ? "" : ",") + std::string(name_of(feature));
  }
  return line + token("features", list) + "\n";
}

Result<Hello> parse_hello(const Line& line) {
  if (const auto key = line.unknown({"protocol", "name", "kind", "dtype", "layout", "head_dims",
                                     "length_multiple", "max_length", "features"})) {
    return Error{"has '" + in_one_line(*key) +
                 "'; it knows protocol, name, kind, dtype, layout, head_dims, length_multiple, "
                 "max_length and features"};
  }
  const auto version = line.number("protocol", protocol_version);
  if (!version) return version.error();
  if (*version != protocol_version) {
    return Error{"speaks version " + std::to_string(*version) +
                 " of the protocol; this is version " + std::to_string(protocol_version)};
  }
  Hello hello;
  hello.name = in_one_line(line.find("name").value_or(""));
  const std::string_view kind = line.find("kind").value_or("attention");
  if (kind != "attention" && kind != "head") return wrong("kind", kind, "attention or head");
  hello.whole_head = kind == "head";
  Domain& domain = hello.domain;
  if (const auto value = line.find("dtype")) {
    const auto dtype = dtype_of(*value);
    if (!dtype) return wrong("dtype", *value, "float32, float64, float16 or bfloat16");
    domain.dtype = *dtype;
  }
  if (const auto value = line.find("layout")) {
    const auto layout = layout_of(*value);
    if (!layout) return wrong("layout", *value, "bhsd or bshd");
    domain.layout = *layout;
  }
  std::optional<Error> error;
  split(line.find("head_dims").value_or(""), ',', [&](std::string_view part) {
    const auto dim = number_in<Index>(part);
    if (dim && *dim > 0 && *dim <= most) {
      domain.head_dims.push_back(*dim);
    } else {
      error = wrong("head_dims", part, "whole numbers from 1 on with commas between them");
    }
  });
  const auto multiple = line.number("length_multiple", 1, 1);
  if (!multiple) return multiple.error();
  domain.length_multiple = *multiple;
  const auto longest = line.number("max_length", domain.max_length, 1);
  if (!longest) return longest.error();
  domain.max_length = *longest;
  // Plain attention, unless it says what it is.
  const std::string_view features = line.find("features").value_or("causal,batches,heads");
  split(features, ',', [&](std::string_view part) {
    if (const auto feature = feature_of(part)) {
      domain.features.set(*feature, true);
    } else {
      error = Error{"has the feature '" + in_one_line(part) +
                    "', which is none of those in docs/subjects.md"};
    }
  });
  if (error) return *error;
  if (!domain.features.has(Feature::causal) && !domain.features.has(Feature::non_causal)) {
    return Error{"offers neither causal nor non_causal"};
  }
  return hello;
}

std::string format_question(const AttentionProblem& p, const Domain& domain) {
  std::string line = "attend" + token("dtype", name_of(domain.dtype)) +
                     token("layout", name_of(domain.layout)) + token("batch", p.batch()) +
                     token("num_heads", p.num_heads()) + token("num_kv_heads", p.num_kv_heads()) +
                     token("seq_len_q", p.seq_len_q()) + token("seq_len_k", p.seq_len_k()) +
                     token("head_dim", p.head_dim()) + token("value_dim", p.value_dim()) +
                     token("causal", causal_names[static_cast<std::size_t>(p.causal)]);
  std::string payload;
  for (const auto* tensor : {&p.q, &p.k, &p.v}) put_tensor(payload, *tensor, domain);
  if (p.scale) line += token("scale", exact(*p.scale));
  if (p.query_offset) line += token("query_offset", *p.query_offset);
  if (p.window) line += token("window", *p.window);
  if (p.softcap != 0) line += token("softcap", exact(p.softcap));
  if (p.mask) {
    line += token("mask", joined(p.mask->shape()));
    put<unsigned char>(payload, p.mask->view());
  }
  if (p.bias) {
    line += token("bias", joined(p.bias->shape()));
    put_numbers(payload, p.bias->view(), domain.dtype);
  }
  if (!p.key_length.empty()) {
    line += token("key_length", 1);
    put<Index>(payload, View<const Index, 1>(p.key_length.data(),
                                             {static_cast<Index>(p.key_length.size())}));
  }
  if (p.threads > 0) line += token("threads", p.threads);
  if (p.strided) line += token("strided", p.strided_channels ? 2 : 1);
  if (p.decode) line += token("decode", 1);
  if (p.want_lse) line += token("lse", 1);
  if (p.want_weights) line += token("weights", 1);
  if (p.d_out) {
    line += token("backward", 1);
    put_tensor(payload, *p.d_out, domain);
  }
  return line + token("bytes", static_cast<Index>(payload.size())) + "\n" + payload;
}

std::string format_question(const HeadProblem& p) {
  const auto [batch, seq_len, model_dim] = p.x.shape();
  std::string payload;
  put<float>(payload, p.x.view());
  for (const auto* w : {&p.weights.query, &p.weights.key, &p.weights.value}) {
    put<float>(payload, w->view());
  }
  return "head" + token("batch", batch) + token("seq_len", seq_len) +
         token("model_dim", model_dim) + token("head_dim", p.weights.head_dim()) +
         token("causal", p.causal ? "top_left" : "none") +
         token("bytes", static_cast<Index>(payload.size())) + "\n" + payload;
}

Result<Index> bytes_that_follow(const Line& line) { return line.number("bytes", 0); }

namespace {

/// A mask's shape: each extent that of the logits, or 1.
Result<Shape> mask_shape(std::string_view key, std::string_view text, const Shape& logits) {
  Shape shape{};
  std::size_t axis = 0;
  bool fits = true;
  split(text, 'x', [&](std::string_view part) {
    const auto extent = number_in<Index>(part);
    fits = fits && axis < 4 && extent && (*extent == 1 || *extent == logits[axis]);
    if (fits) shape[axis++] = *extent;
  });
  if (!fits || axis != 4) return wrong(key, text, joined(logits) + ", or 1 instead of an extent");
  return shape;
}

std::optional<Error> read_number(const Line& line, std::string_view key,
                                 std::optional<double>& place) {
  if (const auto value = line.find(key)) {
    place = number_in<double>(*value);
    if (!place) return wrong(key, *value, "a number");
  }
  return std::nullopt;
}

std::optional<Error> read_whole(const Line& line, std::string_view key, Index lowest,
                                std::optional<Index>& place) {
  if (!line.find(key)) return std::nullopt;
  const auto value = line.number(key, 0, lowest);
  if (!value) return value.error();
  place = *value;
  return std::nullopt;
}

/// The options that are in the line itself.
std::optional<Error> read_options(const Line& line, AttentionProblem& problem) {
  const std::string_view causal = line.find("causal").value_or("none");
  const auto* name = std::find(causal_names.begin(), causal_names.end(), causal);
  if (name == causal_names.end()) return wrong("causal", causal, "none, top_left or bottom_right");
  problem.causal = static_cast<Causal>(name - causal_names.begin());
  if (auto error = read_number(line, "scale", problem.scale)) return error;
  std::optional<double> softcap;
  if (auto error = read_number(line, "softcap", softcap)) return error;
  problem.softcap = softcap.value_or(0);
  if (auto error = read_whole(line, "query_offset", -most, problem.query_offset)) return error;
  if (auto error = read_whole(line, "window", 1, problem.window)) return error;
  std::optional<Index> threads;
  if (auto error = read_whole(line, "threads", 1, threads)) return error;
  if (threads.value_or(0) > 1 << 20) return wrong("threads", *line.find("threads"), "fewer");
  problem.threads = static_cast<int>(threads.value_or(0));
  problem.strided = line.find("strided").has_value();
  problem.strided_channels = line.find("strided") == "2";
  problem.decode = line.find("decode").has_value();
  problem.want_lse = line.find("lse").has_value();
  problem.want_weights = line.find("weights").has_value();
  return std::nullopt;
}

}  // namespace

Result<AttentionProblem> parse_question(const Line& line, std::string_view payload,
                                        const Domain& domain) {
  if (const auto key = line.unknown(
          {"dtype",     "layout",   "batch",     "num_heads", "num_kv_heads", "seq_len_q",
           "seq_len_k", "head_dim", "value_dim", "causal",    "scale",        "query_offset",
           "window",    "softcap",  "mask",      "bias",      "key_length",   "threads",
           "strided",   "decode",   "lse",       "weights",   "backward",     "bytes"})) {
    return Error{"has '" + in_one_line(*key) + "', which is not known here"};
  }
  std::array<Index, 7> sizes{};
  std::size_t at = 0;
  for (std::string_view key :
       {"batch", "num_heads", "num_kv_heads", "seq_len_q", "seq_len_k", "head_dim", "value_dim"}) {
    const auto size = line.number(key, -1);
    if (!size) return size.error();
    if (*size < 0) return Error{"has no " + std::string(key)};
    sizes[at++] = *size;
  }
  const auto [batch, heads, kv_heads, seq_len_q, seq_len_k, head_dim, value_dim] = sizes;
  const Shape q = {batch, heads, seq_len_q, head_dim}, k = {batch, kv_heads, seq_len_k, head_dim},
              v = {batch, kv_heads, seq_len_k, value_dim},
              out = {batch, heads, seq_len_q, value_dim};
  const auto q_size = elements({q[0], q[1], q[2], q[3]}),
             k_size = elements({k[0], k[1], k[2], k[3]}),
             v_size = elements({v[0], v[1], v[2], v[3]}),
             out_size = elements({out[0], out[1], out[2], out[3]}),
             logits_size = elements({batch, heads, seq_len_q, seq_len_k});
  if (!q_size || !k_size || !v_size || !out_size || !logits_size) {
    return Error{"asks for more than there can be"};
  }
  AttentionProblem problem;
  if (auto error = read_options(line, problem)) return *error;
  const bool backward = line.find("backward").has_value();
  const bool with_lengths = line.find("key_length").has_value();
  std::optional<Shape> mask, bias;
  for (const auto& [key, shape] : {std::pair("mask", &mask), std::pair("bias", &bias)}) {
    if (const auto text = line.find(key)) {
      const auto read = mask_shape(key, *text, {batch, heads, seq_len_q, seq_len_k});
      if (!read) return read.error();
      *shape = *read;
    }
  }
  const auto size_of = [](const Shape& shape) { return View<int, 4>(nullptr, shape).size(); };
  const Index number = number_size(domain.dtype);
  const Index expected = number * (*q_size + *k_size + *v_size) + (mask ? size_of(*mask) : 0) +
                         (bias ? number * size_of(*bias) : 0) + (with_lengths ? 8 * batch : 0) +
                         (backward ? number * *out_size : 0);
  if (expected != static_cast<Index>(payload.size())) {
    return Error{"is followed by " + std::to_string(payload.size()) + " bytes instead of " +
                 std::to_string(expected)};
  }
  problem.q = take_tensor<float>(payload, q, domain);
  problem.k = take_tensor<float>(payload, k, domain);
  problem.v = take_tensor<float>(payload, v, domain);
  if (mask) take<unsigned char>(payload, problem.mask.emplace(*mask).view());
  if (bias) take_numbers(payload, problem.bias.emplace(*bias).view(), domain.dtype);
  if (with_lengths) {
    problem.key_length.resize(static_cast<std::size_t>(batch));
    take<Index>(payload, View<Index, 1>(problem.key_length.data(), {batch}));
  }
  if (backward) problem.d_out = take_tensor<float>(payload, out, domain);
  return problem;
}

Index answer_bytes(const AttentionProblem& p, Dtype dtype) {
  const Index rows = p.batch() * p.num_heads() * p.seq_len_q();
  Index count = rows * p.value_dim();
  if (p.want_lse) count += rows;
  if (p.want_weights) count += rows * p.seq_len_k();
  if (p.d_out) count += p.q.size() + p.k.size() + p.v.size();
  return count * number_size(dtype);
}

std::string format_answer(const AttentionAnswer& answer, const Domain& domain) {
  std::string bytes;
  put_tensor(bytes, answer.out, domain);
  if (answer.lse) put_numbers(bytes, answer.lse->view(), domain.dtype);
  if (answer.weights) put_numbers(bytes, answer.weights->view(), domain.dtype);
  if (answer.gradients) {
    const auto& [d_q, d_k, d_v] = *answer.gradients;
    for (const auto* tensor : {&d_q, &d_k, &d_v}) put_tensor(bytes, *tensor, domain);
  }
  return bytes;
}

AttentionAnswer parse_answer(const AttentionProblem& p, std::string_view payload,
                             const Domain& domain) {
  AttentionAnswer answer;
  answer.out = take_tensor<double>(
      payload, {p.batch(), p.num_heads(), p.seq_len_q(), p.value_dim()}, domain);
  if (p.want_lse) {
    answer.lse.emplace(std::array{p.batch(), p.num_heads(), p.seq_len_q()});
    take_numbers(payload, answer.lse->view(), domain.dtype);
  }
  if (p.want_weights) {
    answer.weights.emplace(Shape{p.batch(), p.num_heads(), p.seq_len_q(), p.seq_len_k()});
    take_numbers(payload, answer.weights->view(), domain.dtype);
  }
  if (p.d_out) {
    auto& [d_q, d_k, d_v] = answer.gradients.emplace();
    d_q = take_tensor<double>(payload, p.q.shape(), domain);
    d_k = take_tensor<double>(payload, p.k.shape(), domain);
    d_v = take_tensor<double>(payload, p.v.shape(), domain);
  }
  return answer;
}

Index answer_bytes(const HeadProblem& problem, bool with_weights) {
  const auto [batch, seq_len, model_dim] = problem.x.shape();
  return 4 * batch * seq_len * (problem.weights.head_dim() + (with_weights ? seq_len : 0));
}

HeadAnswer parse_answer(const HeadProblem& problem, std::string_view payload, bool with_weights) {
  const Index batch = problem.x.shape()[0], seq_len = problem.x.shape()[1];
  HeadAnswer answer;
  answer.out = Tensor<float, 3>({batch, seq_len, problem.weights.head_dim()});
  take<float>(payload, answer.out.view());
  if (with_weights) {
    answer.A.emplace(std::array{batch, seq_len, seq_len});
    take<float>(payload, answer.A->view());
  }
  return answer;
}

}  // namespace headproof
