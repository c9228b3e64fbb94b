#include "checker/shrink.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "theorems/attention_theorem.h"

namespace headproof {
namespace {

/// `tensor` without `count` positions of an axis from `first` on; an axis of size 1 that stands for
/// all stays when `broadcast`.
template <class T>
void cut(Tensor<T, 4>& tensor, std::size_t axis, Index first, Index count, bool broadcast = false) {
  auto shape = tensor.shape();
  if (broadcast && shape[axis] == 1) return;
  shape[axis] -= count;
  Tensor<T, 4> rest(shape);
  std::array<Index, 4> at{};
  for (at[0] = 0; at[0] < shape[0]; ++at[0]) {
    for (at[1] = 0; at[1] < shape[1]; ++at[1]) {
      for (at[2] = 0; at[2] < shape[2]; ++at[2]) {
        for (at[3] = 0; at[3] < shape[3]; ++at[3]) {
          auto from = at;
          if (from[axis] >= first) from[axis] += count;
          rest(at[0], at[1], at[2], at[3]) = tensor(from[0], from[1], from[2], from[3]);
        }
      }
    }
  }
  tensor = std::move(rest);
}

template <class T>
void cut(std::optional<Tensor<T, 4>>& tensor, std::size_t axis, Index first, Index count) {
  if (tensor) cut(*tensor, axis, first, count, true);
}

/// What shrinking takes away: `count` of an axis, from `first` on.
struct Axis {
  Index size;  ///< how many there are
  Index step;  ///< how many may go at once: a multiple of it
  std::function<void(AttentionProblem&, Index first, Index count)> remove;
};

void remove_queries(AttentionProblem& p, Index first, Index count) {
  cut(p.q, 2, first, count);
  cut(p.mask, 2, first, count);
  cut(p.bias, 2, first, count);
  if (p.d_out) cut(*p.d_out, 2, first, count);
}

void remove_keys(AttentionProblem& p, Index first, Index count) {
  cut(p.k, 2, first, count);
  cut(p.v, 2, first, count);
  cut(p.mask, 3, first, count);
  cut(p.bias, 3, first, count);
  for (Index& length : p.key_length) {
    length -= std::clamp<Index>(length - first, 0, count);
  }
}

std::vector<Axis> axes_of(const AttentionProblem& problem, const Domain& domain) {
  std::vector<Axis> axes;
  axes.push_back({problem.batch(), 1, [](AttentionProblem& p, Index first, Index count) {
                    for (auto* tensor : {&p.q, &p.k, &p.v}) cut(*tensor, 0, first, count);
                    cut(p.mask, 0, first, count);
                    cut(p.bias, 0, first, count);
                    if (p.d_out) cut(*p.d_out, 0, first, count);
                    if (!p.key_length.empty()) {
                      p.key_length.erase(p.key_length.begin() + first,
                                         p.key_length.begin() + first + count);
                    }
                  }});
  const Index group =
      problem.num_kv_heads() == 0 ? 1 : problem.num_heads() / problem.num_kv_heads();
  axes.push_back(
      {problem.num_kv_heads(), 1, [group](AttentionProblem& p, Index first, Index count) {
         cut(p.k, 1, first, count);
         cut(p.v, 1, first, count);
         cut(p.q, 1, first * group, count * group);
         cut(p.mask, 1, first * group, count * group);
         cut(p.bias, 1, first * group, count * group);
         if (p.d_out) cut(*p.d_out, 1, first * group, count * group);
       }});
  axes.push_back({group, 1, [](AttentionProblem& p, Index first, Index count) {
                    const Index size = p.num_heads() / p.num_kv_heads();
                    for (Index h = p.num_kv_heads(); h-- > 0;) {
                      const Index from = h * size + first;
                      cut(p.q, 1, from, count);
                      cut(p.mask, 1, from, count);
                      cut(p.bias, 1, from, count);
                      if (p.d_out) cut(*p.d_out, 1, from, count);
                    }
                  }});
  // A window may have to shrink along, or an offset to move with the keys or queries that stay.
  const auto add_lengths = [&](Index size, auto remove, Index shift) {
    axes.push_back({size, domain.length_multiple, remove});
    if (problem.window) {
      axes.push_back(
          {size, domain.length_multiple, [remove](AttentionProblem& p, Index first, Index count) {
             remove(p, first, count);
             p.window = std::max<Index>(1, *p.window - count);
           }});
    }
    if (problem.query_offset && shift != 0) {
      axes.push_back({size, domain.length_multiple,
                      [remove, shift](AttentionProblem& p, Index first, Index count) {
                        remove(p, first, count);
                        p.query_offset = std::max<Index>(0, *p.query_offset + shift * count);
                      }});
    }
  };
  add_lengths(
      std::min(problem.seq_len_q(), problem.seq_len_k()),
      [](AttentionProblem& p, Index first, Index count) {
        remove_queries(p, first, count);
        remove_keys(p, first, count);
      },
      0);
  const bool square = problem.seq_len_q() == problem.seq_len_k();
  if (!square || (problem.query_offset && domain.features.has(Feature::rectangular))) {
    add_lengths(problem.seq_len_k(), remove_keys, -1);
    add_lengths(problem.seq_len_q(), remove_queries, 1);
  }
  const auto remove_values = [](AttentionProblem& p, Index first, Index count) {
    cut(p.v, 3, first, count);
    if (p.d_out) cut(*p.d_out, 3, first, count);
  };
  const bool together = !domain.features.has(Feature::value_dim);
  axes.push_back({problem.head_dim(), 1,
                  [together, remove_values](AttentionProblem& p, Index first, Index count) {
                    cut(p.q, 3, first, count);
                    cut(p.k, 3, first, count);
                    if (together) remove_values(p, first, count);
                  }});
  if (!together) axes.push_back({problem.value_dim(), 1, remove_values});
  return axes;
}

bool accepts_dim(const Domain& domain, Index dim) {
  return domain.head_dims.empty() ||
         std::find(domain.head_dims.begin(), domain.head_dims.end(), dim) != domain.head_dims.end();
}

bool inside(const AttentionProblem& p, const Domain& domain) {
  return p.seq_len_q() % domain.length_multiple == 0 &&
         p.seq_len_k() % domain.length_multiple == 0 && accepts_dim(domain, p.head_dim()) &&
         accepts_dim(domain, p.value_dim()) &&
         (domain.features.has(Feature::rectangular) || p.seq_len_q() == p.seq_len_k());
}

class Shrinker {
 public:
  Shrinker(AttentionProblem problem, const Domain& domain, int calls,
           const std::function<bool(const AttentionProblem&)>& fails)
      : best_(std::move(problem)), domain_(domain), calls_(calls), fails_(fails) {}

  AttentionProblem run() {
    options();
    values(1);
    shapes();
    values(most_parts);
    options();
    shapes();  // with simple values, more may turn out to be unnecessary
    return std::move(best_);
  }

 private:
  bool accept(AttentionProblem candidate) {
    if (calls_ <= 0 || !inside(candidate, domain_)) return false;
    --calls_;
    if (!fails_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  /// Asks for less: each option that the fault does without goes.
  void options() {
    drop(&AttentionProblem::d_out);
    drop(&AttentionProblem::want_lse);
    drop(&AttentionProblem::want_weights);
    drop(&AttentionProblem::strided);
    drop(&AttentionProblem::threads);
    drop(&AttentionProblem::decode);
    drop(&AttentionProblem::mask);
    drop(&AttentionProblem::bias);
    drop(&AttentionProblem::window);
    drop(&AttentionProblem::query_offset);
    drop(&AttentionProblem::scale);
    drop(&AttentionProblem::softcap);
    drop(&AttentionProblem::key_length);
    // What windows and offsets mean without the causal mask is less agreed upon.
    if (domain_.features.has(Feature::non_causal) && !best_.window && !best_.query_offset) {
      drop(&AttentionProblem::causal);
    }
    const auto window = [](AttentionProblem& p, Index by) { *p.window -= by; };
    const auto offset = [](AttentionProblem& p, Index by) { *p.query_offset -= by; };
    if (best_.window) lessen(*best_.window - 1, window);
    if (best_.query_offset) lessen(*best_.query_offset, offset);
    if (best_.window && best_.query_offset) {
      lessen(std::min(*best_.window - 1, *best_.query_offset), [&](AttentionProblem& p, Index by) {
        window(p, by);
        offset(p, by);
      });
    }
  }

  /// Takes as much as it can of `most` from a number, by halves.
  template <class Take>
  void lessen(Index most, Take&& take) {
    for (Index by = most; by > 0 && calls_ > 0;) {
      AttentionProblem candidate = best_;
      take(candidate, by);
      if (accept(std::move(candidate))) {
        most -= by;
        by = std::min(by, most);
      } else {
        by /= 2;
      }
    }
  }

  template <class Option>
  static bool asked(const Option& option) {
    return static_cast<bool>(option);
  }
  static bool asked(const std::vector<Index>& key_length) { return !key_length.empty(); }

  template <class Option>
  void drop(Option AttentionProblem::*option) {
    AttentionProblem candidate = best_;
    candidate.*option = Option();
    if (asked(best_.*option)) accept(std::move(candidate));
  }

  void shapes() {
    for (bool smaller = true; smaller && calls_ > 0;) {
      smaller = false;
      const std::size_t count = axes_of(best_, domain_).size();
      for (std::size_t axis = 0; axis < count; ++axis) smaller |= shorten(axis);
    }
  }

  /// Takes away halves of an axis, then quarters, and so on, wherever the fault stays.
  bool shorten(std::size_t which) {
    bool smaller = false;
    const auto now = [&] { return axes_of(best_, domain_); };
    if (which >= now().size()) return false;
    const Index step = now()[which].step;
    Index chunk = now()[which].size;
    while ((chunk = std::max(chunk / 2 / step * step, step)) > 0 && calls_ > 0) {
      for (Index first = 0;;) {
        const std::vector<Axis> axes = now();
        if (which >= axes.size() || axes[which].size - chunk < step ||
            first + chunk > axes[which].size) {
          break;
        }
        AttentionProblem candidate = best_;
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
    for (Index dim : domain_.head_dims) {
      const std::vector<Axis> axes = now();
      if (which < axes.size() && axes[which].size > dim) {
        AttentionProblem candidate = best_;
        axes[which].remove(candidate, dim, axes[which].size - dim);
        smaller |= accept(std::move(candidate));
      }
    }
    return smaller;
  }

  /// Simpler values, in at most so many parts of each tensor.
  void values(Index parts) {
    for (auto member : {&AttentionProblem::q, &AttentionProblem::k, &AttentionProblem::v}) {
      simplify([member](AttentionProblem& p) { return &(p.*member); }, parts);
    }
    for (auto member : {&AttentionProblem::bias, &AttentionProblem::d_out}) {
      simplify([member](AttentionProblem& p) { return p.*member ? &*(p.*member) : nullptr; },
               parts);
    }
  }

  template <class Of>
  void simplify(Of&& of, Index parts) {
    if (of(best_) == nullptr || of(best_)->size() == 0) return;
    // What a value becomes; 0 instead of -0, which would be read as a part of the fault.
    const std::function<float(float)> steps[] = {
        [](float) { return 0.0F; },
        [](float) { return 1.0F; },
        [](float value) { return std::nearbyint(value) + 0.0F; },
        [](float value) { return std::nearbyint(4 * value) / 4 + 0.0F; },
    };
    for (const auto& step : steps) {
      // All values at once, then halves, and so on, as with shapes.
      const Index size = of(best_)->size();
      for (Index chunk = size; chunk > 0 && calls_ > 0; chunk /= 2) {
        if (size / chunk > parts) break;
        for (Index first = 0; first < size; first += chunk) {
          AttentionProblem candidate = best_;
          float* values = of(candidate)->data();
          bool changed = false;
          for (Index at = first; at < std::min(size, first + chunk); ++at) {
            // NaN and infinity are what the problem is about.
            if (!std::isfinite(values[at]) || simple(values[at]) ||
                values[at] == step(values[at])) {
              continue;
            }
            values[at] = rounded(step(values[at]), domain_.dtype);
            changed = true;
          }
          if (changed) accept(std::move(candidate));
        }
      }
    }
  }

  static bool simple(float value) { return value == 0 || value == 1; }
  static constexpr Index most_parts = 64;

  AttentionProblem best_;
  const Domain& domain_;
  int calls_;
  const std::function<bool(const AttentionProblem&)>& fails_;
};

}  // namespace

AttentionProblem shrink(AttentionProblem problem, const Domain& domain, int calls,
                        const std::function<bool(const AttentionProblem&)>& fails) {
  return Shrinker(std::move(problem), domain, calls, fails).run();
}

}  // namespace headproof
