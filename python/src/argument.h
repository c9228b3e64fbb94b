// Plain arguments, whose errors name them.
#pragma once

#include <nanobind/stl/string.h>

#include "array.h"

namespace headproof::python {

/// The argument as a `T`; raises TypeError where Python's object is none.
template <class T>
T argument(const char* name, nb::handle given, const char* wanted) {
  T value{};
  if (nb::try_cast(given, value)) return value;
  PyErr_Clear();
  raise_type_error(std::string(name) + " is " + kind_of(given) + "; it must be " + wanted);
}

inline bool flag(const char* name, nb::handle given) {
  return argument<bool>(name, given, "True or False");
}
inline double real(const char* name, nb::handle given) {
  return argument<double>(name, given, "a number");
}
inline Index whole(const char* name, nb::handle given) {
  return argument<Index>(name, given, "a whole number of at most 64 bits");
}
inline std::string word(const char* name, nb::handle given) {
  return argument<std::string>(name, given, "a text");
}

}  // namespace headproof::python
