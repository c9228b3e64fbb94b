#include "theorems/num_common.h"

#include <algorithm>
#include <array>
#include <limits>

namespace headproof {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// A mask's shape: full axes, or 1 for all.
std::array<Index, 4> mask_shape(Draw& draw, const AttentionProblem& problem) {
  return {draw.chance(2) ? 1 : problem.batch(), draw.chance(2) ? 1 : problem.num_heads(),
          draw.chance(4) ? 1 : problem.seq_len_q(), draw.chance(4) ? 1 : problem.seq_len_k()};
}

/// Which keys a mask of this shape allows: some at random, or none before a late one.
Tensor<bool, 4> pattern(Draw& draw, const std::array<Index, 4>& shape) {
  Tensor<bool, 4> allowed(shape);
  const Index first = draw.chance(3) ? draw.below(shape[3]) : 0;
  Index j = 0;
  for (bool& may : allowed) {
    may = first > 0 ? j >= first : !draw.chance(3);
    j = (j + 1) % shape[3];
  }
  return allowed;
}

}  // namespace

Sizes modest(const Draw& draw, Sizes sizes) {
  constexpr Index most = 1 << 17;
  const auto too_large = [&] {
    return sizes.batch * sizes.num_heads * sizes.seq_len_q * sizes.seq_len_k *
               (sizes.head_dim + sizes.value_dim + 8) >
           most;
  };
  const std::vector<Index>& dims = draw.domain.head_dims;
  if (too_large()) sizes.batch = 1;
  if (too_large()) {
    sizes.head_dim = sizes.value_dim = dims.empty() ? std::min<Index>(sizes.head_dim, 2)
                                                    : *std::min_element(dims.begin(), dims.end());
  }
  if (too_large()) {
    sizes.num_heads /= sizes.num_kv_heads;
    sizes.num_kv_heads = 1;
  }
  if (too_large()) {
    sizes.seq_len_q = std::min(sizes.seq_len_q, draw.length(130));
    sizes.seq_len_k = std::min(sizes.seq_len_k, draw.length(130));
  }
  return sizes;
}

AttentionProblem draw_plain(Draw& draw) {
  // One draw a statement: the order in which arguments are evaluated is the compiler's.
  const Sizes sizes = modest(draw, draw.rectangular_sizes());
  const bool causal = draw.either_causal();
  return draw.problem(sizes, causal);
}

void add_mask(Draw& draw, AttentionProblem& problem) {
  problem.mask = pattern(draw, mask_shape(draw, problem));
}

void add_bias(Draw& draw, AttentionProblem& problem) {
  problem.bias = draw.tensor(mask_shape(draw, problem));
  // Where all of a row is low, a sum in a narrow type loses the scores or overflows.
  const float factor = draw.chance(3) ? 1e4F : 2;
  for (float& value : *problem.bias) value = rounded(value * factor, draw.domain.dtype);
  if (draw.chance(2)) {
    const Tensor<bool, 4> allowed = pattern(draw, problem.bias->shape());
    auto may = allowed.begin();
    for (float& value : *problem.bias) {
      if (!*may++) value = -infinity;
    }
  }
}

void add_key_length(Draw& draw, AttentionProblem& problem) {
  problem.key_length.clear();
  for (Index b = 0; b < problem.batch(); ++b) {
    problem.key_length.push_back(draw.chance(6) ? 0 : 1 + draw.below(problem.seq_len_k()));
  }
}

void add_window(Draw& draw, AttentionProblem& problem) {
  if (draw.domain.features.has(Feature::causal)) problem.causal = Causal::top_left;
  problem.window = 1 + draw.below(draw.chance(2) ? 4 : problem.seq_len_k());
}

void add_query_offset(Draw& draw, AttentionProblem& problem) {
  if (draw.domain.features.has(Feature::causal)) problem.causal = Causal::top_left;
  problem.query_offset = draw.below(problem.seq_len_k() + 1);
}

void add_softcap(Draw& draw, AttentionProblem& problem) {
  constexpr double caps[] = {0.5, 1, 2, 20, 30, 5, 50};
  problem.softcap = caps[draw.case_number % 7];
}

void add_scale(Draw& draw, AttentionProblem& problem) {
  // Among them fractions that no dtype holds exactly.
  constexpr double scales[] = {-0.5, 2, 0.3, 0, 0.088, -1, 1.7};
  problem.scale = scales[draw.case_number % 7];
}

void add_d_out(Draw& draw, AttentionProblem& problem) {
  const std::array<Index, 4> shape = {problem.batch(), problem.num_heads(), problem.seq_len_q(),
                                      problem.value_dim()};
  problem.d_out = draw.tensor(shape);
  const bool sparse = draw.chance(2);
  for (Index row = 0; sparse && shape[3] > 0 && row < problem.d_out->size() / shape[3]; ++row) {
    if (draw.chance(2)) std::fill_n(problem.d_out->data() + row * shape[3], shape[3], 0.0F);
  }
}

void hide_keys(Draw& draw, AttentionProblem& problem) {
  const Features& has = draw.domain.features;
  std::vector<std::function<void()>> ways;
  if (has.has(Feature::causal)) ways.emplace_back([&] { problem.causal = Causal::top_left; });
  if (has.has(Feature::mask)) ways.emplace_back([&] { add_mask(draw, problem); });
  if (has.has(Feature::bias)) ways.emplace_back([&] { add_bias(draw, problem); });
  if (has.has(Feature::key_length)) ways.emplace_back([&] { add_key_length(draw, problem); });
  if (has.has(Feature::window)) ways.emplace_back([&] { add_window(draw, problem); });
  if (ways.empty()) return;
  const auto count = static_cast<Index>(ways.size());
  ways[static_cast<std::size_t>(draw.below(count))]();
  if (draw.case_number >= 12 && draw.chance(2)) ways[static_cast<std::size_t>(draw.below(count))]();
  if (problem.mask && problem.bias) problem.bias.reset();
}

void add_options(Draw& draw, AttentionProblem& problem) {
  struct Option {
    Feature feature;
    void (*add)(Draw&, AttentionProblem&);
  };
  constexpr Option all[] = {
      {Feature::scale, add_scale},
      {Feature::softcap, add_softcap},
      {Feature::mask, add_mask},
      {Feature::bias, add_bias},
      {Feature::key_length, add_key_length},
      {Feature::window, add_window},
      {Feature::query_offset, add_query_offset},
      {Feature::lse, [](Draw&, AttentionProblem& p) { p.want_lse = true; }},
      {Feature::weights, [](Draw&, AttentionProblem& p) { p.want_weights = true; }},
      {Feature::strides,
       [](Draw& d, AttentionProblem& p) {
         p.strided = true;
         p.strided_channels = d.case_number % 3 == 2;
       }},
      {Feature::backward, add_d_out},
      {Feature::threads,
       [](Draw& d, AttentionProblem& p) {
         constexpr int threads[] = {1, 2, 3, 7};
         p.threads = threads[d.case_number % 4];
       }},
      // With padding it is as in decoding with a cache that is longer than what it holds.
      {Feature::causal,
       [](Draw& d, AttentionProblem& p) {
         p.causal = Causal::bottom_right;
         if (d.domain.features.has(Feature::key_length) && d.chance(2)) add_key_length(d, p);
       }},
  };
  std::vector<Option> offered;
  for (const Option& option : all) {
    if (draw.domain.features.has(option.feature)) offered.push_back(option);
  }
  // Each has its turn; others join it now and then, at first seldom.
  const auto turn =
      static_cast<std::size_t>(draw.case_number) % std::max<std::size_t>(offered.size(), 1);
  for (std::size_t at = 0; at < offered.size(); ++at) {
    if (at == turn || draw.chance(draw.case_number < 24 ? 6 : 3)) offered[at].add(draw, problem);
  }
  if (problem.mask && problem.bias) problem.bias.reset();
  if (problem.causal == Causal::bottom_right) problem.query_offset.reset();
}

std::optional<std::string> open_question(const Asker& asker, const AttentionProblem& problem) {
  if (problem.causal == Causal::none || problem.query_offset || problem.key_length.empty()) {
    return std::nullopt;
  }
  // Who takes either corner as it is asked for is told which one that is; who knows one corner only
  // may count from the last key or from the last that is no padding.
  const std::string& corner = asker.conventions.corner;
  const bool told = corner == "as_asked" || corner == "top_left";
  if (corner == "bottom_right" ? asker.conventions.padding_corner.empty()
                               : problem.causal == Causal::bottom_right && !told) {
    return "whether the bottom right corner is that of the padded keys is not said";
  }
  return std::nullopt;
}

AttentionProblem batch_element(const AttentionProblem& problem, Index b) {
  AttentionProblem alone = problem;
  for (auto* tensor : {&alone.q, &alone.k, &alone.v}) *tensor = part(*tensor, 0, b, 1);
  if (alone.mask) alone.mask = part(*alone.mask, 0, b, 1, true);
  if (alone.bias) alone.bias = part(*alone.bias, 0, b, 1, true);
  if (alone.d_out) alone.d_out = part(*alone.d_out, 0, b, 1);
  if (!alone.key_length.empty()) {
    alone.key_length = {problem.key_length[static_cast<std::size_t>(b)]};
  }
  return alone;
}

AttentionProblem one_head(const AttentionProblem& problem, const Conventions& conventions,
                          Index h) {
  AttentionProblem alone = problem;
  const Index kv = kv_head(problem, conventions, h);
  alone.q = part(problem.q, 1, h, 1);
  alone.k = part(problem.k, 1, kv, 1);
  alone.v = part(problem.v, 1, kv, 1);
  if (alone.mask) alone.mask = part(*alone.mask, 1, h, 1, true);
  if (alone.bias) alone.bias = part(*alone.bias, 1, h, 1, true);
  if (alone.d_out) alone.d_out = part(*alone.d_out, 1, h, 1);
  return alone;
}

AttentionProblem queries(const AttentionProblem& problem, Index first, Index count) {
  AttentionProblem fewer = problem;
  fewer.q = part(problem.q, 2, first, count);
  if (fewer.mask) fewer.mask = part(*fewer.mask, 2, first, count, true);
  if (fewer.bias) fewer.bias = part(*fewer.bias, 2, first, count, true);
  if (fewer.d_out) fewer.d_out = part(*fewer.d_out, 2, first, count);
  return fewer;
}

AttentionProblem first_keys(const AttentionProblem& problem, Index count) {
  AttentionProblem fewer = problem;
  fewer.k = part(problem.k, 2, 0, count);
  fewer.v = part(problem.v, 2, 0, count);
  if (fewer.mask) fewer.mask = part(*fewer.mask, 3, 0, count, true);
  if (fewer.bias) fewer.bias = part(*fewer.bias, 3, 0, count, true);
  for (Index& length : fewer.key_length) length = std::min(length, count);
  return fewer;
}

Index kv_head(const AttentionProblem& problem, const Conventions& conventions, Index h) {
  const Index kv_heads = problem.num_kv_heads();
  return conventions.kv_map == "tiled" ? h % kv_heads : h / (problem.num_heads() / kv_heads);
}

std::vector<Index> few(Index count) {
  std::vector<Index> positions;
  if (count <= 4) {
    for (Index at = 0; at < count; ++at) positions.push_back(at);
  } else {
    positions = {0, 1, count / 2, count - 1};
  }
  return positions;
}

bool sees_any(const AttentionOracle& oracle, Index b, Index h, Index i) {
  const View<const bool, 1> row = oracle.allowed()[b][h][i];
  return std::find(row.data, row.data + row.shape[0], true) != row.data + row.shape[0];
}

void compare_close(Checked& claim, const Tensor<double, 4>& got, const Tensor<double, 4>& other,
                   const Tensor<double, 4>& error, double times, std::string_view other_name,
                   const Rows& rows, Index first) {
  const std::array<Index, 4> shape = got.shape();
  for (Index b = 0; b < shape[0]; ++b) {
    for (Index h = 0; h < shape[1]; ++h) {
      for (Index i = 0; i < shape[2]; ++i) {
        if (!rows(b, h, i)) continue;
        for (Index c = 0; c < shape[3]; ++c) {
          const double value = got(b, h, i, c), expected = other(b, h, i, c);
          if (!std::isfinite(value) && !std::isfinite(expected)) continue;
          claim.within(std::fabs(value - expected), times * error(b, h, i, c), [&] {
            return place(b, h, first + i, c) + ": " + number(value) + ", " +
                   std::string(other_name) + " " + number(expected);
          });
        }
      }
    }
  }
}

void compare_bits(Checked& claim, const AttentionAnswer& got, const AttentionAnswer& other,
                  const std::string& what, const Place& origin) {
  using Result = Place::Result;
  Place from = origin;
  for (Result result : {Result::out, Result::lse, Result::d_q, Result::d_k, Result::d_v}) {
    from.result = result;
    const auto one = result_of(got, result), two = result_of(other, result);
    for (Index at = 0; one && two && at < one->size(); ++at) {
      const double a = one->data()[at], b = two->data()[at];
      claim.require(same_bits(a, b), [&] {
        char text[96];
        std::snprintf(text, sizeof text, ": %.17g instead of %.17g", a, b);
        return told(place_of(*one, at, from)) + ", " + what + text;
      });
    }
  }
}

}  // namespace headproof
