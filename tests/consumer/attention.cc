// A program of someone who needs the head and nothing else.
#include <headproof/head.h>

#include <cstdio>

int main() {
  headproof::Generator generator(0);
  headproof::Head head(8, 4, 3, generator);
  const headproof::Tensor<float, 3> x = generator.randn(1, 3, 8);
  const auto out = head(x);
  if (!out) return 1;
  std::printf("A_11 = %g\n", static_cast<double>(head.A()(0, 0, 0)));
  return head.A()(0, 0, 0) == 1.0F ? 0 : 1;
}
