// How shrinking goes about it, for any kind of problem.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "theorems/attention_theorem.h"

namespace headproof {

/// What shrinking takes away: `count` of an axis, from `first` on.
template <class Problem>
struct Axis {
  Index size;  ///< how many there are
  Index step;  ///< how many may go at once: a multiple of it
  std::function<void(Problem&, Index first, Index count)> remove;
};

/// What problems of a kind are made of.
template <class Problem>
struct Anatomy {
  std::function<std::vector<Axis<Problem>>(const Problem&)> axes;
  std::function<std::vector<std::span<float>>(Problem&)> tensors;  ///< whose values may be simpler
  /// Ways to ask for less.
  std::function<std::vector<std::function<void(Problem&)>>(const Problem&)> changes;
  std::function<bool(const Problem&)> inside;  ///< whether the subject accepts it
  std::vector<Index> sizes;  ///< worth a try for any axis, because the subject accepts these
  Dtype dtype = Dtype::float32;
};

/// `tensor` without `count` positions of an axis from `first` on.
template <class T, std::size_t Rank>
void cut(Tensor<T, Rank>& tensor, std::size_t axis, Index first, Index count) {
  auto shape = tensor.shape();
  Index outer = 1, inner = 1;
  for (std::size_t before = 0; before < axis; ++before) outer *= shape[before];
  for (std::size_t behind = axis + 1; behind < Rank; ++behind) inner *= shape[behind];
  const Index old_size = shape[axis], new_size = shape[axis] -= count;
  Tensor<T, Rank> rest(shape);
  for (Index n = 0; n < outer; ++n) {
    const T* from = tensor.data() + n * old_size * inner;
    T* to = std::copy_n(from, first * inner, rest.data() + n * new_size * inner);
    std::copy_n(from + (first + count) * inner, (new_size - first) * inner, to);
  }
  tensor = std::move(rest);
}

/// Makes a problem that fails as small as it can while `fails` says that it still does.
template <class Problem>
class Shrinker {
 public:
  Shrinker(Problem problem, const Anatomy<Problem>& anatomy, int calls,
           const std::function<bool(const Problem&)>& fails)
      : best_(std::move(problem)), anatomy_(anatomy), calls_(calls), fails_(fails) {}

  Problem run() {
    changes();
    values(1);
    shapes();
    values(most_parts);
    changes();
    shapes();  // with simple values, more may turn out to be unnecessary
    return std::move(best_);
  }

 private:
  bool accept(Problem candidate) {
    if (calls_ <= 0 || !anatomy_.inside(candidate)) return false;
    --calls_;
    if (!fails_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  void changes() {
    for (bool smaller = true; smaller && calls_ > 0;) {
      smaller = false;
      for (const auto& change : anatomy_.changes(best_)) {
        Problem candidate = best_;
        change(candidate);
        if ((smaller = accept(std::move(candidate)))) break;
      }
    }
  }

  void shapes() {
    for (bool smaller = true; smaller && calls_ > 0;) {
      smaller = false;
      const std::size_t count = anatomy_.axes(best_).size();
      for (std::size_t axis = 0; axis < count; ++axis) smaller |= shorten(axis);
    }
  }

  /// Takes away halves of an axis, then quarters, and so on, wherever the fault stays.
  bool shorten(std::size_t which) {
    bool smaller = false;
    const auto now = [&] { return anatomy_.axes(best_); };
    if (which >= now().size()) return false;
    const Index step = now()[which].step;
    Index chunk = now()[which].size;
    while ((chunk = std::max(chunk / 2 / step * step, step)) > 0 && calls_ > 0) {
      for (Index first = 0;;) {
        const std::vector<Axis<Problem>> axes = now();
        if (which >= axes.size() || axes[which].size - chunk < step ||
            first + chunk > axes[which].size) {
          break;
        }
        Problem candidate = best_;
        // From the end: what is removed last keeps the positions of what comes before.
        axes[which].remove(candidate, axes[which].size - first - chunk, chunk);
        if (accept(std::move(candidate))) {
          smaller = true;
        } else {
          first += chunk;
        }
      }
      if (chunk == step) break;
    }
    // Some subjects accept certain sizes only: try each of them.
    for (Index dim : anatomy_.sizes) {
      const std::vector<Axis<Problem>> axes = now();
      if (which < axes.size() && axes[which].size > dim) {
        Problem candidate = best_;
        axes[which].remove(candidate, dim, axes[which].size - dim);
        smaller |= accept(std::move(candidate));
      }
    }
    return smaller;
  }

  /// Simpler values, in at most so many parts of each tensor.
  void values(Index parts) {
    for (std::size_t n = 0; n < anatomy_.tensors(best_).size(); ++n) simplify(n, parts);
  }

  void simplify(std::size_t which, Index parts) {
    const auto size = static_cast<Index>(anatomy_.tensors(best_)[which].size());
    // What a value becomes; 0 instead of -0, which would be read as a part of the fault.
    const std::function<float(float)> steps[] = {
        [](float) { return 0.0F; },
        [](float) { return 1.0F; },
        [](float value) { return std::nearbyint(value) + 0.0F; },
        [](float value) { return std::nearbyint(4 * value) / 4 + 0.0F; },
    };
    for (const auto& step : steps) {
      // All values at once, then halves, and so on, as with shapes.
      for (Index chunk = size; chunk > 0 && calls_ > 0; chunk /= 2) {
        if (size / chunk > parts) break;
        for (Index first = 0; first < size; first += chunk) {
          Problem candidate = best_;
          float* values = anatomy_.tensors(candidate)[which].data();
          bool changed = false;
          for (Index at = first; at < std::min(size, first + chunk); ++at) {
            // NaN and infinity are what the problem is about.
            if (!std::isfinite(values[at]) || simple(values[at]) ||
                values[at] == step(values[at])) {
              continue;
            }
            values[at] = rounded(step(values[at]), anatomy_.dtype);
            changed = true;
          }
          if (changed) accept(std::move(candidate));
        }
      }
    }
  }

  static bool simple(float value) { return value == 0 || value == 1; }
  static constexpr Index most_parts = 64;

  Problem best_;
  const Anatomy<Problem>& anatomy_;
  int calls_;
  const std::function<bool(const Problem&)>& fails_;
};

}  // namespace headproof
