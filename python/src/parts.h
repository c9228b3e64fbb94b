// The parts of the extension module, one file each.
#pragma once

#include <nanobind/nanobind.h>

namespace headproof::python {

void add_attention(nanobind::module_& module);
void add_cache(nanobind::module_& module);
void add_random(nanobind::module_& module);
void add_head(nanobind::module_& module);
void add_text(nanobind::module_& module);
void add_check(nanobind::module_& module);
void add_pictures(nanobind::module_& module);

}  // namespace headproof::python
