#include <cmath>
#include <limits>
#include <string>

#include "attention/check.h"
#include "headproof/attention.h"

namespace headproof {
namespace {

using Shape = std::array<Index, 4>;

/// Positions, windows and sizes up to here have sums that an Index holds.
constexpr Index limit = Index{1} << 60;

std::string text_of(const Shape& shape) {
  std::string text = "[";
  for (const Index extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

std::string text_of(double number) {
  std::string text(32, '\0');
  text.resize(static_cast<std::size_t>(std::snprintf(text.data(), text.size(), "%g", number)));
  return text;
}

/// Whether 64 bits count the bytes of such an array, axes without elements taken for one with one:
/// loops run over the others.
bool can_be_counted(const Shape& shape) {
  double bytes = sizeof(double);
  for (const Index extent : shape) bytes *= static_cast<double>(std::max<Index>(extent, 1));
  return bytes <= 0x1p62;
}

std::optional<Error> shapes_error(const Shape& q, const Shape& k, const Shape& v,
                                  const AttentionOptions& options) {
  const auto refuse = [&](const std::string& why) {
    return Error{why + " (shapes q " + text_of(q) + ", k " + text_of(k) + ", v " + text_of(v) +
                 ")"};
  };
  const auto differ = [&](const std::string& what, const char* one, Index of_one, const char* other,
                          Index of_other) {
    return refuse(std::string(one) + " has " + what + " " + std::to_string(of_one) + ", and " +
                  other + " " + std::to_string(of_other));
  };
  for (const Shape* shape : {&q, &k, &v}) {
    if (*std::min_element(shape->begin(), shape->end()) < 0) {
      return refuse("q, k and v need sizes from 0 on");
    }
  }
  if (q[0] != k[0]) return differ("batch size", "q", q[0], "k", k[0]);
  if (k[0] != v[0]) return differ("batch size", "k", k[0], "v", v[0]);
  if (q[3] != k[3]) return differ("head_dim (its last size)", "q", q[3], "k", k[3]);
  if (k[2] != v[2]) return differ("number of keys", "k", k[2], "v", v[2]);
  if (k[1] != v[1]) return differ("number of heads", "k", k[1], "v", v[1]);
  if (q[1] != k[1] && (k[1] == 0 || q[1] % k[1] != 0)) {
    return refuse("the heads of k and v, " + std::to_string(k[1]) + ", must divide those of q, " +
                  std::to_string(q[1]));
  }
  if (q[3] == 0 && !options.scale) {
    return refuse("head_dim is 0, where 1 / sqrt(head_dim), the default of scale, has no value");
  }
  Index bits = 0;
  for (const Shape* shape : {&q, &k, &v}) {
    for (const Index extent : *shape) bits |= extent;
  }
  if (bits < Index{1} << 14) return std::nullopt;  // 4 * 14 bits and 3 for a double
  const Shape scores{q[0], q[1], q[2], k[2]}, out{q[0], q[1], q[2], v[3]};
  for (const Shape* shape : {&q, &k, &v, &scores, &out}) {
    if (!can_be_counted(*shape)) return refuse("these sizes make more bytes than 64 bits count");
  }
  return std::nullopt;
}

std::optional<Error> numbers_error(const AttentionOptions& options) {
  // What a float holds, for every scalar: options mean the same in all of them.
  constexpr double largest = std::numeric_limits<float>::max();
  constexpr double smallest = std::numeric_limits<float>::min();
  if (options.scale && !(std::fabs(*options.scale) <= largest)) {
    return Error{"scale is " + text_of(*options.scale) + "; it must be a number up to " +
                 text_of(largest) + " in size"};
  }
  const double softcap = options.softcap;
  if (softcap != 0 && !(softcap >= smallest && softcap <= largest)) {
    return Error{"softcap is " + text_of(softcap) + "; it must be 0 (none) or from " +
                 text_of(smallest) + " to " + text_of(largest)};
  }
  const auto out_of = [](Index value, Index lowest) { return value < lowest || value > limit; };
  if (options.window && out_of(*options.window, 1)) {
    return Error{"window is " + std::to_string(*options.window) +
                 "; it counts the query's own position and must be from 1 to 2^60"};
  }
  if (options.window_right && out_of(*options.window_right, 0)) {
    return Error{"window_right is " + std::to_string(*options.window_right) +
                 "; it must be from 0 to 2^60"};
  }
  if (options.query_offset && out_of(*options.query_offset, -limit)) {
    return Error{"query_offset is " + std::to_string(*options.query_offset) +
                 "; it must be from -2^60 to 2^60"};
  }
  if (options.query_offset && options.causal == Causal::bottom_right) {
    return Error{"query_offset is " + std::to_string(*options.query_offset) +
                 ", but causal is bottom_right, which places the queries itself; causal top_left "
                 "takes a query_offset"};
  }
  return std::nullopt;
}

std::optional<Error> mask_error(const AnyView& mask, const Shape& scores) {
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (mask.shape[axis] != 1 && mask.shape[axis] != scores[axis]) {
      return Error{"mask has shape " +
                   text_of({mask.shape[0], mask.shape[1], mask.shape[2], mask.shape[3]}) +
                   ", but each size must be 1 or that of " + text_of(scores) +
                   ", [batch, num_heads, seq_len_q, seq_len_k]"};
    }
  }
  return data_error(mask);
}

std::optional<Error> lengths_error(const AttentionOptions& options, Index batch, Index seq_len_k) {
  const auto entry = [](const char* name, Index b, Index value) {
    return std::string(name) + "[" + std::to_string(b) + "] is " + std::to_string(value);
  };
  for (const auto& [name, view] :
       {std::pair{"first_key", options.first_key}, std::pair{"key_length", options.key_length}}) {
    const Index entries = view.shape[0];
    if (entries == 0) continue;
    if (entries != batch) {
      return Error{std::string(name) + " has " + std::to_string(entries) +
                   " entries, and the batch size is " + std::to_string(batch)};
    }
    if (auto error = data_error({name, view})) return error;
    for (Index b = 0; b < entries; ++b) {
      if (view(b) < 0 || view(b) > seq_len_k) {
        return Error{entry(name, b, view(b)) + "; it must be from 0 to the number of keys, " +
                     std::to_string(seq_len_k)};
      }
    }
  }
  if (options.first_key.shape[0] == 0 || options.key_length.shape[0] == 0) return std::nullopt;
  for (Index b = 0; b < batch; ++b) {
    if (options.first_key(b) > options.key_length(b)) {
      return Error{entry("first_key", b, options.first_key(b)) + ", beyond " +
                   entry("key_length", b, options.key_length(b))};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Error> attention_error(const Shape& q, const Shape& k, const Shape& v,
                                     const AttentionOptions& options) {
  if (auto error = shapes_error(q, k, v, options)) return error;
  if (auto error = numbers_error(options)) return error;
  if (!std::holds_alternative<std::monostate>(options.mask)) {
    const AnyView mask = views_of(options).front();
    if (auto error = mask_error(mask, {q[0], q[1], q[2], k[2]})) return error;
  }
  return lengths_error(options, q[0], k[2]);
}

}  // namespace headproof
