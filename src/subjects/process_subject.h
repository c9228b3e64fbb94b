// Subjects that live in processes of their own and answer over a pipe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "headproof/result.h"
#include "subjects/open.h"

namespace headproof {

/// Starts the program argv[0] and says hello. Its process is started again after it has crashed,
/// hung or written what is no answer. The error says why it did not start.
Result<OpenedSubject> start_subject(std::string name, std::vector<std::string> argv,
                                    const SubjectOptions& options);

}  // namespace headproof
