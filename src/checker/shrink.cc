#include "checker/shrink.h"

#include <algorithm>
#include <utility>

#include "checker/shrinker.h"

namespace headproof {
namespace {

/// An axis of size 1 stands for all, and stays.
template <class T>
void cut(std::optional<Tensor<T, 4>>& tensor, std::size_t axis, Index first, Index count) {
  if (tensor && tensor->shape()[axis] != 1) cut(*tensor, axis, first, count);
}

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

std::vector<Axis<AttentionProblem>> axes_of(const AttentionProblem& problem, const Domain& domain) {
  std::vector<Axis<AttentionProblem>> axes;
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
  // A fault that takes many keys may show in one query; where few will do, as many queries as keys
  // are easier to follow.
  const bool square = problem.seq_len_q() == problem.seq_len_k(), many = problem.seq_len_k() > 16;
  const bool may_differ = domain.features.has(Feature::rectangular);
  if (many && may_differ) {
    add_lengths(problem.seq_len_q(), remove_queries, 1);
    add_lengths(problem.seq_len_k(), remove_keys, -1);
  }
  add_lengths(
      std::min(problem.seq_len_q(), problem.seq_len_k()),
      [](AttentionProblem& p, Index first, Index count) {
        remove_queries(p, first, count);
        remove_keys(p, first, count);
      },
      0);
  if (!many && (!square || (problem.query_offset && may_differ))) {
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

std::vector<std::span<float>> tensors_of(AttentionProblem& p) {
  const auto values = [](Tensor<float, 4>& tensor) {
    return std::span(tensor.begin(), tensor.end());
  };
  std::vector<std::span<float>> all = {values(p.q), values(p.k), values(p.v)};
  for (auto* tensor : {&p.bias, &p.d_out}) {
    if (*tensor) all.push_back(values(**tensor));
  }
  return all;
}

using Change = std::function<void(AttentionProblem&)>;

bool asked(const std::vector<Index>& key_length) { return !key_length.empty(); }
template <class Option>
bool asked(const Option& option) {
  return static_cast<bool>(option);
}

/// Ways to ask for less: an option goes, or a window or an offset lessens by halves.
std::vector<Change> changes_of(const AttentionProblem& problem, const Domain& domain) {
  std::vector<Change> changes;
  const auto drop = [&](auto option) {
    if (asked(problem.*option))
      changes.push_back([option](AttentionProblem& p) { p.*option = {}; });
  };
  drop(&AttentionProblem::d_out);
  drop(&AttentionProblem::want_lse);
  drop(&AttentionProblem::want_weights);
  drop(&AttentionProblem::strided_channels);
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
  if (domain.features.has(Feature::non_causal) && !problem.window && !problem.query_offset) {
    if (problem.causal != Causal::none) {
      changes.push_back([](AttentionProblem& p) { p.causal = Causal::none; });
    }
  }
  const Index window = problem.window ? *problem.window - 1 : 0;
  const Index offset = problem.query_offset.value_or(0);
  for (Index by = window; by > 0; by /= 2) {
    changes.push_back([by](AttentionProblem& p) { *p.window -= by; });
  }
  for (Index by = offset; by > 0; by /= 2) {
    changes.push_back([by](AttentionProblem& p) { *p.query_offset -= by; });
  }
  for (Index by = std::min(window, offset); by > 0; by /= 2) {
    changes.push_back([by](AttentionProblem& p) {
      *p.window -= by;
      *p.query_offset -= by;
    });
  }
  return changes;
}

}  // namespace

AttentionProblem shrink(AttentionProblem problem, const Domain& domain, int calls,
                        const std::function<bool(const AttentionProblem&)>& fails) {
  const Anatomy<AttentionProblem> anatomy = {
      [&](const AttentionProblem& p) { return axes_of(p, domain); },
      tensors_of,
      [&](const AttentionProblem& p) { return changes_of(p, domain); },
      [&](const AttentionProblem& p) { return inside(p, domain); },
      domain.head_dims,
      domain.dtype};
  return Shrinker(std::move(problem), anatomy, calls, fails).run();
}

}  // namespace headproof
