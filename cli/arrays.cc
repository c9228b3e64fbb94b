#include "arrays.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "attention/canonical.h"
#include "headproof/files.h"
#include "headproof/npy.h"

namespace headproof::cli {
namespace {

/// The code of the elements in a file that parse_npy has read: {'descr': '<f2', ...}.
std::string element_of(std::string_view npy) {
  const std::size_t key = npy.find("descr");
  const std::size_t start = npy.find_first_of("'\"", key + 6) + 1;
  const std::size_t end = npy.find_first_of("'\"", start);
  return std::string(npy.substr(end - 2, 2));
}

}  // namespace

Result<FileArray> read_array(const std::string& file) {
  const auto bytes = read_file(file);
  if (!bytes) return bytes.error();
  auto array = parse_npy(*bytes, file);
  if (!array) return array.error();
  if (auto error = memory_error(file, array->shape)) return *error;
  return FileArray{std::move(*array), element_of(*bytes)};
}

std::optional<Error> memory_error(const std::string& name, const std::vector<Index>& shape) {
  double bytes = 3 * sizeof(float);
  for (const Index extent : shape) bytes *= static_cast<double>(std::max<Index>(extent, 1));
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (bytes <= memory) return std::nullopt;
  return Error{fmt::format("{} has shape {}, too large for the memory of this machine", name,
                           shape_text(shape))};
}

std::string shape_text(const std::vector<Index>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Mask OwnedMask::view() const {
  return std::visit(
      [this]<class T>(const std::unique_ptr<T[]>& elements) {
        return Mask(View<const T, 4>(elements.get(), shape));
      },
      values);
}

Result<OwnedMask> as_mask(const FileArray& file, const std::string& name, Index columns) {
  const auto& [array, element] = file;
  const auto* integers = std::get_if<std::vector<Index>>(&array.values);
  if (integers != nullptr && element != "b1") {
    return Error{name +
                 " holds integers; a mask is boolean (true = may attend) or floating-point "
                 "(added to the logits)"};
  }
  const std::size_t rank = array.shape.size();
  if (rank < 1 || rank > 4) {
    return Error{
        fmt::format("{} has shape {}; a mask has one to four axes, the last ones of "
                    "[batch, num_heads, seq_len_q, seq_len_k]",
                    name, shape_text(array.shape))};
  }
  OwnedMask mask;
  std::copy_backward(array.shape.begin(), array.shape.end(), mask.shape.end());
  const Index rows = mask.shape[0] * mask.shape[1] * mask.shape[2];
  const Index from = mask.shape[3], to = std::max(from, columns);
  mask.shape[3] = to;
  if (auto error = memory_error(name, {mask.shape.begin(), mask.shape.end()})) return *error;
  const auto fill = [&]<class T>(const auto& elements, T forbidden) {
    auto filled = std::make_unique<T[]>(static_cast<std::size_t>(rows * to));
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < to; ++j) {
        filled[static_cast<std::size_t>(i * to + j)] =
            j < from ? static_cast<T>(elements[static_cast<std::size_t>(i * from + j)]) : forbidden;
      }
    }
    mask.values = std::move(filled);
  };
  if (integers != nullptr) {
    fill(*integers, false);
  } else if (const auto* floats = std::get_if<std::vector<float>>(&array.values)) {
    fill(*floats, -std::numeric_limits<float>::infinity());
  } else {
    fill(std::get<std::vector<double>>(array.values), -std::numeric_limits<double>::infinity());
  }
  return mask;
}

template <class Scalar>
Result<AttentionOutput<Scalar>> attend_with(std::string_view implementation,
                                            View<const Scalar, 4> q, View<const Scalar, 4> k,
                                            View<const Scalar, 4> v,
                                            const AttentionOptions& options) {
  if (implementation == "fused") return attention(q, k, v, options);
  if (auto error = attention_error(q.shape, k.shape, v.shape, options)) return *error;
  if (implementation == "canonical") return attention_canonical(q, k, v, options);
  auto stages = attention_reference(q, k, v, options);
  return AttentionOutput<Scalar>{std::move(stages.out), std::move(stages.lse)};
}

#define HEADPROOF_INSTANTIATE(Scalar)                                                        \
  template Result<AttentionOutput<Scalar>> attend_with(                                      \
      std::string_view, View<const Scalar, 4>, View<const Scalar, 4>, View<const Scalar, 4>, \
      const AttentionOptions&);
HEADPROOF_INSTANTIATE(float)
HEADPROOF_INSTANTIATE(double)
#undef HEADPROOF_INSTANTIATE

}  // namespace headproof::cli
