// The lecture's head.

#include "headproof/head.h"

#include <nanobind/stl/unique_ptr.h>

#include <cstring>
#include <mutex>

#include "argument.h"
#include "array.h"
#include "parts.h"
#include "work.h"

namespace headproof::python {
namespace {

using namespace nb::literals;  // NOLINT: names of arguments

constexpr const char* x_shape = "[batch, seq_len, model_dim]";

/// An array of the kind that came in.
template <std::size_t Rank>
nb::object like(const Input& input, const Tensor<float, Rank>& tensor) {
  Axes shape;
  shape.rank = static_cast<int>(Rank);
  std::copy(tensor.shape().begin(), tensor.shape().end(), shape.sizes.begin());
  Output output(input, Element::float32, shape);
  if (tensor.size() > 0) {
    std::memcpy(output.numbers(), tensor.data(), static_cast<std::size_t>(tensor.size()) * 4);
  }
  return output.take();
}

Index checked_size(const char* name, Index value, Index lowest) {
  if (value >= lowest && value <= Index{1} << 20) return value;
  raise_value_error(std::string(name) + " is " + std::to_string(value) + "; it must be from " +
                    std::to_string(lowest) + " to 2^20");
}
Index checked_size(const char* name, nb::handle value, Index lowest) {
  return checked_size(name, whole(name, value), lowest);
}

Generator& generator_of(nb::handle generator) {
  Generator* found = nullptr;
  if (nb::try_cast(generator, found) && found != nullptr) return *found;
  PyErr_Clear();
  raise_type_error("generator is " + kind_of(generator) + "; it must be a headproof.Generator");
}

/// A head whose calls, from any thread, come one after the other: it keeps the last A.
class PythonHead {
 public:
  PythonHead(nb::handle model_dim, nb::handle head_dim, nb::handle max_seq_len,
             nb::handle generator, nb::handle causal)
      : head_(drawn(checked_size("model_dim", model_dim, 1), checked_size("head_dim", head_dim, 1),
                    checked_size("max_seq_len", max_seq_len, 0), generator_of(generator),
                    flag("causal", causal))) {}
  PythonHead(HeadWeights weights, Index max_seq_len, bool causal)
      : head_(std::move(weights), max_seq_len, causal) {}

  static std::unique_ptr<PythonHead> from_weights(nb::handle weights, nb::handle max_seq_len,
                                                  nb::handle causal) {
    const Index longest = checked_size("max_seq_len", max_seq_len, 0);
    const bool is_causal = flag("causal", causal);
    HeadWeights read;
    const std::pair<const char*, Tensor<float, 2>*> wanted[] = {
        {"key.weight", &read.key}, {"query.weight", &read.query}, {"value.weight", &read.value}};
    for (const auto& [name, tensor] : wanted) {
      if (PyMapping_HasKeyString(weights.ptr(), name) == 0) {
        raise_value_error(std::string("weights has no '") + name +
                          "'; it must be a mapping with key.weight, query.weight and value.weight");
      }
      const nb::object array = weights[name];
      const Input input(name, array);
      *tensor = Tensor<float, 2>(view_of<float, 2>(input, "[head_dim, model_dim]"));
      if (tensor->shape() != read.key.shape()) {
        raise_value_error(std::string(name) + " has shape " + input.shape().text() +
                          ", and key.weight another; the three must have the same");
      }
    }
    checked_size("head_dim, the first axis of key.weight,", read.head_dim(), 1);
    checked_size("model_dim, the second axis of key.weight,", read.model_dim(), 1);
    return std::make_unique<PythonHead>(std::move(read), longest, is_causal);
  }

  nb::object call(nb::handle array) {
    const Input x("x", array);
    const auto view = view_of<float, 3>(x, x_shape);
    Result<Tensor<float, 3>> out = Error{};
    {
      const nb::gil_scoped_release outside;
      const std::lock_guard lock(mutex_);
      out = head_(view);
    }
    if (!out) raise_value_error(out.error().message);
    return like(x, *out);
  }

  nb::object A() {
    Tensor<float, 3> A;
    {
      const nb::gil_scoped_release outside;
      const std::lock_guard lock(mutex_);
      A = head_.A();
    }
    return to_numpy(A);
  }

  nb::object project(nb::handle array, const Tensor<float, 2>& weight) const {
    const Input x("x", array);
    const auto view = view_of<float, 3>(x, x_shape);
    if (view.shape[2] != head_.weights().model_dim()) {
      raise_value_error("x has shape " + x.shape().text() + "; its last size must be model_dim, " +
                        std::to_string(head_.weights().model_dim()));
    }
    Tensor<float, 3> projected;
    {
      const nb::gil_scoped_release outside;
      projected = headproof::project<float>(view, weight);
    }
    return like(x, projected);
  }

  const HeadWeights& weights() const { return head_.weights(); }
  bool causal() const { return head_.causal(); }

 private:
  static Head drawn(Index model_dim, Index head_dim, Index max_seq_len, Generator& generator,
                    bool causal) {
    return draw_outside([&] { return Head(model_dim, head_dim, max_seq_len, generator, causal); });
  }

  Head head_;
  std::mutex mutex_;
};

}  // namespace

void add_head(nb::module_& module) {
  nb::class_<PythonHead>(
      module, "Head",
      R"(A causal self-attention head: out = softmax(mask(q k^T / sqrt(head_dim))) v.

Args:
    model_dim, head_dim: the weights are [head_dim, model_dim].
    max_seq_len: the longest sequence that it takes.
    generator: draws the weights as torch.nn.Linear does: key, query, value.
    causal: query i sees keys 0 .. i.

head(x) maps x [batch, seq_len, model_dim], float32, to [batch, seq_len, head_dim] and keeps A.)")
      .def(nb::init<nb::handle, nb::handle, nb::handle, nb::handle, nb::handle>(),
           nb::sig("def __init__(self, model_dim: int, head_dim: int, max_seq_len: int, "
                   "generator: Generator, causal: bool = True)"),
           "model_dim"_a.none(), "head_dim"_a.none(), "max_seq_len"_a.none(), "generator"_a.none(),
           "causal"_a.none() = true)
      .def_static("from_weights", &PythonHead::from_weights,
                  nb::sig("def from_weights(weights, max_seq_len: int, causal: bool = True)"),
                  "weights"_a.none(), "max_seq_len"_a.none(), "causal"_a.none() = true,
                  "A head of given weights: a mapping with key.weight, query.weight and "
                  "value.weight, float32 [head_dim, model_dim], such as a state_dict.")
      .def("__call__", &PythonHead::call, "x"_a.none())
      .def_prop_ro("A", &PythonHead::A,
                   "The attention matrices of the last call, NumPy float32 [batch, seq_len, "
                   "seq_len]; rows are queries. Empty before the first call.")
      .def_prop_ro("causal", &PythonHead::causal)
      .def_prop_ro(
          "weights",
          [](const PythonHead& self) {
            nb::dict weights;
            weights["key.weight"] = to_numpy(self.weights().key);
            weights["query.weight"] = to_numpy(self.weights().query);
            weights["value.weight"] = to_numpy(self.weights().value);
            return weights;
          },
          "Copies of the weights, NumPy float32 [head_dim, model_dim], by name.")
      .def(
          "key",
          [](const PythonHead& self, nb::handle x) { return self.project(x, self.weights().key); },
          "x"_a.none(), "The keys of x, [batch, seq_len, head_dim].")
      .def(
          "query",
          [](const PythonHead& self, nb::handle x) {
            return self.project(x, self.weights().query);
          },
          "x"_a.none(), "The queries of x, [batch, seq_len, head_dim].")
      .def(
          "value",
          [](const PythonHead& self, nb::handle x) {
            return self.project(x, self.weights().value);
          },
          "x"_a.none(), "The values of x, [batch, seq_len, head_dim].");
}

}  // namespace headproof::python
