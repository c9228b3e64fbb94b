// headproof._core: what the Python package is made of.

#include "array.h"
#include "parts.h"

NB_MODULE(_core, module) {
  using namespace headproof::python;
  prepare_arrays();
  module.attr("__version__") = HEADPROOF_VERSION;
  add_attention(module);
  add_cache(module);
  add_random(module);
  add_head(module);
  add_text(module);
  add_check(module);
  add_pictures(module);
}
