// Vocabulary, and the text that the library brings along.

#include "headproof/text.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "array.h"
#include "parts.h"

namespace headproof::python {
namespace {

using namespace nb::literals;  // NOLINT: names of arguments

std::u32string characters_of(nb::handle text) {
  std::u32string characters(static_cast<std::size_t>(PyUnicode_GetLength(text.ptr())), U'\0');
  const auto length = static_cast<Py_ssize_t>(characters.size());
  auto* const to = reinterpret_cast<Py_UCS4*>(characters.data());
  if (length > 0 && PyUnicode_AsUCS4(text.ptr(), to, length, 0) == nullptr)
    throw nb::python_error();
  return characters;
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
          [](Vocabulary* self, const nb::str& text) { new (self) Vocabulary(characters_of(text)); },
          "text"_a)
      .def("__len__", &Vocabulary::size)
      .def(
          "encode",
          [](const Vocabulary& self, const nb::str& text) {
            const auto ids = self.encode(characters_of(text));
            if (!ids) raise_value_error("text: " + ids.error().message);
            return to_numpy(*ids);
          },
          "text"_a,
          "The ids of a text's characters, int64 [len(text)]. ValueError names the first character "
          "that has none.")
      .def(
          "decode",
          [](const Vocabulary& self, const nb::object& ids) {
            const nb::object array =
                nb::hasattr(ids, "__dlpack__") || PyObject_CheckBuffer(ids.ptr()) != 0
                    ? ids
                    : nb::module_::import_("numpy").attr("asarray")(ids, "dtype"_a = "int64");
            const std::vector<Index> numbers = Input("ids", array).integers();
            const auto text = self.decode({numbers.data(), {static_cast<Index>(numbers.size())}});
            if (!text) raise_value_error("ids: " + text.error().message);
            return str_of(*text);
          },
          "ids"_a,
          "The characters of ids, of an array or a list. ValueError names the first id out "
          "of range.");
  module.def(
      "default_text", [] { return std::string(default_text()); },
      "The passage that the lecture uses where no text is given.");
  module.def(
      "visible_labels", [](const nb::str& text) { return visible_labels(characters_of(text)); },
      "text"_a,
      "A label that shows for each character: spaces and newlines become visible marks, control "
      "characters U+XXXX.");
}

}  // namespace headproof::python
