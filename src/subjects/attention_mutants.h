// Attention that is wrong on purpose, one fault each. They exist to prove that the checker finds
// faults: whatever it lets pass here, it would let pass in somebody's kernel.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "headproof/subjects.h"
#include "subjects/plain_attention.h"

namespace headproof {

struct AttentionMutantInfo {
  std::string_view name, what;
  /// Ids of theorems of which at least one must catch it.
  std::vector<std::string_view> caught_by;
  /// The sizes at which the fault shows at the latest, and why where they are more than four
  /// positions and two channels.
  struct Smallest {
    Index seq_len = 4, head_dim = 2;
    std::string_view why = {};
  } smallest = {};
  /// Right up to rounding: only the bitwise theorems may see it.
  bool bitwise_only = false;
};

/// All of them, in a fixed order.
const std::vector<AttentionMutantInfo>& attention_mutants();

/// The mutant of that name; null when there is none.
std::unique_ptr<AttentionSubject> attention_mutant(std::string_view name);

struct AttentionMutant {
  AttentionMutantInfo info;
  Steps steps;
};

// By theme, one file each.
std::vector<AttentionMutant> mutants_of_masks();
std::vector<AttentionMutant> mutants_of_options();
std::vector<AttentionMutant> mutants_of_numbers();
std::vector<AttentionMutant> mutants_of_loops();
std::vector<AttentionMutant> mutants_of_gradients();

}  // namespace headproof
