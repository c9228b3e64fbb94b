#include "subjects/recorded_subject.h"

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "headproof/files.h"
#include "headproof/npy.h"

namespace headproof {

Result<RecordedOptions> parse_recorded_options(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return Error{"is no JSON object"};
  RecordedOptions options;
  if (!json.contains("causal")) return Error{"has no \"causal\""};
  for (const auto& [key, value] : json.items()) {
    if (key == "causal") {
      if (value == true || value == "top_left") {
        options.causal = Causal::top_left;
      } else if (value == "bottom_right") {
        options.causal = Causal::bottom_right;
      } else if (value != false) {
        return Error{"has a \"causal\" that is not true, false, \"top_left\" or \"bottom_right\""};
      }
    } else if (key == "scale") {
      if (value.is_null()) continue;
      if (!value.is_number() || !std::isfinite(value.get<double>())) {
        return Error{"has a \"scale\" that is no finite number"};
      }
      options.scale = value.get<double>();
    } else if (key == "dtype") {
      const auto dtype = value.is_string() ? dtype_of(value.get<std::string>()) : std::nullopt;
      if (!dtype) return Error{"has a \"dtype\" that is not float32, float64, float16 or bfloat16"};
      options.dtype = *dtype;
    } else {
      return Error{"has a key besides \"causal\", \"scale\" and \"dtype\""};
    }
  }
  return options;
}

namespace {

template <class T>
bool same(const Tensor<T, 4>& a, const Tensor<T, 4>& b) {
  return a.shape() == b.shape() &&
         (a.size() == 0 ||
          std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(T)) == 0);
}

class Recorded final : public AttentionSubject {
 public:
  Recorded(std::string name, Domain domain, AttentionProblem problem, AttentionAnswer answer)
      : name_(std::move(name)),
        domain_(std::move(domain)),
        problem_(std::move(problem)),
        answer_(std::move(answer)) {}

  std::string name() const override { return name_; }
  Domain domain() const override { return domain_; }
  std::optional<AttentionProblem> only_problem() const override { return problem_; }

  AttentionReply attend(const AttentionProblem& asked) override {
    const bool plain = !asked.query_offset && !asked.window && asked.softcap == 0 && !asked.mask &&
                       !asked.bias && asked.key_length.empty() && asked.threads == 0 &&
                       !asked.strided && !asked.decode && !asked.want_lse && !asked.d_out;
    if (!plain || asked.causal != problem_.causal || asked.scale != problem_.scale ||
        !same(asked.q, problem_.q) || !same(asked.k, problem_.k) || !same(asked.v, problem_.v)) {
      return Refusal{Refusal::Kind::unsupported,
                     "a recording answers only the question that was recorded"};
    }
    if (asked.want_weights && !answer_.weights) {
      return Refusal{Refusal::Kind::unsupported, "A was not recorded"};
    }
    return answer_;
  }

 private:
  std::string name_;
  Domain domain_;
  AttentionProblem problem_;
  AttentionAnswer answer_;
};

/// NAME.npy with axes of size 1 before those that it has.
template <class T>
Result<Tensor<T, 4>> read_tensor(const std::filesystem::path& folder, const char* name) {
  const std::filesystem::path file = folder / (std::string(name) + ".npy");
  auto array = read_npy(file);
  if (!array) return array.error();
  while (array->shape.size() < 4) array->shape.insert(array->shape.begin(), 1);
  if constexpr (std::is_same_v<T, double>) {
    if (const auto* floats = std::get_if<std::vector<float>>(&array->values)) {
      array->values = std::vector<double>(floats->begin(), floats->end());
    }
  }
  auto tensor = to_tensor<T, 4>(*array);
  if (!tensor) return Error{"cannot use " + file.string() + ": " + tensor.error().message};
  return tensor;
}

}  // namespace

Result<std::unique_ptr<AttentionSubject>> recorded_subject(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "problem.json";
  const auto text = read_file(file);
  if (!text) return text.error();
  const auto options = parse_recorded_options(*text);
  if (!options) return Error{file.string() + " " + options.error().message};
  AttentionProblem problem;
  problem.causal = options->causal;
  problem.scale = options->scale;
  for (auto [name, tensor] :
       {std::pair("q", &problem.q), std::pair("k", &problem.k), std::pair("v", &problem.v)}) {
    auto read = read_tensor<float>(folder, name);
    if (!read) return read.error();
    *tensor = std::move(*read);
  }
  if (auto error = attention_error(problem.q.shape(), problem.k.shape(), problem.v.shape(),
                                   problem.options())) {
    return Error{folder.string() + ": " + error->message};
  }
  AttentionAnswer answer;
  auto out = read_tensor<double>(folder, "out");
  if (!out) return out.error();
  answer.out = std::move(*out);
  if (answer.out.shape() !=
      std::array{problem.batch(), problem.num_heads(), problem.seq_len_q(), problem.value_dim()}) {
    return Error{(folder / "out.npy").string() +
                 " has another shape than [batch, num_heads, seq_len_q, value_dim]"};
  }
  Domain domain;
  domain.dtype = options->dtype;
  domain.features = {Feature::rectangular, Feature::value_dim, Feature::zero_sizes,
                     Feature::batches,     Feature::heads,     Feature::grouped_heads,
                     Feature::scale};
  domain.features.set(problem.causal == Causal::none ? Feature::non_causal : Feature::causal, true);
  if (std::filesystem::exists(folder / "A.npy")) {
    auto weights = read_tensor<double>(folder, "A");
    if (!weights) return weights.error();
    if (weights->shape() != std::array{problem.batch(), problem.num_heads(), problem.seq_len_q(),
                                       problem.seq_len_k()}) {
      return Error{(folder / "A.npy").string() +
                   " has another shape than [batch, num_heads, seq_len_q, seq_len_k]"};
    }
    answer.weights = std::move(*weights);
    domain.features.set(Feature::weights, true);
  }
  return std::unique_ptr<AttentionSubject>(std::make_unique<Recorded>(
      "recorded:" + folder.string(), std::move(domain), std::move(problem), std::move(answer)));
}

}  // namespace headproof
