// The checker: asks an implementation of attention questions that theorems give rise to, and says
// which theorem it breaks, with the smallest counterexample that it finds.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "headproof/attention_subject.h"
#include "headproof/theorems.h"

namespace headproof {

/// Where right implementations differ. An empty text: not found out, because the subject does not
/// offer what it takes.
struct Conventions {
  std::string corner;              ///< "top_left" or "bottom_right", where seq_len_q != seq_len_k
  std::string padding_corner;      ///< "unpadded" or "padded": where bottom right is under padding
  std::string empty_row;           ///< "zero", "nan", "mean_of_values": a query that may see no key
  std::string scale;               ///< "1/sqrt(head_dim)", or the number found
  std::string mask_true;           ///< "may_attend" or "masked"
  std::string softcap_order;       ///< "before_mask" or "after_mask"
  std::string kv_map;              ///< "grouped" (h / group) or "tiled" (h % num_kv_heads)
  std::string window_counts_self;  ///< "yes" or "no"
  std::string nan_policy;          ///< "propagates" or "hides": a NaN that a query may see
  std::string lse_base;            ///< "e" or "2"
  /// Each "holds" or "differs": determinism, threads, batch, prefix, decode.
  std::map<std::string, std::string> bitwise;
};

/// A family of inputs, and why it exists.
struct Regime {
  std::string_view name, why;
};
const std::vector<Regime>& regimes();

struct Report;
struct TheoremReport;

struct CheckOptions {
  std::vector<std::string> theorems = {};  ///< ids; empty: all
  std::vector<std::string> regimes = {};   ///< names; empty: all
  std::uint64_t seed = 0;
  double seconds = 8;    ///< what it may take in all, the first call not counted
  int case_number = -1;  ///< only this case of each theorem; below 0: all
  int cases = 64;        ///< of each theorem
  /// A convention and the value that it must have.
  std::map<std::string, std::string> expect = {};
  bool identify_only = false;
  bool require_bitwise = false;  ///< bitwise claims that differ are violations
  /// Ids of known violations, and why each is known.
  std::map<std::string, std::string> expected = {};
  bool strict = false;  ///< a known violation that no longer occurs is a failure
  /// How a person runs the same check: "headproof check ./mine.so"; the replay lines begin so.
  std::string command = {};
  /// The line that replays a case, where that is no command of a shell.
  std::function<std::string(std::string_view id, int case_number)> replay = {};
  /// Called before each theorem with its id and the share of them that is done.
  std::function<void(std::string_view id, double share)> progress = {};
  /// Called as things become known: first with the subject's domain and conventions (those of bits
  /// are found out later, by theorems), then with each theorem as it ends. Where time is short that
  /// is not the order of the report.
  std::function<void(const Report& so_far)> identified = {};
  std::function<void(const TheoremReport& theorem)> ended = {};
};

/// The smallest problem found on which the subject breaks a theorem.
struct Counterexample {
  AttentionProblem problem;
  std::optional<HeadProblem> head;          ///< of a head: x and weights, which give `problem`
  AttentionReply reply;                     ///< what came out of it
  AttentionAnswer should_be;                ///< what the definition gives, weights included
  std::optional<Tensor<double, 4>> A_used;  ///< the weights that the subject uses, where they show
  std::string note;                         ///< where and how, in a sentence
  std::optional<Place> place;               ///< where, if it is in a result of attention
  std::string regime;
  std::string replay;  ///< one command line
};

/// What became of one theorem.
struct TheoremReport {
  std::string id, title, statement;
  Claim claim = Claim::exact;
  Outcome outcome = Outcome::holds;
  double used = 0;                ///< the largest share of its bound that an error used
  int cases = 0;                  ///< problems that were tried
  std::string why;                ///< for other outcomes than holds and violated: one sentence
  std::vector<Finding> findings;  ///< of the counterexample, or of all cases together
  std::optional<Counterexample> counterexample;
  bool out_of_time = false;  ///< fewer cases were tried than there are
  bool gates = true;         ///< whether a violation fails the check
  bool expected = false;     ///< violated and listed as known; `why` says why
};

/// What a subject's declaration allows and it failed at when it was tried.
struct Declined {
  std::string what;  ///< "mask", "head_dim 17, length 3"
  Refusal refusal;
};

struct Report {
  std::string subject;
  Domain domain;                   ///< the declared one, narrowed to what was answered
  std::vector<Declined> declined;  ///< what was taken from it because the subject failed there
  std::vector<Declined> failed_together;  ///< options that it answers alone and failed at together
  Conventions conventions;
  std::vector<TheoremReport> theorems;
  /// Ids listed as known that were judged and are not violated; a failure when `strict`.
  std::vector<std::string> no_longer_violated;
  bool strict = false;
  std::uint64_t seed = 0;
  double seconds = 0;

  /// 0 when nothing gates, 1 when a theorem that gates is violated, 3 when the subject failed.
  int exit_code() const;
  /// Everything for a person to read, without colours.
  std::string text() const;
};

/// Finds out what the subject accepts and follows, then checks it against the theorems.
Report check(AttentionSubject& subject, const CheckOptions& options = {});

/// What a function of the caller's is asked when nothing else is said: float32, causal and not, any
/// sizes, batch and heads, no further options.
Domain plain_domain();

/// The same for a function in this process; what it throws counts as no answer.
Report check(const std::function<AttentionReply(const AttentionProblem& problem)>& function,
             const CheckOptions& options = {}, const Domain& domain = plain_domain());

/// The same for a whole head (x, weights) -> out. It is checked against the theorems about heads,
/// and as a black box: x then carries queries, keys and values, and the weights select them.
Report check(const Subject& head, const CheckOptions& options = {});

}  // namespace headproof
