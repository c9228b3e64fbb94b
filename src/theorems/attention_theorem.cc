#include "theorems/attention_theorem.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <utility>

#include "subjects/guarded.h"

namespace headproof {

bool same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

namespace {

/// What a problem asks for at once beyond plain attention. What is probed alone is in `alone`.
struct Extras {
  std::vector<std::string_view> alone, others;
};

Extras extras(const AttentionProblem& p, const Domain& domain) {
  const auto broadcast = [&](const auto& mask) {
    return mask && mask->shape() != std::array<Index, 4>{1, 1, p.seq_len_q(), p.seq_len_k()};
  };
  const bool shared = (p.num_heads() > 1 && heads_are_equal(p.q)) ||
                      (p.num_kv_heads() > 1 && (heads_are_equal(p.k) || heads_are_equal(p.v)));
  const bool zero = p.q.size() == 0 || p.k.size() == 0 || p.v.size() == 0;
  const auto those = [](std::initializer_list<std::pair<std::string_view, bool>> all) {
    std::vector<std::string_view> names;
    for (const auto& [name, asked] : all) {
      if (asked) names.push_back(name);
    }
    return names;
  };
  return {those({{"causal", p.causal != Causal::none && domain.features.has(Feature::non_causal)},
                 {"rectangular", p.seq_len_q() != p.seq_len_k()},
                 {"grouped_heads", p.num_heads() != p.num_kv_heads()},
                 {"value_dim", p.head_dim() != p.value_dim()},
                 {"scale", p.scale.has_value()},
                 {"query_offset", p.query_offset.has_value()},
                 {"window", p.window.has_value()},
                 {"softcap", p.softcap != 0},
                 {"mask", p.mask.has_value()},
                 {"bias", p.bias.has_value()},
                 {"key_length", !p.key_length.empty()},
                 {"threads", p.threads != 0},
                 {"strides", p.strided && !p.strided_channels && !shared},
                 {"decode", p.decode},
                 {"lse", p.want_lse},
                 {"weights", p.want_weights},
                 {"backward", p.d_out.has_value()}}),
          // Sizes of 0 were tried with one of them; whether any head_dim will do was found out up
          // to 128.
          those({{"a size of 0", zero},
                 {"head_dim above 128",
                  domain.head_dims.empty() && std::max(p.head_dim(), p.value_dim()) > 128},
                 {"broadcasting", broadcast(p.mask) || broadcast(p.bias)},
                 {"a stride of 0", p.strided && shared},
                 {"strides of channels", p.strided && p.strided_channels}})};
}

}  // namespace

AttentionReply Asker::reply(const AttentionProblem& problem) {
  ++calls_;
  AttentionReply reply = subject_.attend(problem);
  if (auto* refusal = std::get_if<Refusal>(&reply)) {
    // Each option was accepted alone; not all of them go together.
    auto [all, others] = extras(problem, domain);
    const bool combined = all.size() > 1 || !others.empty();
    if (refusal->kind == Refusal::Kind::failed && combined) {
      all.insert(all.end(), others.begin(), others.end());
      fails_together(all, *refusal);
      refusal->kind = Refusal::Kind::unsupported;
    }
    return reply;
  }
  const auto* answer = std::get_if<AttentionAnswer>(&reply);
  const auto wrong = [](std::string_view what) {
    return Refusal{Refusal::Kind::failed, std::string(what)};
  };
  const Index batch = problem.batch(), heads = problem.num_heads(), rows = problem.seq_len_q();
  if (answer->out.shape() != std::array{batch, heads, rows, problem.value_dim()}) {
    return wrong("out has another shape than [batch, num_heads, seq_len_q, value_dim]");
  }
  if (problem.want_lse &&
      (!answer->lse || answer->lse->shape() != std::array{batch, heads, rows})) {
    return wrong("lse is missing or has another shape than [batch, num_heads, seq_len_q]");
  }
  if (problem.want_weights &&
      (!answer->weights ||
       answer->weights->shape() != std::array{batch, heads, rows, problem.seq_len_k()})) {
    return wrong("A is missing or has another shape than [batch, num_heads, seq_len_q, seq_len_k]");
  }
  if (problem.d_out && (!answer->gradients || answer->gradients->d_q.shape() != problem.q.shape() ||
                        answer->gradients->d_k.shape() != problem.k.shape() ||
                        answer->gradients->d_v.shape() != problem.v.shape())) {
    return wrong("d_q, d_k or d_v is missing or has another shape than q, k, v");
  }
  return reply;
}

void Asker::fails_together(const std::vector<std::string_view>& extras, const Refusal& refusal) {
  const auto holds = [](const auto& outer, const auto& inner) {
    return std::all_of(inner.begin(), inner.end(), [&](std::string_view name) {
      return std::find(outer.begin(), outer.end(), name) != outer.end();
    });
  };
  auto& all = failed_together_;
  if (std::any_of(all.begin(), all.end(),
                  [&](const auto& known) { return holds(extras, known.first); })) {
    return;
  }
  std::erase_if(all, [&](const auto& known) { return holds(known.first, extras); });
  all.emplace_back(extras, refusal);
}

std::vector<Declined> Asker::failed_together() const {
  std::vector<Declined> list;
  for (const auto& [extras, refusal] : failed_together_) {
    std::string what;
    for (std::string_view name : extras) what += (what.empty() ? "" : " + ") + std::string(name);
    if (!list.empty() && list.back().refusal.why == refusal.why) {
      list.back().what += ", " + what;
    } else {
      list.push_back({std::move(what), refusal});
    }
  }
  return list;
}

AttentionAnswer Asker::ask(const AttentionProblem& problem) {
  AttentionReply answer = reply(problem);
  if (auto* refusal = std::get_if<Refusal>(&answer)) throw Refused{std::move(*refusal)};
  return std::get<AttentionAnswer>(std::move(answer));
}

void Asker::distract(const AttentionProblem& problem) {
  AttentionReply answer = reply(problem);
  auto* refusal = std::get_if<Refusal>(&answer);
  if (refusal != nullptr && refusal->kind == Refusal::Kind::unsupported) {
    throw Refused{std::move(*refusal)};
  }
}

Tensor<double, 4> Asker::recover_A(const AttentionProblem& problem) {
  const auto [batch, kv_heads, seq_len_k, value_dim] = problem.v.shape();
  if (value_dim == 0) {
    throw Refused{{Refusal::Kind::unsupported, "values without channels don't show the weights"}};
  }
  Tensor<double, 4> A({batch, problem.num_heads(), problem.seq_len_q(), seq_len_k});
  AttentionProblem asked = problem;
  asked.d_out.reset();
  asked.want_lse = asked.want_weights = false;
  for (Index first = 0; first < seq_len_k; first += value_dim) {
    const Index columns = std::min(value_dim, seq_len_k - first);
    asked.v = Tensor<float, 4>(problem.v.shape());
    for (Index b = 0; b < batch; ++b) {
      for (Index h = 0; h < kv_heads; ++h) {
        for (Index c = 0; c < columns; ++c) asked.v(b, h, first + c, c) = 1;
      }
    }
    const AttentionAnswer answer = ask(asked);
    for (Index b = 0; b < batch; ++b) {
      for (Index h = 0; h < problem.num_heads(); ++h) {
        for (Index i = 0; i < problem.seq_len_q(); ++i) {
          for (Index c = 0; c < columns; ++c) A(b, h, i, first + c) = answer.out(b, h, i, c);
        }
      }
    }
  }
  return A;
}

namespace {

Index multiple_near(Index about, Index multiple) {
  return std::max(multiple, (about + multiple / 2) / multiple * multiple);
}

}  // namespace

Index Draw::length(Index about) const {
  const Index multiple = domain.length_multiple;
  assert(multiple <= domain.max_length);
  return std::min(multiple_near(about, multiple), domain.max_length / multiple * multiple);
}

Index Draw::dim(Index about) const {
  if (domain.head_dims.empty()) return about;
  Index best = 0;
  for (Index accepted : domain.head_dims) {
    if (accepted >= about && (best < about || accepted < best)) best = accepted;
    if (accepted < about && accepted > best) best = accepted;
  }
  return best;
}

Sizes Draw::sizes() {
  // A dozen cases with at most four positions and two channels, then larger ones.
  const Features& has = domain.features;
  const Index most = case_number < 12 ? 4 : case_number < 30 ? 9 : 20;
  Index about = 1 + below(most);
  if (regime == "single") about = 1;
  if (regime == "lanes") {
    constexpr Index lengths[] = {7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65};
    about = lengths[below(12)];
  }
  if (regime == "long") about = 100 + below(case_number < 30 ? 60 : 250);
  constexpr Index dims[] = {2, 1, 2, 3, 4, 5, 8, 16, 17, 64};
  constexpr Index wide_dims[] = {24, 32, 40, 48, 80, 96, 128, 160, 256};
  // Many channels or many heads go with few positions.
  const bool wide = case_number >= 12 && about <= 20 && chance(6);
  const bool many_heads =
      case_number >= 12 && about <= 20 && !wide && has.has(Feature::heads) && chance(6);
  if (wide || many_heads) about = 1 + below(4);
  Sizes sizes;
  sizes.seq_len_q = sizes.seq_len_k = length(about);
  sizes.head_dim = dim(wide ? wide_dims[below(9)] : dims[below(case_number < 12 ? 3 : 10)]);
  sizes.value_dim = sizes.head_dim;
  if (has.has(Feature::value_dim) && chance(3)) {
    sizes.value_dim = dim(1 + below(case_number < 12 ? 3 : 9));
  }
  if (has.has(Feature::batches)) sizes.batch = 1 + below(case_number < 12 ? 2 : 3);
  if (has.has(Feature::heads)) sizes.num_heads = 1 + below(case_number < 12 ? 2 : 3);
  if (many_heads) sizes.num_heads = chance(2) ? 8 : 12;
  sizes.num_kv_heads = sizes.num_heads;
  if (has.has(Feature::grouped_heads) && many_heads) {
    constexpr Index shared[] = {1, 2, 4};  // heads of keys: groups of 2 to 12
    sizes.num_kv_heads = shared[below(3)];
  } else if (has.has(Feature::grouped_heads) && chance(4)) {
    sizes.num_heads *= 1 + below(3);
  }
  return sizes;
}

Sizes Draw::rectangular_sizes() {
  Sizes drawn = sizes();
  if (domain.features.has(Feature::rectangular)) {
    drawn.seq_len_k = length(1 + below(2 * drawn.seq_len_q + 2));
  }
  return drawn;
}

Tensor<float, 4> Draw::tensor(std::array<Index, 4> shape) {
  Tensor<float, 4> tensor = generator.randn(shape[0], shape[1], shape[2], shape[3]);
  const Index dim = shape[3];
  const Dtype dtype = domain.dtype;
  if (regime == "one-hot" || regime == "tied") {
    for (Index row = 0; dim > 0 && row < tensor.size() / dim; ++row) {
      float* values = tensor.data() + row * dim;
      const Index hot = below(dim);
      for (Index c = 0; c < dim; ++c) {
        values[c] = regime == "tied" ? 1.0F : c == hot ? 3.0F : 0.0F;
      }
    }
  }
  for (float& value : tensor) {
    if (regime == "tiny") value *= dtype == Dtype::float16 ? 0x1p-12F : 0x1p-60F;
    value = rounded(value, dtype);
  }
  return tensor;
}

bool Draw::either_causal() {
  const Features& has = domain.features;
  if (!has.has(Feature::causal)) return false;
  return !has.has(Feature::non_causal) || !chance(3);
}

AttentionProblem Draw::problem(const Sizes& sizes, bool causal) {
  AttentionProblem problem;
  problem.q = tensor({sizes.batch, sizes.num_heads, sizes.seq_len_q, sizes.head_dim});
  problem.k = tensor({sizes.batch, sizes.num_kv_heads, sizes.seq_len_k, sizes.head_dim});
  problem.v = tensor({sizes.batch, sizes.num_kv_heads, sizes.seq_len_k, sizes.value_dim});
  problem.causal = causal ? Causal::top_left : Causal::none;
  const bool half = domain.dtype == Dtype::float16;
  if (regime == "tied") {  // equal keys tie the scores; values tell positions apart
    for (Index at = 0; at < problem.v.size(); ++at) {
      problem.v.data()[at] = static_cast<float>(at % 7 - 3);
    }
  }
  if (regime == "huge-scores") {
    // Scores up to 10^30, far beyond what a finite stand-in for minus infinity allows for.
    constexpr float factors[] = {30, 1e3F, 1e6F, 1e15F};
    const float factor = half ? factors[below(2)] / 10 : factors[below(4)];
    for (auto* tensor : {&problem.q, &problem.k}) {
      for (float& value : *tensor) value = rounded(value * factor, domain.dtype);
    }
  }
  if (regime == "denormal") {
    const float unit = half ? 0x1p-24F : domain.dtype == Dtype::bfloat16 ? 0x1p-133F : 0x1p-149F;
    for (float& value : problem.v) value = unit * std::nearbyint(64 * value);
  }
  return problem;
}

}  // namespace headproof
