#include "attention/check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <variant>

namespace headproof {
namespace {

std::string text_of(const AnyView& view, const Index* sizes) {
  std::string text = "[";
  for (std::size_t axis = 0; axis < view.rank; ++axis) {
    text += (axis > 0 ? ", " : "") + std::to_string(sizes[axis]);
  }
  return text + "]";
}

std::string described(const AnyView& view) {
  return std::string(view.name) + " (shape " + text_of(view, view.shape) + ", strides " +
         text_of(view, view.strides) + ")";
}

bool is_empty(const AnyView& view) {
  for (std::size_t axis = 0; axis < view.rank; ++axis) {
    if (view.shape[axis] == 0) return true;
  }
  return false;
}

/// Whether each axis has longer steps than the later ones reach together: then no elements share
/// memory, and nothing is left to find out.
bool is_row_major(const AnyView& view) {
  Index reach = 0;
  for (std::size_t axis = view.rank; axis-- > 0;) {
    if (view.shape[axis] == 1) continue;  // its stride may be anything
    if (view.strides[axis] <= reach) return false;
    reach += (view.shape[axis] - 1) * view.strides[axis];
  }
  return true;
}

/// The addresses first .. last, none when first > last.
struct Addresses {
  std::intptr_t first, last;
};

/// Whether both have addresses, and their ranges some in common.
bool may_meet(const Addresses& a, const Addresses& b) {
  return a.first <= a.last && b.first <= b.last && a.first <= b.last && b.first <= a.last;
}

/// From the first to the last byte of a view's elements.
Addresses addresses_of(const AnyView& view) {
  constexpr Addresses none{std::numeric_limits<std::intptr_t>::max(), 0};
  if (view.data == nullptr) return none;
  Addresses all{std::bit_cast<std::intptr_t>(view.data), 0};
  all.last = all.first + view.element_size - 1;
  for (std::size_t axis = 0; axis < view.rank; ++axis) {
    if (view.shape[axis] == 0) return none;
    if (view.shape[axis] == 1) continue;  // its stride may be anything
    const Index reach = (view.shape[axis] - 1) * view.strides[axis] * view.element_size;
    all.first += std::min<Index>(reach, 0);
    all.last += std::max<Index>(reach, 0);
  }
  return all;
}

/// The multiples lowest .. highest of a number of bytes.
struct Steps {
  Index size, lowest, highest;
};

/// Where the bytes of views lie, as sums of multiples of step sizes: a step for each axis and one
/// for the bytes of an element.
class Offsets {
 public:
  /// Adds a view's offsets from its data, or (sign -1) subtracts them.
  void add(const AnyView& view, Index sign) {
    for (std::size_t axis = 0; axis < view.rank; ++axis) {
      if (view.shape[axis] == 1) continue;  // its stride may be anything
      const Index stride = view.strides[axis] * view.element_size;
      add(std::abs(stride), (stride < 0 ? -sign : sign) * (view.shape[axis] - 1));
    }
    add(1, sign * (view.element_size - 1));
  }

  /// Whether each step is longer than what the shorter ones reach together, so that no two
  /// combinations of multiples have one sum. It is so in every array and its parts.
  bool are_nested() const {
    Index reach = 0;
    for (std::size_t at = count_; at-- > 0;) {
      if (steps_[at].size <= reach) return false;
      reach += steps_[at].size * (steps_[at].highest - steps_[at].lowest);
    }
    return true;
  }

  /// Whether some sum is `target`.
  bool contain(Index target) {
    std::size_t merged = 0;  // steps of one size are one
    for (std::size_t at = 1; at < count_; ++at) {
      if (steps_[at].size == steps_[merged].size) {
        steps_[merged].lowest += steps_[at].lowest;
        steps_[merged].highest += steps_[at].highest;
      } else {
        steps_[++merged] = steps_[at];
      }
    }
    count_ = std::min(count_, merged + 1);
    // Where steps are nested, two or three multiples of each are tried. Where views are so woven
    // that more are left, the answer is yes: it refuses what no array's parts need.
    Index tries = 10'000;
    return contain(0, target, tries);
  }

 private:
  void add(Index size, Index last) {
    if (last == 0) return;
    std::size_t at = count_++;
    for (; at > 0 && steps_[at - 1].size < size; --at) steps_[at] = steps_[at - 1];
    steps_[at] = {size, std::min<Index>(last, 0), std::max<Index>(last, 0)};
  }

  /// Whether the steps from `at` on have a sum that is `target`.
  bool contain(std::size_t at, Index target, Index& tries) const {
    if (at == count_ || steps_[at].size == 0) return target == 0;
    const Steps& step = steps_[at];
    Index lowest = 0, highest = 0;  // what the shorter steps reach
    for (std::size_t next = at + 1; next < count_; ++next) {
      lowest += steps_[next].size * steps_[next].lowest;
      highest += steps_[next].size * steps_[next].highest;
    }
    // The first multiple from which the shorter steps may reach the target, or the one before it.
    const Index first = std::max(step.lowest, (target - highest) / step.size);
    for (Index times = first; times <= step.highest; ++times) {
      const Index rest = target - times * step.size;
      if (rest < lowest) return false;
      if (--tries < 0 || contain(at + 1, rest, tries)) return true;
    }
    return false;
  }

  /// The longest first; of `count_` of them there are numbers.
  std::array<Steps, 10> steps_;
  std::size_t count_ = 0;
};

}  // namespace

std::array<AnyView, 3> views_of(const AttentionOptions& options) {
  const AnyView mask = std::visit(
      [](const auto& view) {
        if constexpr (std::is_same_v<decltype(view), const std::monostate&>) {
          static const View<const bool, 4> none;
          return AnyView("mask", none);
        } else {
          return AnyView("mask", view);
        }
      },
      options.mask);
  return {mask, AnyView("first_key", options.first_key), AnyView("key_length", options.key_length)};
}

std::optional<Error> shape_error(const AnyView& view, const std::array<Index, 4>& expected) {
  bool same = true;
  for (std::size_t axis = 0; axis < view.rank; ++axis) same &= view.shape[axis] == expected[axis];
  if (same) return std::nullopt;
  return Error{std::string(view.name) + " has shape " + text_of(view, view.shape) +
               ", and these inputs need " + text_of(view, expected.data())};
}

std::optional<Error> data_error(const AnyView& view) {
  // Where all numbers are small, so is what they reach.
  Index bits = 0;
  for (std::size_t axis = 0; axis < view.rank; ++axis) {
    bits |= view.shape[axis] | view.strides[axis];
  }
  if (view.data != nullptr && bits >= 0 && bits < Index{1} << 27) return std::nullopt;
  if (is_empty(view)) return std::nullopt;
  if (view.data == nullptr) {
    return Error{std::string(view.name) + " has shape " + text_of(view, view.shape) +
                 ", but its data is null"};
  }
  // A double, because this is where numbers may be too large for an Index.
  double reach = 0;
  for (std::size_t axis = 0; axis < view.rank; ++axis) {
    reach += static_cast<double>(view.shape[axis] - 1) *
             std::fabs(static_cast<double>(view.strides[axis]));
  }
  if (reach * static_cast<double>(view.element_size) < 0x1p60) return std::nullopt;
  return Error{described(view) + " reaches over more memory than there is"};
}

std::optional<Error> self_overlap_error(const AnyView& output) {
  if (is_empty(output) || is_row_major(output)) return std::nullopt;
  Offsets offsets;
  offsets.add(output, 1);
  if (offsets.are_nested()) return std::nullopt;
  return Error{described(output) + " is written, but some of its elements share memory"};
}

std::optional<Error> overlap_error(const AnyView& output, const AnyView& other) {
  if (!may_meet(addresses_of(output), addresses_of(other))) return std::nullopt;
  // output.data + one offset = other.data + another
  Offsets offsets;
  offsets.add(output, 1);
  offsets.add(other, -1);
  const auto address = [](const AnyView& view) { return std::bit_cast<std::intptr_t>(view.data); };
  if (!offsets.contain(address(other) - address(output))) return std::nullopt;
  return Error{described(output) + " overlaps " + described(other) +
               ", which must not change while it is written"};
}

std::optional<Error> memory_error(std::initializer_list<AnyView> inputs,
                                  const AttentionOptions& options,
                                  std::initializer_list<AnyView> outputs) {
  for (const AnyView& view : inputs) {
    if (auto error = data_error(view)) return error;
  }
  const auto of_options = views_of(options);
  for (const AnyView* output = outputs.begin(); output != outputs.end(); ++output) {
    if (auto error = data_error(*output)) return error;
    if (auto error = self_overlap_error(*output)) return error;
    const Addresses addresses = addresses_of(*output);
    const auto overlap_with = [&](const AnyView& other) -> std::optional<Error> {
      if (!may_meet(addresses, addresses_of(other))) return std::nullopt;
      return overlap_error(*output, other);
    };
    for (const AnyView& input : inputs) {
      if (auto error = overlap_with(input)) return error;
    }
    for (const AnyView& view : of_options) {
      if (auto error = overlap_with(view)) return error;
    }
    for (const AnyView* other = outputs.begin(); other != output; ++other) {
      if (auto error = overlap_with(*other)) return error;
    }
  }
  return std::nullopt;
}

}  // namespace headproof
