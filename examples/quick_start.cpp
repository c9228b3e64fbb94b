#include <headproof/theorems.h>

#include <iostream>

int main() {
  headproof::Generator generator(0);           // the numbers of torch.manual_seed(0)
  headproof::Head head(32, 16, 8, generator);  // model_dim, head_dim, max_seq_len
  const headproof::HeadProblem problem{generator.randn(4, 8, 32), head.weights()};
  std::cout << "out[0, 0, 0] = " << head(problem.x).value()(0, 0, 0) << "\n";

  const auto right = headproof::reference_subject();
  const auto wrong = headproof::mutant_subject("mask-minus-20");
  for (const headproof::Theorem& theorem : headproof::theorems()) {
    std::cout << theorem.id << ": " << name_of(theorem.check(*right, problem).outcome())
              << ", with a finite mask " << name_of(theorem.check(*wrong, problem).outcome())
              << "\n";
  }
}
