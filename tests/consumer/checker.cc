// A program that asks the theorems about the library's own head.
#include <headproof/theorems.h>

#include <cstdio>

int main() {
  headproof::Generator generator(0);
  headproof::HeadProblem problem;
  problem.x = generator.randn(1, 3, 8);
  problem.weights = headproof::draw_head_weights(8, 4, generator);

  const headproof::Theorem* rows = headproof::find_theorem("prop-3.1");
  if (rows == nullptr) return 1;
  const headproof::Verdict verdict = rows->check(*headproof::reference_subject(), problem);
  std::puts(std::string(headproof::name_of(verdict.outcome())).c_str());
  return verdict.outcome() == headproof::Outcome::holds ? 0 : 1;
}
