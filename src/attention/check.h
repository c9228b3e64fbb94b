// What is wrong with the memory that a caller hands in. Nothing here allocates unless something is.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "headproof/attention.h"

namespace headproof {

/// A view of up to four axes without its type and rank. It reads the view that it is made of, and
/// must not outlive it.
struct AnyView {
  std::string_view name;  ///< what a sentence calls it
  const void* data;
  Index element_size;  ///< bytes
  std::size_t rank;    ///< number of axes
  const Index* shape;
  const Index* strides;

  template <class T, std::size_t Rank>
  AnyView(std::string_view what, const View<T, Rank>& view)
      : name(what),
        data(view.data),
        element_size{sizeof(T)},
        rank(Rank),
        shape(view.shape.data()),
        strides(view.strides.data()) {}
};

/// What the options view: mask, first_key and key_length; empty where they are absent.
std::array<AnyView, 3> views_of(const AttentionOptions& options);

/// Why a view has not the shape that it should, which is the beginning of `expected`.
std::optional<Error> shape_error(const AnyView& view, const std::array<Index, 4>& expected);

/// Why the elements of a view have no place in memory: there are some, but its data is null, or
/// its strides lead out of the address space.
std::optional<Error> data_error(const AnyView& view);

/// Why a result cannot be written to a view: some of its elements share memory. Precondition of
/// this and the next: `data_error` finds nothing.
std::optional<Error> self_overlap_error(const AnyView& output);

/// Why `output` cannot be written while `other` is read or written: they share memory. Elements
/// that lie between each other's, as d_q, d_k and d_v of one packed array do, share none.
std::optional<Error> overlap_error(const AnyView& output, const AnyView& other);

/// `data_error` of inputs and outputs, and the overlaps of outputs with themselves, each other,
/// inputs and what the options view. Precondition: `attention_error` finds nothing.
std::optional<Error> memory_error(std::initializer_list<AnyView> inputs,
                                  const AttentionOptions& options,
                                  std::initializer_list<AnyView> outputs);

}  // namespace headproof
