#include "frame.h"

#include <algorithm>

namespace headproof::python {
namespace {

std::string described(const Input& input) {
  return std::string(input.name()) + " has shape " + input.shape().text();
}

/// The extent of axis `axis` from the end, of 1 where there is none.
Index from_end(const Axes& shape, int axis) {
  return axis > shape.rank ? 1 : shape[shape.rank - axis];
}

}  // namespace

Strided::Strided(const void* first, const Axes& sizes) : data(first), shape(sizes) {
  strides.rank = shape.rank;
  Index step = 1;
  for (int axis = shape.rank; axis-- > 0;) {
    strides[axis] = step;
    step *= std::max<Index>(shape[axis], 1);
  }
}

Frame::Frame(const Input& query, const Input& key, const Input& value, bool grouped)
    : grouped_(grouped) {
  int rank = 2;
  for (const Input* input : {&query, &key, &value}) {
    if (input->shape().rank < 2) {
      raise_value_error(described(*input) +
                        "; it must have at least the two axes [seq_len, head_dim]");
    }
    rank = std::max(rank, input->shape().rank);
  }
  const auto differ = [](const Input& a, const Input& b, int axis, const char* what) {
    if (from_end(a.shape(), axis) == from_end(b.shape(), axis)) return;
    raise_value_error(described(a) + " and " + described(b) + "; " + what + " must be the same");
  };
  differ(query, key, 1, "head_dim, the last axis,");
  differ(key, value, 2, "the number of keys, the last axis but one,");
  leading_.rank = rank - 2;
  if (leading_.rank == 1) {
    (grouped ? heads_axis_ : batch_axis_) = 0;
  } else if (leading_.rank > 1) {
    heads_axis_ = leading_.rank - 1;
    batch_axis_ = leading_.rank - 2;
  }
  for (int axis = 0; axis < leading_.rank; ++axis) {
    const int end = rank - axis;
    leading_[axis] = from_end(query.shape(), end);
    if (grouped && axis == heads_axis_) {
      differ(key, value, end, "the number of heads, the third axis from the end,");
      const Index heads = leading_[axis], of_key = from_end(key.shape(), end);
      if (heads != of_key && (of_key == 0 || heads % of_key != 0)) {
        raise_value_error(described(query) + " and " + described(key) +
                          "; the heads of key and "
                          "value, " +
                          std::to_string(of_key) + ", must divide those of query, " +
                          std::to_string(heads));
      }
      continue;
    }
    for (const Input* input : {&key, &value}) {
      const Index size = from_end(input->shape(), end);
      if (leading_[axis] == 1) leading_[axis] = size;
      if (size != 1 && size != leading_[axis]) {
        const bool heads = axis == heads_axis_ && query.shape().rank >= 3 && size > 0 &&
                           leading_[axis] % size == 0;
        raise_value_error(described(query) + " and " + described(*input) +
                          (heads ? "; enable_gqa=True lets heads of query share those of key and "
                                   "value"
                                 : "; the axes before the last two must be the same or 1"));
      }
    }
  }
  for (int axis = 0; axis < batch_axis_; ++axis) calls_ *= leading_[axis];
}

bool Frame::spreads(const Input& input) const {
  const int missing = leading_.rank + 2 - input.shape().rank;
  for (int axis = 0; axis < leading_.rank; ++axis) {
    if (grouped_ && axis == heads_axis_) continue;
    if (axis < missing || input.shape()[axis - missing] != leading_[axis]) return true;
  }
  return false;
}

Axes Frame::with_last(std::initializer_list<Index> last) const {
  Axes shape = leading_;
  for (const Index extent : last) shape[shape.rank++] = extent;
  return shape;
}

}  // namespace headproof::python
