#include "headproof/attention_subject.h"

#include <array>
#include <utility>

#include "attention/canonical.h"
#include "subjects/guarded.h"

namespace headproof {
namespace {

constexpr std::array<std::string_view, 4> dtype_names = {"float32", "float64", "float16",
                                                         "bfloat16"};
constexpr std::array<std::string_view, 2> layout_names = {"bhsd", "bshd"};
constexpr std::array<std::string_view, feature_count> feature_names = {
    "causal",        "non_causal", "rectangular",  "value_dim", "zero_sizes", "batches", "heads",
    "grouped_heads", "scale",      "query_offset", "window",    "softcap",    "mask",    "bias",
    "key_length",    "lse",        "weights",      "backward",  "threads",    "strides", "decode"};

template <class Enum, std::size_t Count>
std::optional<Enum> find(const std::array<std::string_view, Count>& names, std::string_view name) {
  for (std::size_t at = 0; at < Count; ++at) {
    if (names[at] == name) return static_cast<Enum>(at);
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(Dtype dtype) { return dtype_names[static_cast<std::size_t>(dtype)]; }
std::string_view name_of(Layout layout) { return layout_names[static_cast<std::size_t>(layout)]; }
std::string_view name_of(Feature feature) {
  return feature_names[static_cast<std::size_t>(feature)];
}
std::optional<Dtype> dtype_of(std::string_view name) { return find<Dtype>(dtype_names, name); }
std::optional<Layout> layout_of(std::string_view name) { return find<Layout>(layout_names, name); }
std::optional<Feature> feature_of(std::string_view name) {
  return find<Feature>(feature_names, name);
}

Features Features::all() {
  Features features;
  features.bits_ = (1U << feature_count) - 1;
  return features;
}

AttentionOptions AttentionProblem::options() const {
  AttentionOptions options;
  options.causal = causal;
  options.scale = scale;
  options.query_offset = query_offset;
  options.window = window;
  options.softcap = softcap;
  if (mask) options.mask = mask->view();
  if (bias) options.mask = bias->view();
  options.key_length = {key_length.data(), {static_cast<Index>(key_length.size())}};
  return options;
}

namespace {

template <class To, class From, std::size_t Rank>
Tensor<To, Rank> converted(const Tensor<From, Rank>& tensor) {
  Tensor<To, Rank> other(tensor.shape());
  std::copy(tensor.begin(), tensor.end(), other.begin());
  return other;
}

/// q, k or v as the problem wants it to lie in memory.
template <class Scalar>
class Placed {
 public:
  Placed(const Tensor<float, 4>& tensor, const AttentionProblem& problem) {
    const auto [b, heads, t, c] = tensor.shape();
    if (problem.strided) {  // heads inside positions, and a gap of NaN behind each row
      const bool apart = problem.strided_channels;  // one behind each channel, the last one first
      const bool one = heads > 1 && heads_are_equal(tensor);
      const Index h = one ? 1 : heads;
      const Index width = (apart ? 2 : 1) * c + 3;
      memory_.assign(static_cast<std::size_t>(b * t * h * width + 1),
                     std::numeric_limits<Scalar>::quiet_NaN());
      view = {memory_.data() + (apart ? 2 * std::max<Index>(c, 1) - 1 : 1),
              tensor.shape(),
              {t * h * width, one ? 0 : width, h * width, apart ? -2 : 1}};
    } else {
      memory_.resize(static_cast<std::size_t>(tensor.size()));
      view = {memory_.data(), tensor.shape()};
    }
    auto from = tensor.begin();
    view.for_each([&](Scalar& value) { value = static_cast<Scalar>(*from++); });
  }
  View<Scalar, 4> view;

 private:
  std::vector<Scalar> memory_;
};

enum class Way { reference, canonical, fused };

template <class Scalar>
class Builtin final : public AttentionSubject {
 public:
  Builtin(std::string name, Way way) : name_(std::move(name)), way_(way) {}

  std::string name() const override { return name_; }

  Domain domain() const override {
    Domain domain;
    domain.dtype = std::is_same_v<Scalar, float> ? Dtype::float32 : Dtype::float64;
    domain.features = Features::all();
    for (Feature missing : {Feature::threads, Feature::decode}) domain.features.set(missing, false);
    if (way_ != Way::reference) domain.features.set(Feature::weights, false);
    return domain;
  }

  AttentionReply attend(const AttentionProblem& problem) override {
    const AttentionOptions options = problem.options();
    if (auto error =
            attention_error(problem.q.shape(), problem.k.shape(), problem.v.shape(), options)) {
      return Refusal{Refusal::Kind::failed, error->message};
    }
    const Placed<Scalar> q(problem.q, problem), k(problem.k, problem), v(problem.v, problem);
    AttentionAnswer answer;
    if (way_ == Way::reference) {
      const auto stages = attention_reference<Scalar>(q.view, k.view, v.view, options);
      answer.out = converted<double>(stages.out);
      if (problem.want_lse) answer.lse = converted<double>(stages.lse);
      if (problem.want_weights) answer.weights = converted<double>(stages.A);
      if (problem.d_out) {
        const auto d_out = converted<Scalar>(*problem.d_out);
        widen(attention_reference_backward<Scalar>(stages, q.view, k.view, v.view, d_out, options),
              answer);
      }
      return answer;
    }
    const auto output = way_ == Way::canonical
                            ? attention_canonical<Scalar>(q.view, k.view, v.view, options)
                            : attention<Scalar>(q.view, k.view, v.view, options).value();
    answer.out = converted<double>(output.out);
    if (problem.want_lse) answer.lse = converted<double>(output.lse);
    if (problem.d_out) {
      const auto d_out = converted<Scalar>(*problem.d_out);
      widen(way_ == Way::canonical
                ? attention_canonical_backward<Scalar>(q.view, k.view, v.view, output.out,
                                                       output.lse, d_out, options)
                : attention_backward<Scalar>(q.view, k.view, v.view, output.out, output.lse, d_out,
                                             options)
                      .value(),
            answer);
    }
    return answer;
  }

 private:
  static void widen(const AttentionGradients<Scalar>& gradients, AttentionAnswer& answer) {
    answer.gradients = AttentionGradients<double>{converted<double>(gradients.d_q),
                                                  converted<double>(gradients.d_k),
                                                  converted<double>(gradients.d_v)};
  }

  std::string name_;
  Way way_;
};

class FunctionSubject final : public AttentionSubject {
 public:
  FunctionSubject(std::string name, Domain domain,
                  std::function<AttentionReply(const AttentionProblem&)> function)
      : name_(std::move(name)), domain_(std::move(domain)), function_(std::move(function)) {}
  std::string name() const override { return name_; }
  Domain domain() const override { return domain_; }
  AttentionReply attend(const AttentionProblem& problem) override { return function_(problem); }

 private:
  std::string name_;
  Domain domain_;
  std::function<AttentionReply(const AttentionProblem&)> function_;
};

}  // namespace

std::unique_ptr<AttentionSubject> builtin_attention(std::string_view name) {
  if (name == "reference") return std::make_unique<Builtin<float>>("reference", Way::reference);
  if (name == "canonical") return std::make_unique<Builtin<float>>("canonical", Way::canonical);
  if (name == "fused") return std::make_unique<Builtin<float>>("fused", Way::fused);
  if (name == "float64") return std::make_unique<Builtin<double>>("float64", Way::reference);
  return nullptr;
}

std::unique_ptr<AttentionSubject> function_attention(
    std::string name, Domain domain,
    std::function<AttentionReply(const AttentionProblem& problem)> function) {
  return std::make_unique<FunctionSubject>(std::move(name), std::move(domain), std::move(function));
}

}  // namespace headproof
