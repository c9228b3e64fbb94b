#include <cmath>
#include <nlohmann/json.hpp>

#include "checker/conventions.h"
#include "checker/report.h"
#include "prose/math.h"

namespace headproof {
namespace {

using nlohmann::json;

json number_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

template <class T, std::size_t Rank>
json tensor_json(const Tensor<T, Rank>& tensor) {
  json values = json::array();
  for (const T value : tensor) {
    if constexpr (std::is_same_v<T, bool>) {
      values.push_back(value);
    } else {
      values.push_back(number_json(static_cast<double>(value)));
    }
  }
  return {{"shape", tensor.shape()}, {"values", std::move(values)}};
}

template <class T>
json optional_json(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

template <class T, std::size_t Rank>
json optional_json(const std::optional<Tensor<T, Rank>>& tensor) {
  return tensor ? tensor_json(*tensor) : json();
}

json domain_json(const Domain& domain) {
  json features = json::object();
  for (int at = 0; at < feature_count; ++at) {
    const auto feature = static_cast<Feature>(at);
    features[std::string(name_of(feature))] = domain.features.has(feature);
  }
  return {{"dtype", name_of(domain.dtype)},  {"layout", name_of(domain.layout)},
          {"head_dims", domain.head_dims},   {"length_multiple", domain.length_multiple},
          {"max_length", domain.max_length}, {"features", std::move(features)}};
}

json conventions_json(const Conventions& conventions) {
  json all = {{"bitwise", json::object()}};
  for (const ConventionFound& found : conventions_found(conventions)) {
    const json value = found.value.empty() ? json() : json(found.value);
    if (found.bitwise) {
      all["bitwise"][found.key.substr(found.key.find('.') + 1)] = value;
    } else {
      all[found.key] = value;
    }
  }
  return all;
}

std::string_view name_of(Causal causal) {
  return causal == Causal::none ? "none" : causal == Causal::top_left ? "top_left" : "bottom_right";
}

json problem_json(const AttentionProblem& problem) {
  return {{"q", tensor_json(problem.q)},
          {"k", tensor_json(problem.k)},
          {"v", tensor_json(problem.v)},
          {"causal", name_of(problem.causal)},
          {"scale", optional_json(problem.scale)},
          {"query_offset", optional_json(problem.query_offset)},
          {"window", optional_json(problem.window)},
          {"softcap", problem.softcap},
          {"mask", optional_json(problem.mask)},
          {"bias", optional_json(problem.bias)},
          {"key_length", problem.key_length},
          {"threads", problem.threads},
          {"strided", problem.strided},
          {"strided_channels", problem.strided && problem.strided_channels},
          {"decode", problem.decode},
          {"d_out", optional_json(problem.d_out)}};
}

json answer_json(const AttentionAnswer& answer) {
  json entry = {{"out", tensor_json(answer.out)},
                {"lse", optional_json(answer.lse)},
                {"A", optional_json(answer.weights)}};
  if (answer.gradients) {
    entry["d_q"] = tensor_json(answer.gradients->d_q);
    entry["d_k"] = tensor_json(answer.gradients->d_k);
    entry["d_v"] = tensor_json(answer.gradients->d_v);
  }
  return entry;
}

json reply_json(const AttentionReply& reply) {
  if (const auto* refusal = std::get_if<Refusal>(&reply)) return {{"refused", refusal->why}};
  const auto& answer = std::get<AttentionAnswer>(reply);
  json entry = answer_json(answer);
  entry["inputs_changed"] = answer.inputs_changed;
  return entry;
}

json place_json(const Place& place) {
  return {{"result", name_of(place.result)},
          {"batch", place.batch},
          {"head", place.head},
          {"row", place.row},
          {"column", optional_json(place.column)}};
}

json counterexample_json(const Counterexample& example) {
  json entry = answer_json(example.should_be);
  entry.update({{"problem", problem_json(example.problem)},
                {"reply", reply_json(example.reply)},
                {"A_used", optional_json(example.A_used)},
                {"note", example.note},
                {"place", example.place ? place_json(*example.place) : json()},
                {"regime", example.regime},
                {"replay", example.replay}});
  return entry;
}

json theorem_json(const TheoremReport& theorem) {
  json findings = json::array();
  for (const Finding& finding : theorem.findings) {
    json entry = {{"what", math_to_text(finding.what)},
                  {"claim", name_of(finding.claim)},
                  {"outcome", name_of(finding.outcome)},
                  {"note", finding.note}};
    if (finding.claim == Claim::bounded) {
      entry["error"] = number_json(finding.error);
      entry["bound"] = number_json(finding.bound);
    }
    findings.push_back(std::move(entry));
  }
  json entry = {{"id", theorem.id},
                {"title", math_to_text(theorem.title)},
                {"statement", math_to_text(theorem.statement)},
                {"statement_tex", theorem.statement},
                {"claim", name_of(theorem.claim)},
                {"outcome", name_of(theorem.outcome)},
                {"verdict", verdict_word(theorem)},
                {"gates", theorem.gates},
                {"expected", theorem.expected},
                {"fails", fails(theorem)},
                {"used", number_json(theorem.used)},
                {"cases", theorem.cases},
                {"out_of_time", theorem.out_of_time},
                {"why", theorem.why},
                {"findings", std::move(findings)},
                {"counterexample", nullptr}};
  if (theorem.counterexample)
    entry["counterexample"] = counterexample_json(*theorem.counterexample);
  return entry;
}

}  // namespace

std::string report_json(const Report& report) {
  json theorems = json::array();
  for (const TheoremReport& theorem : report.theorems) theorems.push_back(theorem_json(theorem));
  json declined = json::array();
  for (const auto* all : {&report.declined, &report.failed_together}) {
    for (const Declined& each : *all) {
      declined.push_back({{"what", each.what}, {"why", each.refusal.why}});
    }
  }
  const json document = {{"schema_version", 1},
                         {"command", "check"},
                         {"subject", report.subject},
                         {"seed", report.seed},
                         {"seconds", report.seconds},
                         {"exit_code", report.exit_code()},
                         {"summary", summary_text(report)},
                         {"domain", domain_json(report.domain)},
                         {"declined", std::move(declined)},
                         {"conventions", conventions_json(report.conventions)},
                         {"theorems", std::move(theorems)},
                         {"no_longer_violated", report.no_longer_violated},
                         {"strict", report.strict}};
  // What a subject says may hold bytes that are not UTF-8.
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace headproof
