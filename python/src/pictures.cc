// Pictures of attention matrices, and the page that a reader walks through.

#include "headproof/pictures.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "array.h"
#include "notebook.h"
#include "parts.h"

namespace headproof::python {
namespace {

using namespace nb::literals;  // NOLINT: names of arguments
using Labels = std::vector<std::string>;

nb::bytes drawn(nb::handle array, const std::string& format, const std::string& title,
                const Labels& layers, const Labels& heads, const Labels& queries,
                const Labels& keys, bool relative, bool causal) {
  const Input input("A", array);
  const auto A = view_of<float, 4>(input, "[layers, heads, queries, keys]");
  HeatMapPicture picture{.title = title};
  for (Index layer = 0; layer < A.shape[0]; ++layer) {
    HeatMapGroup group;
    for (Index head = 0; head < A.shape[1]; ++head) {
      std::string name;
      if (A.shape[0] > 1) name = "layer " + layers[static_cast<std::size_t>(layer)];
      if (A.shape[1] > 1) {
        name += (name.empty() ? "head " : ", head ") + heads[static_cast<std::size_t>(head)];
      }
      group.maps.push_back({.title = std::move(name),
                            .values = A[layer][head],
                            .query_labels = queries,
                            .key_labels = keys,
                            .hide_above_diagonal = causal && A.shape[2] == A.shape[3]});
    }
    group.scale.label = "weight A";
    if (relative) {
      group.scale = {.label = "n A (even share: 1)",
                     .low = 1.0 / 8,
                     .high = 8,
                     .middle = 1.0,
                     .logarithmic = true};
    }
    picture.rows.push_back({std::move(group)});
  }
  const PictureFormat kind = format == "svg"   ? PictureFormat::svg
                             : format == "pdf" ? PictureFormat::pdf
                                               : PictureFormat::png;
  Result<std::string> bytes = Error{};
  {
    const nb::gil_scoped_release outside;
    bytes = draw(picture, kind);
  }
  if (!bytes) raise_value_error(bytes.error().message);
  return nb::bytes(bytes->data(), bytes->size());
}

std::string page(nb::handle array, const std::string& title, const Labels& layers,
                 const Labels& heads, const Labels& queries, const Labels& keys) {
  const Input input("A", array);
  const auto A = view_of<float, 4>(input, "[layers, heads, queries, keys]");
  Result<std::string> html = Error{};
  {
    const nb::gil_scoped_release outside;
    html = explorer_page({title, A, layers, heads, queries, keys});
  }
  if (!html) raise_value_error(html.error().message);
  return *html;
}

}  // namespace

void add_pictures(nb::module_& module) {
  module.def("_draw", &drawn, "A"_a, "format"_a, "title"_a, "layers"_a, "heads"_a, "queries"_a,
             "keys"_a, "relative"_a, "causal"_a);
  module.def("_explorer_page", &page, "A"_a, "title"_a, "layers"_a, "heads"_a, "queries"_a,
             "keys"_a);
  module.def("_in_frame", &in_frame, "page"_a, "height"_a, "scripted"_a);
}

}  // namespace headproof::python
