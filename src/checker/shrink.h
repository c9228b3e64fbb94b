// Smaller problems with the same fault.
#pragma once

#include <functional>

#include "headproof/attention_subject.h"

namespace headproof {

/// Makes a problem that fails as small as it can while `fails` says that it still does: first
/// shapes (batch elements, heads, positions, channels are taken away), then values (0, 1, whole
/// numbers, fewer digits). Stays inside `domain`. `fails` is called at most `calls` times.
AttentionProblem shrink(AttentionProblem problem, const Domain& domain, int calls,
                        const std::function<bool(const AttentionProblem&)>& fails);

}  // namespace headproof
