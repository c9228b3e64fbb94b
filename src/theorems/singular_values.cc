#include "theorems/singular_values.h"

#include <Eigen/SVD>
#include <limits>

namespace headproof {

std::vector<double> singular_values(View<const double, 2> matrix) {
  Eigen::MatrixXd dense(matrix.shape[0], matrix.shape[1]);
  for (Index i = 0; i < matrix.shape[0]; ++i) {
    for (Index j = 0; j < matrix.shape[1]; ++j) dense(i, j) = matrix(i, j);
  }
  if (!dense.allFinite()) {
    return std::vector<double>(static_cast<std::size_t>(std::min(dense.rows(), dense.cols())),
                               std::numeric_limits<double>::quiet_NaN());
  }
  const Eigen::VectorXd values = Eigen::JacobiSVD<Eigen::MatrixXd>(dense).singularValues();
  return {values.begin(), values.end()};
}

}  // namespace headproof
