// What a subject accepts and which conventions it follows, found by experiment.
#pragma once

#include "headproof/check.h"

namespace headproof {

/// The declared domain narrowed to what the subject answers; the refusal of the first question when
/// it answers none.
std::variant<Domain, Refusal> probe_domain(AttentionSubject& subject);

/// The conventions that it follows, each found by asking.
Conventions identify(AttentionSubject& subject, const Domain& domain);

}  // namespace headproof
