// How a check writes down what it finds.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "headproof/theorems.h"

namespace headproof {

/// "batch 0, query 3, key 5", with as many of the three as are given.
std::string where(Index batch, Index query);
std::string where(Index batch, Index query, Index key);

/// A number with as many digits as tell it apart in a sentence.
std::string number(double value);

/// A sentence on what fails; where it names a place, the place as data too.
struct Told {
  // NOLINTNEXTLINE(google-explicit-constructor)
  Told(std::string sentence, std::optional<Place> named = {})
      : text(std::move(sentence)), place(named) {}
  Told(const char* sentence) : text(sentence) {}  // NOLINT(google-explicit-constructor)
  std::string text;
  std::optional<Place> place;
};
inline Told operator+(Told first, const Told& more) {
  first.text += more.text;
  if (!first.place) first.place = more.place;
  return first;
}

/// One thing that is checked over many places: keeps the worst of them.
class Checked {
 public:
  Checked(std::string what, Claim claim) {
    finding_.what = std::move(what);
    finding_.claim = claim;
  }

  /// Exact and bitwise claims: `holds` at this place. `describe` is called for the first failure.
  template <class Describe>
  void require(bool holds, Describe&& describe) {
    if (holds || finding_.outcome == Outcome::violated) return;
    fail(describe());
  }

  /// Bounded claims: `error` is at most `bound` at this place; a NaN is a violation.
  template <class Describe>
  void within(double error, double bound, Describe&& describe) {
    if (finding_.outcome == Outcome::violated) return;
    if (!(error <= bound)) {
      fail(describe());
    } else if (error * finding_.bound <= finding_.error * bound && finding_.bound > 0) {
      return;  // a smaller share of its bound than the worst so far
    }
    finding_.error = error;
    finding_.bound = bound;
  }

  /// What floating point bends, or how much was looked at.
  void note(std::string text) {
    if (finding_.outcome == Outcome::holds) finding_.note = std::move(text);
  }

  const Finding& finding() const { return finding_; }

 private:
  void fail(Told told) {
    finding_.outcome = Outcome::violated;
    finding_.note = std::move(told.text);
    finding_.place = told.place;
  }

  Finding finding_;
};

/// The things that one check looks at, in order.
class Findings {
 public:
  Checked& exact(std::string what) { return add(std::move(what), Claim::exact); }
  Checked& bitwise(std::string what) { return add(std::move(what), Claim::bitwise); }
  Checked& bounded(std::string what) { return add(std::move(what), Claim::bounded); }

  Verdict verdict() const {
    Verdict result;
    for (const Checked& checked : checked_) result.findings.push_back(checked.finding());
    return result;
  }

 private:
  Checked& add(std::string what, Claim claim) {
    return checked_.emplace_back(std::move(what), claim);
  }
  std::deque<Checked> checked_;  // a deque, because the references that it hands out must last
};

/// The verdict on a problem that a theorem says nothing about.
Verdict not_applicable(std::string why);

}  // namespace headproof
