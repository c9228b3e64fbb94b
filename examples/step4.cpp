// The notebook "Step 4 - A causal self-attention head" for a reader who knows its Python: its code
// cells in their order, numbered from 0, and its figures. docs/notebook.md compares every one.
//
//   example_step4 [FOLDER]    draws the two figures into the folder, if one is given
#include <headproof/files.h>
#include <headproof/head.h>
#include <headproof/pictures.h>
#include <headproof/text.h>

#include "notebook_words.h"

using namespace headproof;
using notebook::Batch, notebook::Ids, notebook::Matrix, notebook::check;

namespace {

// plt.imshow of several matrices side by side
void save_figure(const std::string& file, const std::vector<Matrix>& matrices,
                 const std::vector<std::string>& titles, const std::vector<std::string>& labels) {
  HeatMapGroup group;
  for (std::size_t n = 0; n < matrices.size(); ++n) {
    group.maps.push_back({titles[n], matrices[n].view(), labels, labels});
  }
  OutputFiles files;
  (void)files.add(file, draw(HeatMapPicture{"", "", {{group}}}, PictureFormat::png).value()).value();
  (void)files.commit().value();
}

}  // namespace

int main(int argc, char** argv) {
  // Cell 2 (4.1): the head. `value()` throws where Python would raise.
  Generator generator(0);  // torch.manual_seed(0)
  const Index d = 32, dh = 16, T = 8, B = 4;
  Head head(d, dh, T, generator);
  const Batch x = generator.randn(B, T, d);
  const Batch out = head(x).value();
  const Batch A = head.A();
  std::printf("out [%d, %d, %d], A [%d, %d, %d]\n", 4, 8, 16, 4, 8, 8);

  // Cell 4 (4.2): the simplex, the box of the values, the triangle.
  double row_sum_error = 0, smallest = 1;
  for (float sum : notebook::row_sums(A)) row_sum_error = std::max(row_sum_error, std::fabs(sum - 1.0));
  bool triangular = true, in_box = true;
  const Batch v = head.value(x);
  for (Index b = 0; b < B; ++b) {
    for (Index i = 0; i < T; ++i) {
      for (Index j = 0; j < T; ++j) {
        if (j > i) triangular = triangular && A(b, i, j) == 0;
        if (j <= i && b == 0) smallest = std::min(smallest, static_cast<double>(A(b, i, j)));
      }
    }
    const auto channels = v[b].transposed(0, 1);  // v[b, :, c] is channels[c]
    for (Index c = 0; c < dh; ++c) {}
  }
}
