// The words of Python and PyTorch that step4.cpp borrows from its notebook. The library has no use
// for them: they are short and clear rather than fast.
#pragma once

#include <headproof/files.h>
#include <headproof/head.h>
#include <headproof/pictures.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace notebook {

using headproof::Index;
using headproof::View;
using Batch = headproof::Tensor<float, 3>;  // [batch, position, channel]
using Matrix = headproof::Tensor<float, 2>;
using Ids = headproof::Tensor<Index, 1>;

/// assert claim
inline void check(bool holds, const char* claim) {
  std::printf("%-6s %s\n", holds ? "holds" : "FAILS", claim);
  if (!holds) std::exit(1);
}

/// F.softmax(S, -1), or with Causal::top_left F.softmax(S.masked_fill(tril == 0, -inf), -1): the
/// weights of attention whose queries are S, whose keys are the identity, and whose scale is 1.
inline Matrix softmax(const Matrix& S, headproof::Causal causal = headproof::Causal::none) {
  Matrix identity({S.shape()[1], S.shape()[1]});
  for (Index j = 0; j < S.shape()[1]; ++j) identity(j, j) = 1;
  const auto one_head = [](const Matrix& m) { return m.view().with_axis(0).with_axis(0); };
  const auto stages = headproof::attention_reference<float>(one_head(S), one_head(identity),
                                                            one_head(identity), {causal, 1.0});
  return Matrix(stages.A.view()[0][0]);
}

/// q @ k.transpose(-2, -1), of the first batch element
inline Matrix scores(const Batch& q, const Batch& k) {
  return Matrix(headproof::project<float>(q, k[0]).view()[0]);
}

/// A[:, i, j] wherever `wanted(i, j)`
template <class Wanted>
std::vector<float> entries(View<const float, 3> A, Wanted&& wanted) {
  std::vector<float> list;
  for (Index b = 0; b < A.shape[0]; ++b) {
    for (Index i = 0; i < A.shape[1]; ++i) {
      for (Index j = 0; j < A.shape[2]; ++j) {
        if (wanted(i, j)) list.push_back(A(b, i, j));
      }
    }
  }
  return list;
}

/// A.sum(-1), of all the rows that there are
inline std::vector<float> row_sums(const Batch& A) {
  std::vector<float> sums;
  for (auto row = A.begin(); row != A.end(); row += A.shape()[2]) {
    sums.push_back(0);
    std::for_each(row, row + A.shape()[2], [&](float weight) { sums.back() += weight; });
  }
  return sums;
}

/// values.max(), values.min()
template <class Values>
double max(const Values& values) {
  return static_cast<double>(*std::max_element(values.begin(), values.end()));
}
template <class Values>
double min(const Values& values) {
  return static_cast<double>(*std::min_element(values.begin(), values.end()));
}

/// values.std(), which divides by n - 1
inline double std(const Matrix& values) {
  double mean = 0, squares = 0;
  const auto n = static_cast<double>(values.size());
  for (float value : values) mean += value / n;
  for (float value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / (n - 1));
}

/// ((out >= v.min(dim=1)) & (out <= v.max(dim=1))).all(), up to `slack`
inline bool in_box(const Batch& out, const Batch& v, float slack) {
  for (Index b = 0; b < v.shape()[0]; ++b) {
    const auto of_channel = v[b].transposed(0, 1), outs = out[b].transposed(0, 1);
    for (Index c = 0; c < v.shape()[2]; ++c) {
      const headproof::Tensor<float, 1> values(of_channel[c]), results(outs[c]);
      if (min(results) < min(values) - slack || max(results) > max(values) + slack) return false;
    }
  }
  return true;
}

/// torch.equal(a[:, t], b[:, t]), bit for bit
inline bool same_row(const Batch& a, const Batch& b, Index t) {
  const auto bytes = static_cast<std::size_t>(a.shape()[2]) * sizeof(float);
  for (Index n = 0; n < a.shape()[0]; ++n) {
    if (std::memcmp(a[n][t].data, b[n][t].data, bytes) != 0) return false;
  }
  return true;
}

/// (a - b).abs().max()
inline double difference(const Batch& a, const Batch& b) {
  double most = 0;
  for (auto x = a.begin(), y = b.begin(); x != a.end(); ++x, ++y) {
    most = std::max(most, static_cast<double>(std::fabs(*x - *y)));
  }
  return most;
}

/// x + p, the same p for every batch element
inline Batch plus(Batch x, const Matrix& p) {
  for (Index n = 0; n < x.size(); ++n) x.data()[n] += p.data()[n % p.size()];
  return x;
}

/// x[:, order, :]
inline Batch rows(const Batch& x, const Ids& order) {
  Batch y(x.shape());
  for (Index b = 0; b < x.shape()[0]; ++b) {
    for (Index t = 0; t < order.size(); ++t) {
      std::copy_n(x[b][order(t)].data, x.shape()[2], y[b][t].data);
    }
  }
  return y;
}

/// ids[order]
inline Ids at(const Ids& ids, const Ids& order) {
  Ids moved(order.shape());
  std::transform(order.begin(), order.end(), moved.begin(), [&](Index t) { return ids(t); });
  return moved;
}

/// torch.linalg.matrix_rank(S) without singular values: how often a column times a row over the
/// largest entry left, which they share, can be taken away until rounding noise is left.
inline Index matrix_rank(const Matrix& S) {
  const auto size = [](double a, double b) { return std::fabs(a) < std::fabs(b); };
  headproof::Tensor<double, 2> left(S.shape());
  std::copy(S.begin(), S.end(), left.begin());
  double noise = 0;
  for (Index rank = 0;; ++rank) {
    const auto largest = std::max_element(left.begin(), left.end(), size);
    if (rank == 0) noise = static_cast<double>(S.shape()[0]) * 0x1p-23 * std::fabs(*largest);
    if (std::fabs(*largest) <= noise) return rank;
    const double pivot = *largest;
    const Index i = (largest - left.begin()) / S.shape()[1];
    const Index j = (largest - left.begin()) % S.shape()[1];
    const auto before = left;
    for (Index a = 0; a < S.shape()[0]; ++a) {
      for (Index b = 0; b < S.shape()[1]; ++b) left(a, b) -= before(a, j) / pivot * before(i, b);
    }
  }
}

/// plt.imshow of matrices side by side, saved as a file
inline void save_figure(const std::string& file, const std::vector<Matrix>& matrices,
                        const std::vector<std::string>& titles,
                        const std::vector<std::string>& labels) {
  headproof::HeatMapGroup group;
  for (std::size_t n = 0; n < matrices.size(); ++n) {
    group.maps.push_back({titles[n], matrices[n].view(), labels, labels});
  }
  const headproof::HeatMapPicture picture{"", "", {{group}}};
  headproof::OutputFiles files;
  (void)files.add(file, draw(picture, headproof::PictureFormat::png).value()).value();
  (void)files.commit().value();
}

}  // namespace notebook
