// A value, or one sentence that says why there is none.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace headproof {

/// Why a call could not do its work: one clear sentence that names what, where and what would work.
struct Error {
  std::string message;
};

/// Either a `T` or an `Error`. The members have the names and meaning of std::expected's (C++23),
/// except that `value()` of a failed result throws std::runtime_error with the sentence.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & {
    check();
    return std::get<0>(state_);
  }
  const T& value() const& {
    check();
    return std::get<0>(state_);
  }
  T value() && {
    check();
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  void check() const {
    if (!has_value()) throw std::runtime_error(error().message);
  }
  std::variant<T, Error> state_;
};

/// What a call without a value returns: nothing, or the sentence.
using Status = Result<std::monostate>;

}  // namespace headproof
