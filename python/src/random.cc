// Generator.

#include "headproof/random.h"

#include "argument.h"
#include "array.h"
#include "parts.h"
#include "work.h"

namespace headproof::python {
namespace {

using namespace nb::literals;  // NOLINT: names of arguments

/// Sizes as PyTorch takes them: integers, or one tuple or list of them.
Axes sizes_of(const nb::tuple& given) {
  nb::object sizes = given;
  if (given.size() == 1 &&
      (nb::isinstance<nb::tuple>(given[0]) || nb::isinstance<nb::list>(given[0]))) {
    sizes = given[0];
  }
  Axes shape;
  double elements = 1;
  for (const nb::handle size : sizes) {
    if (shape.rank == most_axes) {
      raise_value_error("size has more than the " + std::to_string(most_axes) +
                        " axes there may be");
    }
    Index extent = 0;
    if (!nb::try_cast(size, extent)) {
      PyErr_Clear();
      raise_type_error("size holds " + std::string(nb::repr(size).c_str()) +
                       "; it must hold whole numbers");
    }
    if (extent < 0)
      raise_value_error("size holds " + std::to_string(extent) + "; it counts from 0");
    elements *= static_cast<double>(std::max<Index>(extent, 1));
    shape[shape.rank++] = extent;
  }
  if (elements > 0x1p40) raise_value_error("size " + shape.text() + " is more than memory holds");
  return shape;
}

template <class Draw>
nb::object drawn(const Axes& shape, const Draw& draw) {
  const auto numbers = draw_outside([&] {
    Tensor<float, 1> drawn({shape.count()});
    draw(drawn.view());
    return drawn;
  });
  return to_numpy(numbers.data(), Element::float32, shape);
}

/// A seed as PyTorch takes it: any integer that 64 bits hold, with or without sign.
std::uint64_t seed_of(nb::handle seed) {
  std::uint64_t positive = 0;
  if (nb::try_cast(seed, positive)) return positive;
  PyErr_Clear();
  std::int64_t negative = 0;
  if (nb::try_cast(seed, negative)) return static_cast<std::uint64_t>(negative);
  PyErr_Clear();
  raise_value_error("seed is " + std::string(nb::repr(seed).c_str()) +
                    "; it must be a whole number from -2^63 to 2^64 - 1");
}

}  // namespace

void add_random(nb::module_& module) {
  nb::class_<Generator>(module, "Generator",
                        R"(Random numbers with the bits of PyTorch's CPU generator.

Generator(0).randn(4, 8) has the bits of torch.manual_seed(0); torch.randn(4, 8), and so on for the
same seed and the same sequence of calls (PyTorch 1.13 to 2.13; randint over ranges of 2^28 or more: since 2.7). Arrays are NumPy's.)")
      .def(
          "__init__", [](Generator* self, nb::handle seed) { new (self) Generator(seed_of(seed)); },
          nb::sig("def __init__(self, seed: int = 0)"), "seed"_a.none() = 0)
      .def(
          "manual_seed",
          [](nb::object self, nb::handle seed) {
            Generator& generator = nb::cast<Generator&>(self);
            const std::uint64_t number = seed_of(seed);
            draw_outside([&] { generator.manual_seed(number); });
            return self;
          },
          "seed"_a.none(),
          "Starts again from `seed`, of which the low 32 bits count; returns itself.")
      .def(
          "randn",
          [](Generator& self, const nb::args& size) {
            return drawn(sizes_of(size), [&](View<float, 1> out) { self.normal(out); });
          },
          "size"_a, "Standard normal float32 numbers of that shape: randn(2, 3) or randn((2, 3)).")
      .def(
          "rand",
          [](Generator& self, const nb::args& size) {
            return drawn(sizes_of(size), [&](View<float, 1> out) { self.uniform(out, 0, 1); });
          },
          "size"_a, "Uniform float32 numbers in [0, 1) of that shape.")
      .def(
          "randint",
          [](Generator& self, nb::handle lowest, nb::handle above, nb::handle size) {
            const Index low = whole("low", lowest), high = whole("high", above);
            if (low >= high) {
              raise_value_error("low is " + std::to_string(low) + " and high " +
                                std::to_string(high) + "; low must be below high");
            }
            const Axes shape = sizes_of(nb::make_tuple(size));
            const auto numbers =
                draw_outside([&] { return self.randint(low, high, shape.count()); });
            return to_numpy(numbers.data(), Element::int64, shape);
          },
          nb::sig("def randint(self, low: int, high: int, size)"), "low"_a.none(), "high"_a.none(),
          "size"_a.none(), "int64 numbers in [low, high) of that shape.")
      .def(
          "randperm",
          [](Generator& self, nb::handle count) {
            const Index n = whole("n", count);
            if (n < 0 || n > Index{1} << 40) {
              raise_value_error("n is " + std::to_string(n) +
                                "; it must be from 0 to what memory holds");
            }
            return to_numpy(draw_outside([&] { return self.randperm(n); }));
          },
          nb::sig("def randperm(self, n: int)"), "n"_a.none(),
          "A permutation of 0 .. n - 1, int64.");
}

}  // namespace headproof::python
