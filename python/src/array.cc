#include "array.h"

#include <nanobind/stl/pair.h>

#include <cstdint>
#include <cstring>

#include "half.h"

namespace headproof::python {
namespace {

struct Known {
  Element element;
  const char* name;
  Index size;
};
constexpr std::array<Known, 7> known = {{{Element::float16, "float16", 2},
                                         {Element::bfloat16, "bfloat16", 2},
                                         {Element::float32, "float32", 4},
                                         {Element::float64, "float64", 8},
                                         {Element::boolean, "bool", 1},
                                         {Element::int32, "int32", 4},
                                         {Element::int64, "int64", 8}}};

const Known& about(Element element) { return known[static_cast<std::size_t>(element)]; }

/// The parts of NumPy that are used.
struct Numpy {
  nb::object ndarray, empty;
  std::array<nb::object, known.size()> dtypes;  // none for bfloat16
};
const Numpy* numpy = nullptr;  // never destroyed: the interpreter may be gone by then

/// Whether it is an instance of the class `name` of a module that is already imported.
bool is_instance(nb::handle object, const char* module, const char* name) {
  PyObject* const modules = PyImport_GetModuleDict();
  PyObject* const found = PyDict_GetItemString(modules, module);
  if (found == nullptr) return false;
  const nb::object type = nb::getattr(nb::handle(found), name, nb::none());
  if (!PyType_Check(type.ptr())) return false;
  const int is = PyObject_IsInstance(object.ptr(), type.ptr());
  if (is < 0) PyErr_Clear();
  return is == 1;
}

Maker maker_of(nb::handle object) {
  if (object.type().is(numpy->ndarray)) return Maker::numpy;
  if (is_instance(object, "torch", "Tensor")) return Maker::torch;
  if (is_instance(object, "jax", "Array")) return Maker::jax;
  return Maker::numpy;
}

/// The elements that a format of the buffer protocol stands for.
Element element_of(const char* format, Index size, bool& big_endian) {
  if (format == nullptr) return Element::other;  // bytes
  if (*format == '>' || *format == '!') big_endian = size > 1;
  if (std::strchr("<>=@!", *format) != nullptr && *format != '\0') ++format;
  if (format[0] == '\0' || format[1] != '\0') return Element::other;
  switch (*format) {
    case 'e':
      return Element::float16;
    case 'f':
      return Element::float32;
    case 'd':
      return Element::float64;
    case '?':
      return Element::boolean;
    case 'i':
    case 'l':
    case 'q':
      return size == 4 ? Element::int32 : size == 8 ? Element::int64 : Element::other;
    default:
      return Element::other;
  }
}

Element element_of(nb::dlpack::dtype type) {
  using Code = nb::dlpack::dtype_code;
  if (type.lanes != 1) return Element::other;
  const auto is = [&](Code code, int bits) {
    return type.code == static_cast<std::uint8_t>(code) && type.bits == bits;
  };
  if (is(Code::Float, 16)) return Element::float16;
  if (is(Code::Bfloat, 16)) return Element::bfloat16;
  if (is(Code::Float, 32)) return Element::float32;
  if (is(Code::Float, 64)) return Element::float64;
  if (is(Code::Bool, 8)) return Element::boolean;
  if (is(Code::Int, 32)) return Element::int32;
  if (is(Code::Int, 64)) return Element::int64;
  return Element::other;
}

/// What `__dlpack_device__` says, or None.
nb::object device_of(const std::string& name, nb::handle object) {
  if (!nb::hasattr(object, "__dlpack_device__")) return nb::none();
  try {
    return object.attr("__dlpack_device__")();
  } catch (nb::python_error& error) {
    raise_value_error(
        name + " lies where DLPack does not reach: " + std::string(nb::str(error.value()).c_str()));
  }
}

std::string text_of(nb::handle object) { return nb::str(object).c_str(); }

/// Calls `take` with the place of each element, in row-major order.
template <class Take>
void for_each(const Axes& shape, const Axes& strides, const Take& take) {
  if (shape.count() == 0) return;
  Axes at;
  for (Index offset = 0;;) {
    take(offset);
    int axis = shape.rank;
    while (axis-- > 0) {
      offset += strides[axis];
      if (++at[axis] < shape[axis]) break;
      offset -= at[axis] * strides[axis];
      at[axis] = 0;
    }
    if (axis < 0) return;
  }
}

template <class Narrow>
std::vector<float> all_widened(const void* data, const Axes& shape, const Axes& strides) {
  std::vector<float> wide;
  wide.reserve(static_cast<std::size_t>(shape.count()));
  const auto* numbers = static_cast<const Narrow*>(data);
  for_each(shape, strides, [&](Index at) { wide.push_back(widened(numbers[at])); });
  return wide;
}

template <class Narrow>
void narrow_all(const std::vector<float>& from, void* to) {
  auto* number = static_cast<Narrow*>(to);
  for (const float value : from) narrow(value, *number++);
}

nb::object empty_numpy(nb::handle dtype, const Axes& shape) {
  PyObject* const sizes = PyTuple_New(shape.rank);
  if (sizes == nullptr) throw nb::python_error();
  const nb::object held = nb::steal(sizes);
  for (int axis = 0; axis < shape.rank; ++axis) {
    PyTuple_SetItem(sizes, axis, PyLong_FromSsize_t(static_cast<Py_ssize_t>(shape[axis])));
  }
  return numpy->empty(held, dtype);
}

void get_buffer(nb::handle array, Py_buffer& buffer, int flags) {
  if (PyObject_GetBuffer(array.ptr(), &buffer, flags) != 0) throw nb::python_error();
}

}  // namespace

void raise_value_error(const std::string& sentence) { throw nb::value_error(sentence.c_str()); }
void raise_type_error(const std::string& sentence) { throw nb::type_error(sentence.c_str()); }

std::string kind_of(nb::handle object) {
  const nb::handle type = object.type();
  return text_of(type.attr("__module__")) + "." + text_of(type.attr("__qualname__"));
}

void prepare_arrays() {
  auto* const made = new Numpy;
  const nb::module_ module = nb::module_::import_("numpy");
  made->ndarray = module.attr("ndarray");
  made->empty = module.attr("empty");
  for (const Known& one : known) {
    if (one.element == Element::bfloat16) continue;
    made->dtypes[static_cast<std::size_t>(one.element)] = module.attr("dtype")(one.name);
  }
  numpy = made;
}

const char* name_of(Element element) { return about(element).name; }

Index Axes::count() const {
  Index product = 1;
  for (int axis = 0; axis < rank; ++axis) product *= (*this)[axis];
  return product;
}

bool Axes::is_countable() const {
  double product = 1;
  for (int axis = 0; axis < rank; ++axis) product *= static_cast<double>((*this)[axis]);
  return product <= 0x1p48;
}

std::string Axes::text() const {
  std::string list;
  for (int axis = 0; axis < rank; ++axis) {
    list += (axis > 0 ? ", " : "") + std::to_string((*this)[axis]);
  }
  return "[" + list + "]";
}

Input::Input(const char* name, nb::handle object) : name_(name), object_(object) {
  maker_ = maker_of(object);
  if (!take_buffer()) take_dlpack();
  try {
    check();
  } catch (...) {
    PyBuffer_Release(&buffer_);
    throw;
  }
}

Input::~Input() { PyBuffer_Release(&buffer_); }

bool Input::take_buffer() {
  if (PyObject_CheckBuffer(object_.ptr()) == 0) return false;
  if (PyObject_GetBuffer(object_.ptr(), &buffer_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    PyErr_Clear();
    // NumPy has no format for numbers of others, such as the bfloat16 of ml_dtypes.
    const nb::object dtype = nb::getattr(object_, "dtype", nb::none());
    if (text_of(dtype) != "bfloat16" || maker_ != Maker::numpy) return false;
    viewed_ = object_.attr("view")("uint16");
    get_buffer(viewed_, buffer_, PyBUF_STRIDES | PyBUF_FORMAT);
    element_ = Element::bfloat16;
  }
  const auto size = static_cast<Index>(buffer_.itemsize);
  if (element_ == Element::other) element_ = element_of(buffer_.format, size, big_endian_);
  if (element_ == Element::other) {
    const nb::object dtype = nb::getattr(object_, "dtype", nb::none());
    other_name_ = dtype.is_none() ? "elements of the format " +
                                        std::string(buffer_.format ? buffer_.format : "B")
                                  : text_of(dtype);
  }
  data_ = buffer_.buf;
  shape_.rank = strides_.rank = buffer_.ndim;
  if (buffer_.ndim > most_axes) return true;  // check() says so
  Index step = size;                          // what ctypes exports is dense and says no strides
  for (int axis = buffer_.ndim; axis-- > 0;) {
    shape_[axis] = static_cast<Index>(buffer_.shape[axis]);
    const Index bytes = buffer_.strides ? static_cast<Index>(buffer_.strides[axis]) : step;
    if (bytes % size != 0 && shape_[axis] > 1) odd_strides_ = true;
    strides_[axis] = bytes / size;
    step *= shape_[axis];
  }
  return true;
}

void Input::take_dlpack() {
  if (maker_ == Maker::torch && nb::cast<bool>(object_.attr("requires_grad"))) {
    raise_value_error(std::string(name_) +
                      " requires grad, and this function keeps no record: "
                      "headproof.torch.attention differentiates, or hand over " +
                      name_ + ".detach()");
  }
  const std::string kind = kind_of(object_);
  if (!nb::hasattr(object_, "__dlpack__")) {
    raise_type_error(std::string(name_) + " is " + kind +
                     "; it must be an array: of NumPy, or one that offers DLPack or the buffer "
                     "protocol");
  }
  const nb::object device = device_of(name_, object_);
  std::pair<int, int> number{nb::device::cpu::value, 0};
  if (!device.is_none() && !nb::try_cast(device, number)) {
    PyErr_Clear();
    raise_type_error(std::string(name_) + ", a " + kind + ", says no device of DLPack");
  }
  if (number.first != nb::device::cpu::value && number.first != 3) {  // 3: pinned by CUDA
    const nb::object shown = nb::getattr(object_, "device", nb::none());
    raise_value_error(
        std::string(name_) + " lies on the device " +
        (shown.is_none() ? "of DLPack's number " + std::to_string(number.first) : text_of(shown)) +
        "; headproof computes on the CPU: bring it there first");
  }
  // PyTorch may keep a sign beside the numbers, as of the imaginary part of a conjugate: DLPack has
  // no word for it.
  const nb::object plain =
      maker_ == Maker::torch ? object_.attr("resolve_neg")() : nb::borrow(object_);
  if (!nb::try_cast(plain, tensor_, false)) {
    PyErr_Clear();
    raise_type_error(std::string(name_) + ", a " + kind + ", does not export its memory by DLPack");
  }
  data_ = tensor_.data();
  element_ = element_of(tensor_.dtype());
  if (element_ == Element::other) other_name_ = text_of(nb::getattr(object_, "dtype", nb::none()));
  shape_.rank = strides_.rank = static_cast<int>(tensor_.ndim());
  if (shape_.rank > most_axes) return;
  for (int axis = 0; axis < shape_.rank; ++axis) {
    shape_[axis] = static_cast<Index>(tensor_.shape(static_cast<std::size_t>(axis)));
    strides_[axis] = static_cast<Index>(tensor_.stride(static_cast<std::size_t>(axis)));
  }
}

void Input::check() const {
  const std::string name = name_;
  if (shape_.rank > most_axes) {
    raise_value_error(name + " has " + std::to_string(shape_.rank) + " axes; the most are " +
                      std::to_string(most_axes));
  }
  if (!shape_.is_countable()) {
    raise_value_error(name + " has shape " + shape_.text() + "; it may have at most 2^48 elements");
  }
  if (element_ == Element::other) return;  // whoever asks for an element says which would do
  const Index size = about(element_).size;
  if (big_endian_) {
    raise_value_error(name + " holds " + element_name() +
                      " with the bytes in the order of another "
                      "machine; " +
                      name + ".astype(" + name + ".dtype.newbyteorder('=')) turns them");
  }
  if (odd_strides_ || reinterpret_cast<std::intptr_t>(data_) % size != 0) {
    raise_value_error(name + " lies unaligned in memory; numpy.copy(" + name + ") does not");
  }
}

std::string Input::element_name() const {
  return element_ == Element::other ? other_name_ : about(element_).name;
}

void Input::widen() {
  if (element_ == Element::float16) {
    widened_ = all_widened<Half>(data_, shape_, strides_);
  } else if (element_ == Element::bfloat16) {
    widened_ = all_widened<Bfloat>(data_, shape_, strides_);
  } else {
    return;
  }
  data_ = widened_.data();
  Index step = 1;
  for (int axis = shape_.rank; axis-- > 0;) {
    strides_[axis] = step;
    step *= shape_[axis];
  }
}

std::vector<Index> Input::integers() const {
  std::vector<Index> values;
  if (element_ != Element::int32 && element_ != Element::int64) {
    raise_type_error(std::string(name_) + " holds " + element_name() +
                     "; it must hold int32 or int64");
  }
  for_each(shape_, strides_, [&](Index at) {
    values.push_back(element_ == Element::int32
                         ? static_cast<const std::int32_t*>(data_)[at]
                         : static_cast<Index>(static_cast<const std::int64_t*>(data_)[at]));
  });
  return values;
}

Output::Output(const Input& like, Element element, const Axes& shape)
    : maker_(like.maker()), element_(element), shape_(shape) {
  if (!shape.is_countable()) {
    raise_value_error("the result would have shape " + shape.text() +
                      "; it may have at most 2^48 elements");
  }
  if (element == Element::float16 || element == Element::bfloat16) {
    narrowed_.resize(static_cast<std::size_t>(shape.count()));
  }
  if (maker_ == Maker::numpy) {
    const nb::object& dtype = numpy->dtypes[static_cast<std::size_t>(element)];
    if (dtype.is_valid()) {
      array_ = empty_numpy(dtype, shape);
      get_buffer(array_, buffer_, PyBUF_STRIDES);
    } else {  // NumPy gives bfloat16 no buffer
      array_ = empty_numpy(like.object().attr("dtype"), shape);
      get_buffer(array_.attr("view")("uint16"), buffer_, PyBUF_STRIDES);
    }
    data_ = buffer_.buf;
    return;
  }
  // What others get lies at a multiple of 64 bytes: then they take it as it is.
  constexpr std::align_val_t alignment{64};
  const Index bytes = std::max<Index>(shape.count(), 1) * about(element).size;
  data_ = ::operator new(static_cast<std::size_t>(bytes), alignment);
  array_ = nb::capsule(data_, [](void* memory) noexcept { ::operator delete(memory, alignment); });
}

Output::~Output() { PyBuffer_Release(&buffer_); }

void Output::finish() {
  if (narrowed_.empty()) return;
  if (element_ == Element::float16) {
    narrow_all<Half>(narrowed_, data_);
  } else {
    narrow_all<Bfloat>(narrowed_, data_);
  }
}

nb::object Output::take() {
  if (maker_ == Maker::numpy) return std::move(array_);
  using Code = nb::dlpack::dtype_code;
  const Code code = element_ == Element::bfloat16 ? Code::Bfloat : Code::Float;
  const nb::dlpack::dtype type{static_cast<std::uint8_t>(code),
                               static_cast<std::uint8_t>(8 * about(element_).size), 1};
  std::array<std::size_t, most_axes> sizes{};
  std::copy(shape_.sizes.begin(), shape_.sizes.end(), sizes.begin());
  const auto rank = static_cast<std::size_t>(shape_.rank);
  if (maker_ == Maker::torch) {
    return nb::cast(nb::ndarray<nb::pytorch>(data_, rank, sizes.data(), array_, nullptr, type));
  }
  return nb::cast(nb::ndarray<nb::jax>(data_, rank, sizes.data(), array_, nullptr, type));
}

nb::object to_numpy(const void* data, Element element, const Axes& shape) {
  nb::object array = empty_numpy(numpy->dtypes[static_cast<std::size_t>(element)], shape);
  Py_buffer buffer{};
  get_buffer(array, buffer, PyBUF_STRIDES);
  const auto bytes = static_cast<std::size_t>(shape.count() * about(element).size);
  if (bytes > 0) std::memcpy(buffer.buf, data, bytes);
  PyBuffer_Release(&buffer);
  return array;
}

}  // namespace headproof::python
