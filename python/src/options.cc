#include "options.h"

namespace headproof::python {
namespace {

Causal corner_of(const Options& options) {
  if (!options.causal) return options.is_causal ? Causal::top_left : Causal::none;
  const std::string& name = *options.causal;
  if (name != "none" && name != "top_left" && name != "bottom_right") {
    raise_value_error("causal is '" + name + "'; it must be 'none', 'top_left' or 'bottom_right'");
  }
  if (options.is_causal && name != "top_left") {
    raise_value_error("is_causal=True means causal='top_left', and causal is '" + name + "'");
  }
  return name == "none"       ? Causal::none
         : name == "top_left" ? Causal::top_left
                              : Causal::bottom_right;
}

/// An integer for each sequence, from an array or a list.
std::vector<Index> read_lengths(const char* name, nb::handle given, const Axes& leading,
                                Index entries) {
  if (!given.is_valid() || given.is_none()) return {};
  const bool is_list = PyList_Check(given.ptr()) != 0 || PyTuple_Check(given.ptr()) != 0;
  const nb::object array =
      is_list ? nb::module_::import_("numpy").attr("asarray")(given) : nb::borrow(given);
  const Input input(name, array);
  if (input.shape().count() != entries || input.shape().rank > std::max(leading.rank, 1)) {
    raise_value_error(std::string(name) + " has shape " + input.shape().text() +
                      "; it must hold an integer for each of the " + std::to_string(entries) +
                      " sequences");
  }
  return input.integers();
}

}  // namespace

ReadOptions::ReadOptions(const Options& options, const Frame& frame, Index seq_len_q,
                         Index seq_len_k)
    : threads_(options.threads.value_or(0)) {
  if (options.threads && *options.threads < 1) {
    raise_value_error("threads is " + std::to_string(*options.threads) +
                      "; it must be at least 1, or None for as many as there are");
  }
  common_.causal = corner_of(options);
  common_.scale = options.scale;
  common_.query_offset = options.query_offset;
  common_.window = options.window;
  common_.window_right = options.window_right;
  common_.softcap = options.softcap;
  const Index entries = frame.calls() * frame.batch();
  first_key_ = read_lengths("first_key", options.first_key, frame.leading(), entries);
  key_length_ = read_lengths("key_length", options.key_length, frame.leading(), entries);
  if (!options.attn_mask.is_valid() || options.attn_mask.is_none()) return;
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
  bool fits = shape.rank >= 2 && shape.rank <= wanted.rank;
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
