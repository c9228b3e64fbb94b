#include "lecture/lecture_pictures.h"

#include <algorithm>
#include <array>
#include <functional>
#include <future>
#include <optional>
#include <utility>

#include "headproof/head.h"
#include "lecture/sections.h"

namespace headproof {
namespace {

using Matrix = Tensor<float, 2>;

Matrix matrix(const Lecture& lecture, const std::string& name) {
  return to_tensor<float, 2>(lecture.tensor(name)).value();
}

/// (i + 1) A_ij: the weight relative to that of a running mean.
Matrix relative_to_mean(const Matrix& A) {
  Matrix relative = A;
  for (Index i = 0; i < A.shape()[0]; ++i) {
    for (Index j = 0; j < A.shape()[1]; ++j) relative(i, j) *= static_cast<float>(i + 1);
  }
  return relative;
}

HeatMap causal_map(std::string title, const Matrix& values,
                   const std::vector<std::string>& labels) {
  return {.title = std::move(title),
          .values = values.view(),
          .query_labels = labels,
          .key_labels = labels,
          .hide_above_diagonal = true};
}

/// Matrices side by side twice: as they are, and relative to the running mean, from 1 / `reach` to
/// `reach` times.
Result<std::string> draw_two_views(const std::string& title, const std::string& caption,
                                   const std::vector<std::string>& titles,
                                   const std::vector<Matrix>& matrices,
                                   const std::vector<std::string>& labels, double reach,
                                   PictureFormat format) {
  std::vector<Matrix> relative;
  for (const Matrix& A : matrices) relative.push_back(relative_to_mean(A));
  HeatMapGroup plain, scaled;
  for (std::size_t n = 0; n < matrices.size(); ++n) {
    plain.maps.push_back(causal_map(titles[n], matrices[n], labels));
    scaled.maps.push_back(causal_map("", relative[n], labels));
  }
  plain.scale.label = "weight Aᵢⱼ";
  scaled.scale = {.label = "(i + 1) Aᵢⱼ (running mean: 1)",
                  .low = 1 / reach,
                  .high = reach,
                  .middle = 1.0,
                  .logarithmic = true};
  return draw(HeatMapPicture{title, caption, {{plain}, {scaled}}}, format);
}

Result<std::string> draw_five_seeds(const Lecture& lecture, PictureFormat format) {
  std::vector<Matrix> matrices;
  std::vector<std::string> titles;
  for (int seed = 0; seed < 5; ++seed) {
    const std::string number = std::to_string(seed);
    titles.push_back("seed " + number);
    matrices.push_back(matrix(lecture, "h_seed" + number + "_A"));
  }
  return draw_two_views(
      "Untrained causal attention on the first 48 characters, five seeds",
      "Lower-triangular with a positive diagonal; rows sum to 1. Above, A itself, where A₀₀ = 1 "
      "takes the "
      "whole scale. Below, (i + 1) Aᵢⱼ, in which 1 is the weight of a running mean.",
      titles, matrices, visible_labels(lecture.shown), 8, format);
}

Result<std::string> draw_kernels(const Lecture& lecture, PictureFormat format) {
  std::vector<Matrix> matrices;
  for (const char* s : {"0.5", "2", "8", "inf"}) {
    matrices.push_back(matrix(lecture, std::string("kernel_A_s") + s));
  }
  return draw_two_views(
      "Attention as kernel smoothing: scores −(i − j)² / (2s²) on 48 positions",
      "A Gaussian smoother of bandwidth s, cut off at the diagonal and normalised row by row; "
      "s = ∞ (W_Q = W_K = 0) is the running mean, which below is 1 everywhere.",
      {"s = 0.5", "s = 2", "s = 8", "s = ∞, running mean"}, matrices, {}, 64, format);
}

Result<std::string> draw_saturation(const Lecture& lecture, PictureFormat format) {
  std::vector<double> d_k, largest_raw, largest_scaled, jacobian_raw, jacobian_scaled;
  for (const Saturation& point : lecture.saturation) {
    d_k.push_back(static_cast<double>(point.d_k));
    largest_raw.push_back(point.largest_raw);
    largest_scaled.push_back(point.largest_scaled);
    jacobian_raw.push_back(point.jacobian_raw);
    jacobian_scaled.push_back(point.jacobian_scaled);
  }
  const auto chart = [&](std::string title, std::string y_label, std::vector<double>& raw,
                         std::vector<double>& scaled) {
    return Chart{.title = std::move(title),
                 .x_label = "head dimension dₖ",
                 .y_label = std::move(y_label),
                 .log_x = true,
                 .lines = {{"raw scores", d_k, raw}, {"divided by √dₖ", d_k, scaled}},
                 .x_ticks = d_k,
                 .y_low = 0};
  };
  ChartPicture picture{
      "Why the scores are divided by √dₖ",
      "Means over 256 rows of 8 scores q · k with independent entries of mean 0 and variance 1.",
      {chart("Largest weight of a row", "mean of maxⱼ pⱼ", largest_raw, largest_scaled),
       chart("Norm of the softmax Jacobian", "mean of ‖diag(p) − p pᵀ‖", jacobian_raw,
             jacobian_scaled)}};
  picture.charts[0].y_high = 1;
  return draw(picture, format);
}

Result<std::string> draw_singular_values(const Lecture& lecture, PictureFormat format) {
  std::vector<double> index;
  for (std::size_t n = 1; n <= lecture.singular_values_S.size(); ++n) {
    index.push_back(static_cast<double>(n));
  }
  const Chart chart{.title = "",
                    .x_label = "singular value, by size",
                    .y_label = "its size",
                    .log_y = true,
                    .lines = {{"S = QKᵀ", index, lecture.singular_values_S},
                              {"A = softmax(S / √dₖ)", index, lecture.singular_values_A}},
                    .marks = {{8.5, "dₖ = 8"}},
                    .x_ticks = {1, 8, 16, 24, 32}};
  return draw(
      ChartPicture{
          "The rank of the scores is 8, that of the weights is full",
          "32 × 32 matrices of a head with dₖ = 8. After the eighth, what S has left is rounding "
          "noise; the softmax is not linear, and A has all 32.",
          {chart}},
      format);
}

Result<std::string> draw_stages(const Lecture& lecture, PictureFormat format) {
  constexpr Index shown = 16;  // causal: what comes later changes none of it
  const auto x = to_tensor<float, 3>(lecture.tensor("xin")).value();
  const auto stages =
      head_forward<float>(x, matrix(lecture, "h_seed0_query"), matrix(lecture, "h_seed0_key"),
                          matrix(lecture, "h_seed0_value"), true);
  auto labels = visible_labels(lecture.shown);
  labels.resize(shown);
  const auto corner = [&](const Tensor<float, 4>& all, std::string title, bool causal) {
    HeatMap map{.title = std::move(title),
                .values = all.view()[0][0],
                .query_labels = labels,
                .key_labels = labels,
                .hide_above_diagonal = causal};
    map.values.shape = {shown, shown};
    return map;
  };
  const auto& attention = stages.attention;
  const HeatMapGroup scores{{corner(attention.scores, "scores: q kᵀ / √dₖ", false)},
                            {.label = "score", .low = {}, .high = {}, .middle = 0.0}};
  const HeatMapGroup logits{
      {corner(attention.logits, "logits: −∞ where j > i", true)},
      {.label = "logit", .low = {}, .high = {}, .middle = 0.0, .hidden_label = "−∞"}};
  const HeatMapGroup weights{{corner(attention.A, "A: softmax of each row", true)},
                             {.label = "weight"}};
  return draw(
      HeatMapPicture{"The stages of one head",
                     "The seed-0 head on the first 16 characters: every pair is scored, the "
                     "mask removes the future, the softmax makes each row sum to 1.",
                     {{scores, logits, weights}}},
      format);
}

}  // namespace

Result<std::vector<DrawnPicture>> draw_lecture_pictures(const Lecture& lecture,
                                                        const std::vector<PictureFormat>& formats) {
  using Draw = Result<std::string> (*)(const Lecture&, PictureFormat);
  constexpr std::pair<const char*, Draw> all[] = {{"five_seeds", draw_five_seeds},
                                                  {"kernels", draw_kernels},
                                                  {"lemma_4_5", draw_saturation},
                                                  {"singular_values", draw_singular_values},
                                                  {"stages", draw_stages}};
  struct Pending {
    std::string name;
    PictureFormat format;
    std::future<Result<std::string>> bytes;
  };
  std::vector<Pending> pending;
  for (PictureFormat format : formats) {
    for (const auto& [name, draw_one] : all) {
      pending.push_back(
          {name, format, std::async(std::launch::async, draw_one, std::cref(lecture), format)});
    }
  }
  std::vector<DrawnPicture> pictures;
  std::optional<Error> error;
  for (Pending& one : pending) {
    auto bytes = one.bytes.get();
    if (!bytes) {
      error = bytes.error();
    } else {
      pictures.push_back({one.name, one.format, std::move(*bytes)});
    }
  }
  if (error) return *error;
  return pictures;
}

}  // namespace headproof
