#include "checker/identify.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "checker/cases.h"
#include "theorems/attention_oracle.h"
#include "theorems/attention_theorem.h"
#include "theorems/findings.h"

namespace headproof {
namespace {

/// A small gaussian problem of these sizes.
AttentionProblem gaussian(const Domain& domain, const Sizes& sizes, bool causal) {
  Draw draw(domain, 1, 0, "gaussian");
  return draw.problem(sizes, causal);
}

/// The sizes that every other probe starts from.
struct Base {
  Index head_dim = 0, length = 0;
  Sizes sizes() const {
    Sizes sizes;
    sizes.seq_len_q = sizes.seq_len_k = length;
    sizes.head_dim = sizes.value_dim = head_dim;
    return sizes;
  }
};

/// The problem with which a feature is tried; nothing when the declaration settles it.
std::optional<AttentionProblem> trial(Feature feature, const Domain& domain, const Base& base) {
  const bool causal = domain.features.has(Feature::causal);
  Sizes sizes = base.sizes();
  const auto with = [&](auto&& change) {
    AttentionProblem problem = gaussian(domain, sizes, causal);
    change(problem);
    return problem;
  };
  const std::array<Index, 4> rows_by_keys = {1, 1, base.length, base.length};
  switch (feature) {
    case Feature::causal:
      return gaussian(domain, sizes, true);
    case Feature::non_causal:
      return gaussian(domain, sizes, false);
    case Feature::rectangular:
      sizes.seq_len_k = 2 * base.length;
      if (sizes.seq_len_k > domain.max_length) return std::nullopt;
      return gaussian(domain, sizes, causal);
    case Feature::value_dim:
      sizes.value_dim = domain.head_dims.empty() ? base.head_dim + 1 : domain.head_dims.front();
      if (sizes.value_dim == base.head_dim) sizes.value_dim = domain.head_dims.back();
      if (sizes.value_dim == base.head_dim) return std::nullopt;
      return gaussian(domain, sizes, causal);
    case Feature::zero_sizes:
      sizes.batch = 0;
      return gaussian(domain, sizes, causal);
    case Feature::batches:
      sizes.batch = 2;
      return gaussian(domain, sizes, causal);
    case Feature::heads:
      sizes.num_heads = sizes.num_kv_heads = 2;
      return gaussian(domain, sizes, causal);
    case Feature::grouped_heads:
      sizes.num_heads = 2;
      return gaussian(domain, sizes, causal);
    case Feature::scale:
      return with([](auto& p) { p.scale = 0.25; });
    case Feature::query_offset:
      return with([](auto& p) { p.query_offset = 1; });
    case Feature::window:
      return with([](auto& p) { p.window = 2; });
    case Feature::softcap:
      return with([](auto& p) { p.softcap = 2; });
    case Feature::mask:
      return with([&](auto& p) {
        p.causal = domain.features.has(Feature::non_causal) ? Causal::none : p.causal;
        p.mask = Tensor<bool, 4>(rows_by_keys);
        std::fill(p.mask->begin(), p.mask->end(), true);
      });
    case Feature::bias:
      return with([&](auto& p) {
        p.causal = domain.features.has(Feature::non_causal) ? Causal::none : p.causal;
        p.bias = Tensor<float, 4>(rows_by_keys);
      });
    case Feature::key_length:
      return with([&](auto& p) { p.key_length = {base.length}; });
    case Feature::lse:
      return with([](auto& p) { p.want_lse = true; });
    case Feature::weights:
      return with([](auto& p) { p.want_weights = true; });
    case Feature::backward:
      return with([](auto& p) { p.d_out = Tensor<float, 4>(p.v.shape()); });
    case Feature::threads:
      return with([](auto& p) { p.threads = 1; });
    case Feature::strides:
      return with([](auto& p) { p.strided = true; });
    case Feature::decode:
      return with([](auto& p) { p.decode = true; });
  }
  return std::nullopt;
}

/// Asks a subject for what it declares, one thing at a time.
class Prober {
 public:
  explicit Prober(AttentionSubject& subject) : subject_(subject) {
    probed_.domain = subject.domain();
  }

  Probed run() {
    Domain& domain = probed_.domain;
    const Index longest = domain.max_length / domain.length_multiple * domain.length_multiple;
    if (longest == 0) {
      return silent({Refusal::Kind::failed, "its max_length " + std::to_string(domain.max_length) +
                                                " is below its length_multiple " +
                                                std::to_string(domain.length_multiple) +
                                                ", so that it accepts no length"});
    }
    const auto refusal = find_base(longest);
    if (refusal) return silent(*refusal);
    if (domain.head_dims.empty()) narrow_dims();
    narrow_lengths(longest);
    for (int at = 0; at < feature_count; ++at) {
      const auto feature = static_cast<Feature>(at);
      if (!domain.features.has(feature)) continue;
      const auto problem = trial(feature, domain, base_);
      domain.features.set(feature, problem && answers(std::string(name_of(feature)), *problem));
    }
    return std::move(probed_);
  }

 private:
  Probed silent(Refusal refusal) {
    probed_.silent = std::move(refusal);
    return std::move(probed_);
  }

  AttentionReply reply(const AttentionProblem& problem) {
    // Each thing is tried alone, with the mask or without, and no combination is to blame.
    Domain alone = probed_.domain;
    alone.features.set(Feature::non_causal, false);
    return Asker(subject_, alone, {}).reply(problem);
  }

  bool answers(std::string what, const AttentionProblem& problem) {
    AttentionReply answer = reply(problem);
    auto* refusal = std::get_if<Refusal>(&answer);
    if (refusal != nullptr && refusal->kind != Refusal::Kind::unsupported) {
      decline(std::move(what), std::move(*refusal));
    }
    return refusal == nullptr;
  }

  /// What fails alike in turn is told together.
  void decline(std::string what, Refusal refusal) {
    std::vector<Declined>& all = probed_.declined;
    if (!all.empty() && all.back().refusal.why == refusal.why) {
      all.back().what += ", " + what;
    } else {
      all.push_back({std::move(what), std::move(refusal)});
    }
  }

  bool accepts(std::string what, Index head_dim, Index length) {
    const Domain& domain = probed_.domain;
    const Sizes sizes = Base{head_dim, length}.sizes();
    return answers(std::move(what), gaussian(domain, sizes, domain.features.has(Feature::causal)));
  }

  /// Sizes that are answered, causal or not; the first refusal when there are none. The first
  /// question may take long (compiling, tuning), so it is a plain one.
  std::optional<Refusal> find_base(Index longest) {
    const Domain& domain = probed_.domain;
    std::vector<Index> dims = {16, 64, 32, 128, 8, 4, 2, 1, 24, 40, 48, 80, 96, 160, 256};
    if (!domain.head_dims.empty()) {
      const auto rank = [usual = dims](Index dim) {
        return std::find(usual.begin(), usual.end(), dim) - usual.begin();
      };
      dims = domain.head_dims;
      std::stable_sort(dims.begin(), dims.end(),
                       [&](Index a, Index b) { return rank(a) < rank(b); });
    }
    std::vector<Index> lengths;
    for (Index about : {16, 128, 4, 96, 1}) {
      const Index multiple = domain.length_multiple;
      const Index length = std::min(std::max(multiple, about / multiple * multiple), longest);
      if (std::find(lengths.begin(), lengths.end(), length) == lengths.end()) {
        lengths.push_back(length);
      }
    }
    std::optional<Refusal> first;
    std::optional<Clock::time_point> start;
    int crashes = 0;
    for (Index head_dim : dims) {
      for (Index length : lengths) {
        for (bool causal : {true, false}) {
          if (!domain.features.has(causal ? Feature::causal : Feature::non_causal)) continue;
          base_ = {head_dim, length};
          AttentionReply answer = reply(gaussian(domain, base_.sizes(), causal));
          auto* refusal = std::get_if<Refusal>(&answer);
          if (refusal == nullptr) return std::nullopt;
          if (!first) first = *refusal;
          // One that hangs at once will do so again, and one that ends again and again too.
          const bool crashed = refusal->kind == Refusal::Kind::crashed;
          const bool ends = first->kind == Refusal::Kind::timed_out || (crashed && ++crashes == 6);
          if (crashed) {
            decline("length " + std::to_string(length) + " with head_dim " +
                        std::to_string(head_dim) + (causal ? "" : " without causality"),
                    std::move(*refusal));
          }
          if (!start) start = Clock::now();
          if (ends || since(*start) > 10) return first;
        }
      }
    }
    return first ? first
                 : Refusal{Refusal::Kind::unsupported,
                           "it offers neither causal nor non_causal attention"};
  }

  void narrow_dims() {
    std::vector<Index> tried = {1,  2,  3,  4,  5,  8,  16,  17,  24,
                                32, 40, 48, 64, 80, 96, 128, 160, 256};
    std::vector<Index> accepted;
    for (Index head_dim : tried) {
      if (accepts("head_dim " + std::to_string(head_dim), head_dim, base_.length)) {
        accepted.push_back(head_dim);
      }
    }
    if (accepted.size() < tried.size()) probed_.domain.head_dims = accepted;
  }

  void narrow_lengths(Index longest) {
    const auto takes_multiples_of = [&](Index multiple) {
      for (Index length : {multiple, 3 * multiple}) {
        if (length > longest) continue;
        if (!accepts("length " + std::to_string(length), base_.head_dim, length)) return false;
      }
      return true;
    };
    const Index declared = probed_.domain.length_multiple;
    Index multiple = declared;
    while (multiple < base_.length &&
           (base_.length % multiple != 0 || !takes_multiples_of(multiple))) {
      multiple += declared;
    }
    probed_.domain.length_multiple = multiple;
    base_.length = std::max(multiple, std::min(Index{4}, longest) / multiple * multiple);
  }

  AttentionSubject& subject_;
  Probed probed_;
  Base base_;
};

}  // namespace

Probed probe_domain(AttentionSubject& subject) { return Prober(subject).run(); }

namespace {

/// Whether the answer is the one that these conventions give.
bool fits(const AttentionAnswer& answer, const AttentionProblem& problem, const Domain& domain,
          const Conventions& conventions) {
  const AttentionOracle oracle(problem, domain, conventions);
  auto got = answer.out.begin();
  auto bound = oracle.out_error.begin();
  for (double expected : oracle.stages.out) {
    if (!(std::fabs(*got++ - expected) <= *bound++)) return false;
  }
  return true;
}

/// Which of the values of a convention the answer to `problem` follows; "other" when none does.
std::string follow(Asker& asker, const AttentionProblem& problem, std::string Conventions::*which,
                   std::initializer_list<const char*> values) {
  try {
    const AttentionAnswer answer = asker.ask(problem);
    for (const char* value : values) {
      Conventions tried = asker.conventions;
      tried.*which = value;
      if (fits(answer, problem, asker.domain, tried)) return value;
    }
    return "other";
  } catch (const Refused&) {
    return "";
  }
}

std::string empty_row(Asker& asker, const AttentionProblem& problem, Index b, Index i) {
  try {
    const AttentionAnswer answer = asker.ask(problem);
    bool zero = true, nan = true, mean = true;
    for (Index c = 0; c < problem.value_dim(); ++c) {
      const double value = answer.out(b, 0, i, c);
      double sum = 0;
      for (Index j = 0; j < problem.seq_len_k(); ++j) sum += problem.v(b, 0, j, c);
      const double average = sum / static_cast<double>(problem.seq_len_k());
      zero &= value == 0;
      nan &= std::isnan(value);
      mean &= std::fabs(value - average) <= static_cast<double>(problem.seq_len_k() + 4) *
                                                roundoff_of(asker.domain.dtype).weight *
                                                (std::fabs(average) + 4);
    }
    return zero ? "zero" : nan ? "nan" : mean ? "mean_of_values" : "other";
  } catch (const Refused&) {
    return "";
  }
}

/// The scale in use, by least squares over differences of ln A.
std::string scale_in_use(Asker& asker, const AttentionProblem& problem) {
  try {
    const Tensor<double, 4> A = asker.recover_A(problem);
    const AttentionOracle oracle(problem, asker.domain, asker.conventions);
    const double usual = 1 / std::sqrt(static_cast<double>(problem.head_dim()));
    double products = 0, squares = 0;
    bool right = true;
    for (Index i = 0; i < problem.seq_len_q(); ++i) {
      for (Index j = 0; j < problem.seq_len_k(); ++j) {
        if (!oracle.allowed(0, 0, i, j)) continue;
        right &= std::fabs(A(0, 0, i, j) - oracle.stages.A(0, 0, i, j)) <=
                 oracle.weight_error(0, 0, i, j);
        if (!(A(0, 0, i, j) > 0) || !(A(0, 0, i, 0) > 0)) continue;
        const double expected =
            (oracle.stages.scores(0, 0, i, j) - oracle.stages.scores(0, 0, i, 0)) / usual;
        products += expected * (std::log(A(0, 0, i, j)) - std::log(A(0, 0, i, 0)));
        squares += expected * expected;
      }
    }
    if (right) return "1/sqrt(head_dim)";
    return number(products / squares) + " at head_dim " + std::to_string(problem.head_dim());
  } catch (const Refused&) {
    return "";
  }
}

}  // namespace

Conventions identify(AttentionSubject& subject, const Domain& domain) {
  Conventions found;
  const Features& has = domain.features;
  const bool open = has.has(Feature::non_causal), causal = has.has(Feature::causal);
  Draw draw(domain, 2, 0, "gaussian");
  Sizes sizes;
  sizes.seq_len_q = sizes.seq_len_k = draw.length(4);
  sizes.head_dim = sizes.value_dim =
      domain.head_dims.empty()
          ? 4
          : *std::min_element(domain.head_dims.begin(), domain.head_dims.end());
  const auto asker = [&] { return Asker(subject, domain, found); };
  const auto new_problem = [&](bool is_causal) { return draw.problem(sizes, is_causal); };

  Asker first = asker();
  found.scale = scale_in_use(first, new_problem(!open));
  if (has.has(Feature::rectangular) && causal) {
    Sizes wide = sizes;
    wide.seq_len_k = draw.length(2 * wide.seq_len_q);
    AttentionProblem problem = draw.problem(wide, true);
    Asker asks = asker();
    found.corner = follow(asks, problem, &Conventions::corner, {"top_left", "bottom_right"});
    problem.causal = Causal::bottom_right;
    const std::string other =
        follow(asks, problem, &Conventions::corner, {"top_left", "bottom_right"});
    if (found.corner == "top_left" && other == "bottom_right") found.corner = "as_asked";
    if (found.corner == "bottom_right" && has.has(Feature::key_length)) {
      problem.key_length = {wide.seq_len_k - 1};
      Asker corner_known = asker();
      found.padding_corner =
          follow(corner_known, problem, &Conventions::padding_corner, {"unpadded", "padded"});
    }
  }
  if (has.has(Feature::grouped_heads)) {
    Sizes grouped = sizes;
    grouped.num_heads = 4;
    grouped.num_kv_heads = 2;
    Asker asks = asker();
    found.kv_map =
        follow(asks, draw.problem(grouped, !open), &Conventions::kv_map, {"grouped", "tiled"});
  }
  if (has.has(Feature::mask)) {
    AttentionProblem problem = new_problem(!open);
    problem.mask = Tensor<bool, 4>({1, 1, sizes.seq_len_q, sizes.seq_len_k});
    for (Index i = 0; i < sizes.seq_len_q; ++i) {
      for (Index j = 0; j < sizes.seq_len_k; ++j) (*problem.mask)(0, 0, i, j) = (i + j) % 2 == 0;
    }
    // Both readings leave every row a key, the causal one too, as the mask has an alternating row.
    if (open) {
      Asker asks = asker();
      found.mask_true = follow(asks, problem, &Conventions::mask_true, {"may_attend", "masked"});
    }
    for (Index j = 0; j < sizes.seq_len_k; ++j) {
      for (Index i = 0; i < sizes.seq_len_q; ++i) {
        (*problem.mask)(0, 0, i, j) = (i > 0) == (found.mask_true != "masked");
      }
    }
    Asker asks = asker();
    found.empty_row = empty_row(asks, problem, 0, 0);
  } else if (has.has(Feature::bias)) {
    AttentionProblem problem = new_problem(!open);
    problem.bias = Tensor<float, 4>({1, 1, sizes.seq_len_q, sizes.seq_len_k});
    for (Index j = 0; j < sizes.seq_len_k; ++j) {
      (*problem.bias)(0, 0, 0, j) = -std::numeric_limits<float>::infinity();
    }
    Asker asks = asker();
    found.empty_row = empty_row(asks, problem, 0, 0);
  } else if (has.has(Feature::key_length)) {
    AttentionProblem problem = new_problem(!open);
    problem.key_length = {0};
    Asker asks = asker();
    found.empty_row = empty_row(asks, problem, 0, 0);
  } else if (found.corner == "bottom_right" || found.corner == "as_asked") {
    Sizes tall = sizes;
    tall.seq_len_q = draw.length(2 * tall.seq_len_k);
    AttentionProblem problem = draw.problem(tall, true);
    problem.causal = Causal::bottom_right;
    Asker asks = asker();
    found.empty_row = empty_row(asks, problem, 0, 0);
  }
  if (has.has(Feature::softcap) && has.has(Feature::bias)) {
    AttentionProblem problem = new_problem(!open);
    problem.softcap = 1.5;
    problem.bias = draw.tensor({1, 1, sizes.seq_len_q, sizes.seq_len_k});
    Asker asks = asker();
    found.softcap_order =
        follow(asks, problem, &Conventions::softcap_order, {"before_mask", "after_mask"});
  }
  if (has.has(Feature::window)) {
    Sizes longer = sizes;
    longer.seq_len_q = longer.seq_len_k = draw.length(8);
    AttentionProblem problem = draw.problem(longer, causal);
    problem.window = 2;
    Asker asks = asker();
    found.window_counts_self =
        follow(asks, problem, &Conventions::window_counts_self, {"yes", "no"});
  }
  {
    AttentionProblem problem = new_problem(!open);
    problem.v(0, 0, 0, 0) = std::numeric_limits<float>::quiet_NaN();
    Asker asks = asker();
    const AttentionReply reply = asks.reply(problem);
    if (const auto* answer = std::get_if<AttentionAnswer>(&reply)) {
      found.nan_policy =
          std::isnan(answer->out(0, 0, sizes.seq_len_q - 1, 0)) ? "propagates" : "hides";
    }
  }
  if (has.has(Feature::lse)) {
    AttentionProblem problem = new_problem(!open);
    problem.want_lse = true;
    try {
      const AttentionAnswer answer = asker().ask(problem);
      found.lse_base = "other";
      for (const char* base : {"2", "e"}) {
        Conventions tried = found;
        tried.lse_base = base;
        const AttentionOracle oracle(problem, domain, tried);
        const Index i = sizes.seq_len_q - 1;
        if (std::fabs((*answer.lse)(0, 0, i) - oracle.stages.lse(0, 0, i)) <=
            oracle.lse_error(0, 0, i)) {
          found.lse_base = base;
        }
      }
    } catch (const Refused&) {
    }
  }
  return found;
}

}  // namespace headproof
