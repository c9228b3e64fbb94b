#include "subjects/attention_mutants.h"

#include <string>
#include <utility>

namespace headproof {
namespace {

const std::vector<AttentionMutant>& all_mutants() {
  static const std::vector<AttentionMutant> all = [] {
    std::vector<AttentionMutant> list;
    for (auto* theme : {mutants_of_masks, mutants_of_options, mutants_of_numbers, mutants_of_loops,
                        mutants_of_gradients}) {
      for (AttentionMutant& mutant : theme()) list.push_back(std::move(mutant));
    }
    return list;
  }();
  return all;
}

}  // namespace

const std::vector<AttentionMutantInfo>& attention_mutants() {
  static const std::vector<AttentionMutantInfo> infos = [] {
    std::vector<AttentionMutantInfo> list;
    for (const AttentionMutant& mutant : all_mutants()) list.push_back(mutant.info);
    return list;
  }();
  return infos;
}

std::unique_ptr<AttentionSubject> attention_mutant(std::string_view name) {
  for (const AttentionMutant& mutant : all_mutants()) {
    if (mutant.info.name == name) return plain_attention(std::string(name), mutant.steps);
  }
  return nullptr;
}

}  // namespace headproof
