#include "options.h"

#include <limits>

#include "argument.h"

namespace headproof::python {
namespace {

bool is_given(nb::handle argument) { return argument.is_valid() && !argument.is_none(); }

std::optional<Index> whole_if_given(const char* name, nb::handle given) {
  if (!is_given(given)) return std::nullopt;
  return whole(name, given);
}

Causal corner_of(const Options& options) {
  const bool is_causal = options.is_causal.is_valid() && flag("is_causal", options.is_causal);
  if (!is_given(options.causal)) return is_causal ? Causal::top_left : Causal::none;
  const std::string name = word("causal", options.causal);
  if (name != "none" && name != "top_left" && name != "bottom_right") {
    raise_value_error("causal is '" + name + "'; it must be 'none', 'top_left' or 'bottom_right'");
  }
  if (is_causal && name != "top_left") {
    raise_value_error("is_causal=True means causal='top_left', and causal is '" + name + "'");
  }
  return name == "none"       ? Causal::none
         : name == "top_left" ? Causal::top_left
                              : Causal::bottom_right;
}

}  // namespace

std::vector<Index> read_lengths(const char* name, nb::handle given, int axes, Index wanted) {
  if (!is_given(given)) return {};
  const bool is_list = PyList_Check(given.ptr()) != 0 || PyTuple_Check(given.ptr()) != 0;
  const nb::object array =
      is_list ? nb::module_::import_("numpy").attr("asarray")(given) : nb::borrow(given);
  const Input input(name, array);
  if (input.shape().count() != wanted || input.shape().rank > axes) {
    raise_value_error(std::string(name) + " has shape " + input.shape().text() +
                      "; it must hold an integer for each of the " + std::to_string(wanted) +
                      " sequences");
  }
  return input.integers();
}

ReadOptions::ReadOptions(const Options& options, const Frame& frame, Index seq_len_q,
                         Index seq_len_k) {
  if (is_given(options.threads)) {
    const Index threads = whole("threads", options.threads);
    if (threads < 1) {
      raise_value_error("threads is " + std::to_string(threads) +
                        "; it must be at least 1, or None for as many as there are");
    }
    threads_ = static_cast<int>(std::min<Index>(threads, std::numeric_limits<int>::max()));
  }
  common_.causal = corner_of(options);
  if (is_given(options.scale)) common_.scale = real("scale", options.scale);
  common_.query_offset = whole_if_given("query_offset", options.query_offset);
  common_.window = whole_if_given("window", options.window);
  common_.window_right = whole_if_given("window_right", options.window_right);
  common_.softcap = real("softcap", options.softcap);
  const Index entries = frame.calls() * frame.batch();
  const int axes = std::max(frame.leading().rank, 1);
  first_key_ = read_lengths("first_key", options.first_key, axes, entries);
  key_length_ = read_lengths("key_length", options.key_length, axes, entries);
  if (!is_given(options.attn_mask)) return;
  mask_.emplace("attn_mask", options.attn_mask);
  switch (mask_->element()) {
    case Element::boolean:
    case Element::float16:
    case Element::bfloat16:
    case Element::float32:
    case Element::float64:
      break;
    default:
      raise_type_error("attn_mask holds " + mask_->element_name() +
                       "; it must hold bool, where True may attend, or floating-point numbers, "
                       "which are added");
  }
  const Axes wanted = frame.with_last({seq_len_q, seq_len_k});
  const Axes& shape = mask_->shape();
  if (shape.rank < 2) {
    raise_value_error(
        "attn_mask has shape " + shape.text() +
        "; it must have at least the two axes [seq_len_q, seq_len_k], of which either "
        "may be 1");
  }
  bool fits = shape.rank <= wanted.rank;
  for (int end = 1; fits && end <= shape.rank; ++end) {
    const Index extent = shape[shape.rank - end];
    fits = extent == 1 || extent == wanted[wanted.rank - end];
  }
  if (!fits) {
    raise_value_error("attn_mask has shape " + shape.text() + ", which does not broadcast to " +
                      wanted.text() + ", that of the weights");
  }
}

AttentionOptions ReadOptions::of_call(const Frame& frame, Index call) const {
  AttentionOptions options = common_;
  const auto part = [&](const std::vector<Index>& all) -> View<const Index, 1> {
    if (all.empty()) return {};
    return {all.data() + call * frame.batch(), {frame.batch()}};
  };
  options.first_key = part(first_key_);
  options.key_length = part(key_length_);
  if (!mask_) return options;
  switch (mask_->element()) {
    case Element::boolean:
      options.mask = frame.mask<bool>(*mask_, call);
      break;
    case Element::float64:
      options.mask = frame.mask<double>(*mask_, call);
      break;
    default:
      options.mask = frame.mask<float>(*mask_, call);
  }
  return options;
}

}  // namespace headproof::python
