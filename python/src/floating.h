// Which floating-point numbers there are, and in which of them is computed.
#pragma once

#include <initializer_list>

#include "array.h"

namespace headproof::python {

inline bool is_floating(Element element) {
  return element == Element::float16 || element == Element::bfloat16 ||
         element == Element::float32 || element == Element::float64;
}

/// In what is computed: float32 for all but float64.
inline Element wide(Element element) {
  return element == Element::float64 ? Element::float64 : Element::float32;
}

/// Raises unless all hold the same floating-point numbers.
inline void check_floating(std::initializer_list<const Input*> inputs) {
  const Input& first = **inputs.begin();
  for (const Input* input : inputs) {
    if (!is_floating(input->element())) {
      raise_type_error(std::string(input->name()) + " holds " + input->element_name() +
                       "; attention takes float16, bfloat16, float32 or float64");
    }
    if (input->element() != first.element()) {
      raise_type_error(std::string(first.name()) + " holds " + first.element_name() + ", and " +
                       input->name() + " " + input->element_name() +
                       "; they must hold the same dtype");
    }
  }
}

/// Calls `work(float())` or `work(double())`.
template <class Work>
void with_scalar(Element element, const Work& work) {
  element == Element::float64 ? work(double()) : work(float());
}

inline Index last(const Input& input) { return input.shape()[input.shape().rank - 1]; }
inline Index second_last(const Input& input) { return input.shape()[input.shape().rank - 2]; }

}  // namespace headproof::python
