// What a subject accepts and which conventions it follows, found by experiment.
#pragma once

#include "headproof/check.h"

namespace headproof {

struct Probed {
  Domain domain;  ///< the declared one, narrowed to what the subject answers
  /// What was tried and not answered, but for what the subject calls unsupported.
  std::vector<Declined> declined;
  /// Why nothing of use was found out: the refusal of the first question when it answers none.
  std::optional<Refusal> silent;
};

Probed probe_domain(AttentionSubject& subject);

/// The conventions that it follows, each found by asking.
Conventions identify(AttentionSubject& subject, const Domain& domain);

}  // namespace headproof
