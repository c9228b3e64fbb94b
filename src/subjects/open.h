// Subjects by the names that users give them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "headproof/attention_subject.h"
#include "headproof/result.h"
#include "headproof/subjects.h"

namespace headproof {

/// How a subject in a process of its own is run.
struct SubjectOptions {
  std::string python = "python3";
  std::string framework = "numpy";  ///< what a Python callable is handed: numpy, torch or jax
  std::string device = "cpu";
  Dtype dtype = Dtype::float32;
  Layout layout = Layout::bhsd;
  /// Limits of the first call, as of the start before it, and of later ones.
  double first_call_seconds = 60, call_seconds = 10;
  /// The command headproof, which loads libraries in a process of its own.
  std::string program = "/proc/self/exe";
};

/// Attention (q, k, v) -> out, or a whole head (x, weights) -> out: one of the two is null.
struct OpenedSubject {
  std::unique_ptr<AttentionSubject> attention;
  std::unique_ptr<Subject> head;
};

/// "./libmine.so[:symbol]", "python:module:function", "head:python:module:function",
/// "command:...", "head:command:...", "builtin:NAME", "mutant:NAME" (attention, or
/// else a head), "head:mutant:NAME" or "recorded:DIR". The error
/// says what is wrong with the name, or what could not be started. docs/subjects.md has the rest.
Result<OpenedSubject> open_subject(std::string_view name, const SubjectOptions& options = {});

/// A working subject to start from, as source text: "c", "cpp", "python" or "pipe"; empty for
/// another language.
std::string_view subject_template(std::string_view language);

}  // namespace headproof
