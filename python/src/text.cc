// Vocabulary, and the text that the library brings along.

#include "headproof/text.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "argument.h"
#include "array.h"
#include "parts.h"

namespace headproof::python {
namespace {

using namespace nb::literals;  // NOLINT: names of arguments

std::u32string characters_of(nb::handle text) {
  if (PyUnicode_Check(text.ptr()) == 0) {
    raise_type_error("text is " + kind_of(text) + "; it must be a str");
  }
  std::u32string characters(static_cast<std::size_t>(PyUnicode_GetLength(text.ptr())), U'\0');
  const auto length = static_cast<Py_ssize_t>(characters.size());
  auto* const to = reinterpret_cast<Py_UCS4*>(characters.data());
  if (length > 0 && PyUnicode_AsUCS4(text.ptr(), to, length, 0) == nullptr)
    throw nb::python_error();
  return characters;
}

/// The integers of an array, or of what can be gone through.
std::vector<Index> numbers_of(nb::handle ids) {
  if (nb::hasattr(ids, "__dlpack__") || PyObject_CheckBuffer(ids.ptr()) != 0) {
    return Input("ids", ids).integers();
  }
  PyObject* const iterator = PyObject_GetIter(ids.ptr());
  if (iterator == nullptr) {
    PyErr_Clear();
    raise_type_error("ids is " + kind_of(ids) + "; it must be an array or a list of whole numbers");
  }
  std::vector<Index> numbers;
  const nb::object held = nb::steal(iterator);
  while (PyObject* const next = PyIter_Next(iterator)) {
    const nb::object id = nb::steal(next);
    numbers.push_back(whole(("ids[" + std::to_string(numbers.size()) + "]").c_str(), id));
  }
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return numbers;
}

nb::object str_of(std::u32string_view characters) {
  int order = -1;  // little-endian, as this machine is
  return nb::steal(PyUnicode_DecodeUTF32(reinterpret_cast<const char*>(characters.data()),
                                         static_cast<Py_ssize_t>(characters.size() * 4),
                                         "surrogatepass", &order));
}

}  // namespace

void add_text(nb::module_& module) {
  nb::class_<Vocabulary>(module, "Vocabulary",
                         "The sorted characters of a text, numbered from 0; len() is their number.")
      .def(
          "__init__",
          [](Vocabulary* self, nb::handle text) { new (self) Vocabulary(characters_of(text)); },
          nb::sig("def __init__(self, text: str)"), "text"_a.none())
      .def("__len__", &Vocabulary::size)
      .def(
          "encode",
          [](const Vocabulary& self, nb::handle text) {
            const auto ids = self.encode(characters_of(text));
            if (!ids) raise_value_error("text: " + ids.error().message);
            return to_numpy(*ids);
          },
          nb::sig("def encode(self, text: str)"), "text"_a.none(),
          "The ids of a text's characters, int64 [len(text)]. ValueError names the first character "
          "that has none.")
      .def(
          "decode",
          [](const Vocabulary& self, nb::handle ids) {
            const std::vector<Index> numbers = numbers_of(ids);
            const auto text = self.decode({numbers.data(), {static_cast<Index>(numbers.size())}});
            if (!text) raise_value_error("ids: " + text.error().message);
            return str_of(*text);
          },
          nb::sig("def decode(self, ids) -> str"), "ids"_a.none(),
          "The characters of ids, of an array or of anything with integers in it. ValueError names "
          "the first id out "
          "of range.");
  module.def(
      "default_text", [] { return std::string(default_text()); },
      "The passage that the lecture uses where no text is given.");
  module.def(
      "visible_labels", [](nb::handle text) { return visible_labels(characters_of(text)); },
      nb::sig("def visible_labels(text: str) -> list[str]"), "text"_a.none(),
      "A label that shows for each character: spaces and newlines become visible marks, control "
      "characters U+XXXX.");
}

}  // namespace headproof::python
