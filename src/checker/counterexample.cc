#include "checker/counterexample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "theorems/attention_gradient_oracle.h"
#include "theorems/num_common.h"

namespace headproof {
namespace {

/// A batch element, and a head of queries with the head of keys that it reads.
struct HeadShown {
  Index batch = 0, of_queries = 0, of_keys = 0;

  static bool has_keys(Place::Result result) {
    return result == Place::Result::d_k || result == Place::Result::d_v;
  }
  Index in(Place::Result result) const { return has_keys(result) ? of_keys : of_queries; }
};

/// The head that holds a place; the first of those that read it, where it is one of keys.
HeadShown head_of(const Place& place, const AttentionProblem& problem,
                  const Conventions& conventions) {
  for (Index h = 0; h < problem.num_heads() && place.batch < problem.batch(); ++h) {
    const HeadShown head{place.batch, h, kv_head(problem, conventions, h)};
    if (head.in(place.result) == place.head) return head;
  }
  return {};
}

/// Of a result the entry that is farthest beyond its bound, the first of several; one that must be
/// 0 goes before all others, because it is a leak and they are what follows from it.
std::optional<Place> worst(Place::Result result, const AttentionAnswer& came,
                           const AttentionAnswer& should_be, const AttentionAnswer& errors,
                           const HeadShown* only) {
  const auto is = result_of(came, result), right = result_of(should_be, result);
  if (!is || !right || is->shape() != right->shape()) return std::nullopt;
  const Tensor<double, 4> bound = *result_of(errors, result);
  std::optional<Place> found;
  std::pair<bool, double> gravest;
  for (Index at = 0; at < is->size(); ++at) {
    const Place place = place_of(*is, at, {.result = result});
    if (only != nullptr && (place.batch != only->batch || place.head != only->in(result))) continue;
    const double expected = right->data()[at], most = bound.data()[at];
    double error = std::fabs(is->data()[at] - expected);
    if (!std::isfinite(expected) || error <= most) continue;
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    const std::pair gravity(expected == 0 && most == 0, error);
    if (found && gravity <= gravest) continue;
    gravest = gravity;
    found = place;
  }
  return found;
}

/// Rows that may see nothing are judged by convention, not by the definition's zeros.
void allow_anything_in_empty_rows(Tensor<double, 4>& out_error, const AttentionOracle& oracle) {
  const auto [batch, heads, rows, channels] = out_error.shape();
  for (Index b = 0; b < batch; ++b) {
    for (Index h = 0; h < heads; ++h) {
      for (Index i = 0; i < rows; ++i) {
        if (sees_any(oracle, b, h, i)) continue;
        std::fill_n(out_error[b][h][i].data, channels, std::numeric_limits<double>::infinity());
      }
    }
  }
}

/// Axes of size 1 stand for all.
template <class T>
NamedMatrix matrix(std::string name, const Tensor<T, 4>& tensor, Index b, Index h, bool given) {
  const auto shape = tensor.shape();
  NamedMatrix matrix{std::move(name), Tensor<double, 2>({shape[2], shape[3]}), given};
  const auto head = tensor[shape[0] == 1 ? 0 : b][shape[1] == 1 ? 0 : h];
  for (Index i = 0; i < shape[2]; ++i) {
    for (Index c = 0; c < shape[3]; ++c) matrix.values(i, c) = static_cast<double>(head(i, c));
  }
  return matrix;
}

std::vector<NamedMatrix> given(const AttentionProblem& problem, const HeadShown& head) {
  const auto [b, h, kv] = head;
  std::vector<NamedMatrix> all = {matrix("q", problem.q, b, h, true),
                                  matrix("k", problem.k, b, kv, true),
                                  matrix("v", problem.v, b, kv, true)};
  if (problem.mask) all.push_back(matrix("mask", *problem.mask, b, h, true));
  if (problem.bias) all.push_back(matrix("bias", *problem.bias, b, h, true));
  if (problem.d_out) all.push_back(matrix("d_out", *problem.d_out, b, h, true));
  return all;
}

}  // namespace

Definition definition_of(const AttentionProblem& problem, const Domain& domain,
                         const Conventions& conventions) {
  const AttentionOracle oracle(problem, domain, conventions);
  Definition definition;
  definition.values.out = oracle.stages.out;
  definition.values.weights = oracle.stages.A;
  definition.errors.out = oracle.out_error;
  definition.errors.weights = oracle.weight_error;
  if (!conventions.empty_row.empty() && conventions.empty_row != "zero") {
    allow_anything_in_empty_rows(definition.errors.out, oracle);
  }
  if (problem.want_lse) {
    definition.values.lse = oracle.stages.lse;
    definition.errors.lse = oracle.lse_error;
  }
  if (problem.d_out) {
    AttentionGradientOracle backward(problem, domain, conventions, oracle);
    definition.values.gradients = std::move(backward.gradients);
    definition.errors.gradients = std::move(backward.errors);
  }
  return definition;
}

CounterexampleView view_of(const Counterexample& example, const Domain& domain,
                           const Conventions& conventions) {
  const AttentionProblem& problem = example.problem;
  CounterexampleView view;
  if (problem.batch() == 0 || problem.num_heads() == 0 || problem.num_kv_heads() == 0) return view;
  AttentionAnswer came;
  const auto* answer = std::get_if<AttentionAnswer>(&example.reply);
  if (answer != nullptr) came = *answer;
  came.weights = example.A_used;
  const AttentionAnswer& right = example.should_be;
  const AttentionAnswer errors = definition_of(problem, domain, conventions).errors;
  const auto wrong_in = [&](Place::Result result, const HeadShown* only) {
    return worst(result, came, right, errors, only);
  };
  std::optional<Place> about = example.place;
  if (!about) about = wrong_in(Place::Result::A, nullptr);
  if (!about) about = wrong_in(Place::Result::out, nullptr);
  const HeadShown head = head_of(about.value_or(Place()), problem, conventions);
  view.batch = head.batch;
  view.head = head.of_queries;
  view.given = given(problem, head);

  // What the sentence is about, as far as the question was asked that the problem is.
  Place::Result told = about ? about->result : Place::Result::out;
  if (told == Place::Result::A || !result_of(came, told) || !result_of(right, told))
    told = Place::Result::out;
  const auto wrong_A = wrong_in(Place::Result::A, &head), wrong = wrong_in(told, &head);
  const auto compare = [&](Place::Result result, const std::optional<Place>& place) {
    const std::string name(name_of(result));
    const Index h = head.in(result);
    view.compared.push_back(
        {result, matrix(name + " as it is", *result_of(came, result), head.batch, h, false),
         matrix(name + " as it should be", *result_of(right, result), head.batch, h, false)});
    if (!place) return;
    Comparison& compared = view.compared.back();
    compared.is.wrong = compared.should_be.wrong = {place->row, place->column.value_or(0)};
  };
  if (wrong_A) compare(Place::Result::A, wrong_A);
  // Where the weights are wrong and the values don't show it, out says nothing.
  if (answer != nullptr && (told != Place::Result::out || wrong || !wrong_A)) compare(told, wrong);
  for (Place::Result result : {Place::Result::d_q, Place::Result::d_k, Place::Result::d_v}) {
    const auto also = result_of(came, result);
    if (!also || result == told) continue;
    view.also.push_back(
        matrix(std::string(name_of(result)), *also, head.batch, head.in(result), false));
  }
  if (const auto& middle = wrong_A ? wrong_A : wrong ? wrong : about) {
    view.query = view.key = middle->row;
    if (wrong_A) view.key = *wrong_A->column;
  }
  return view;
}

}  // namespace headproof
