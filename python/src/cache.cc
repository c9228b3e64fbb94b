// KvCache.

#include <mutex>
#include <shared_mutex>
#include <variant>

#include "argument.h"
#include "floating.h"
#include "frame.h"
#include "headproof/kv_cache.h"
#include "options.h"
#include "parts.h"
#include "work.h"

namespace headproof::python {
namespace {

using namespace nb::literals;  // NOLINT: names of arguments

/// A cache of floats or doubles that threads of Python may share: the GIL is free while it works.
class Cache {
 public:
  Cache(nb::handle batch, nb::handle num_kv_heads, nb::handle head_dim, nb::handle value_dim,
        nb::handle first_key, nb::handle dtype_name)
      : sizes_{size_of("batch", batch), size_of("num_kv_heads", num_kv_heads),
               size_of("head_dim", head_dim), size_of("value_dim", value_dim)} {
    const std::string dtype = word("dtype", dtype_name);
    if (dtype != "float32" && dtype != "float64") {
      raise_value_error("dtype is '" + dtype +
                        "'; it must be 'float32', which also holds float16 "
                        "and bfloat16, or 'float64'");
    }
    std::vector<Index> first = read_lengths("first_key", first_key, 1, sizes_[0]);
    for (const Index position : first) {
      if (position < 0) {
        raise_value_error("first_key holds " + std::to_string(position) + "; it counts from 0");
      }
    }
    if (dtype == "float64") {
      cache_.emplace<KvCache<double>>(sizes_[0], sizes_[1], sizes_[2], sizes_[3], std::move(first));
    } else {
      cache_.emplace<KvCache<float>>(sizes_[0], sizes_[1], sizes_[2], sizes_[3], std::move(first));
    }
  }

  Element element() const { return cache_.index() == 1 ? Element::float64 : Element::float32; }

  void append(nb::handle k, nb::handle v) {
    Input key("key", k), value("value", v);
    check_floating({&key, &value});
    check(key);
    check(value);
    check_rank(key);
    check_rank(value);
    const Index added = key.shape()[2];
    check_shape(key, {sizes_[0], sizes_[1], added, sizes_[2]});
    check_shape(value, {sizes_[0], sizes_[1], added, sizes_[3]});
    const Signals signals;
    with_cache([&]<class Scalar>(KvCache<Scalar>& cache) {
      run_outside(0, signals, [&]() -> Status {
        key.widen();
        value.widen();
        const std::unique_lock lock(mutex_);
        return cache.append(view_of<Scalar>(key), view_of<Scalar>(value));
      });
    });
  }

  nb::object attend(nb::handle q, const Options& options, bool return_lse) {
    Input query("query", q);
    check_floating({&query});
    check(query);
    check_rank(query);
    const Frame frame(query, query, query, false);
    const Axes& shape = query.shape();
    if (shape[0] != sizes_[0] || shape[3] != sizes_[2]) {
      raise_value_error("query has shape " + shape.text() + "; this cache needs [" +
                        std::to_string(sizes_[0]) + ", num_heads, seq_len_q, " +
                        std::to_string(sizes_[2]) + "]");
    }
    if (sizes_[1] == 0 ? shape[1] != 0 : shape[1] % sizes_[1] != 0) {
      raise_value_error("query has " + std::to_string(shape[1]) +
                        " heads, which must be a multiple of the cache's " +
                        std::to_string(sizes_[1]));
    }
    ReadOptions read(options, frame, shape[2], size());
    Output out(query, query.element(), frame.with_last({shape[2], sizes_[3]}));
    std::optional<Output> lse;
    if (return_lse) lse.emplace(query, wide(query.element()), frame.with_last({shape[2]}));
    Signals signals;
    with_cache([&]<class Scalar>(const KvCache<Scalar>& cache) {
      run_outside(read.threads(), signals, [&]() -> Status {
        query.widen();
        read.widen();
        AttentionOptions of_call = read.of_call(frame, 0);
        of_call.progress = signals.progress();
        View<Scalar, 3> lse_view;
        if (lse) lse_view = frame.output<Scalar, 3>({lse->numbers(), lse->shape()}, 0);
        const std::shared_lock lock(mutex_);
        auto done =
            cache.attend_into(view_of<Scalar>(query), of_call,
                              frame.output<Scalar, 4>({out.numbers(), out.shape()}, 0), lse_view);
        if (done) out.finish();
        return done;
      });
    });
    if (!lse) return out.take();
    return nb::make_tuple(out.take(), lse->take());
  }

  Index size() const {
    const nb::gil_scoped_release outside;
    const std::shared_lock lock(mutex_);
    return std::visit([](const auto& cache) { return cache.size(); }, cache_);
  }
  void truncate(nb::handle given) {
    const Index size = whole("size", given);
    if (size < 0) raise_value_error("size is " + std::to_string(size) + "; it counts from 0");
    const nb::gil_scoped_release outside;
    const std::unique_lock lock(mutex_);
    std::visit([&](auto& cache) { cache.truncate(size); }, cache_);
  }
  void reserve(nb::handle given) {
    const Index size = whole("size", given);
    const double bytes = static_cast<double>(size) * static_cast<double>(sizes_[0]) *
                         static_cast<double>(sizes_[1]) *
                         static_cast<double>(sizes_[2] + sizes_[3]) * 8;
    if (size < 0 || bytes > 0x1p46) {
      raise_value_error("size is " + std::to_string(size) +
                        "; it must be from 0 to what memory holds");
    }
    const nb::gil_scoped_release outside;
    const std::unique_lock lock(mutex_);
    std::visit([&](auto& cache) { cache.reserve(size); }, cache_);
  }

 private:
  /// Raises unless the array's numbers are those of the cache.
  void check(const Input& input) const {
    if (wide(input.element()) == element()) return;
    raise_type_error(std::string(input.name()) + " holds " + input.element_name() +
                     ", and this cache " + name_of(element()));
  }
  static Index size_of(const char* name, nb::handle given) {
    const Index size = whole(name, given);
    if (size >= 0 && size <= Index{1} << 40) return size;
    raise_value_error(std::string(name) + " is " + std::to_string(size) +
                      "; it must be from 0 to 2^40");
  }
  static void check_shape(const Input& input, const std::array<Index, 4>& wanted) {
    Axes needed;
    for (const Index size : wanted) needed[needed.rank++] = size;
    if (input.shape() == needed) return;
    raise_value_error(std::string(input.name()) + " has shape " + input.shape().text() +
                      "; this cache needs " + needed.text());
  }
  static void check_rank(const Input& input) {
    if (input.shape().rank == 4) return;
    raise_value_error(std::string(input.name()) + " has shape " + input.shape().text() +
                      "; a cache takes [batch, num_heads, seq_len, dim]");
  }

  template <class Work>
  void with_cache(const Work& work) {
    std::visit(work, cache_);
  }
  template <class Scalar>
  static View<const Scalar, 4> view_of(const Input& input) {
    View<const Scalar, 4> view;
    view.data = static_cast<const Scalar*>(input.data());
    for (int axis = 0; axis < 4; ++axis) {
      view.shape[static_cast<std::size_t>(axis)] = input.shape()[axis];
      view.strides[static_cast<std::size_t>(axis)] = input.strides()[axis];
    }
    return view;
  }

  std::array<Index, 4> sizes_;
  std::variant<KvCache<float>, KvCache<double>> cache_{std::in_place_index<0>, 0, 0, 0, 0};
  mutable std::shared_mutex mutex_;
};

}  // namespace

void add_cache(nb::module_& module) {
  nb::class_<Cache>(module, "KvCache",
                    R"(Keys and values of tokens that were seen before, for decoding.

Attention with it has, bit for bit, the rows of attention over all keys at once, whether they came
one at a time or in chunks of any size.

Args:
    batch, num_kv_heads, head_dim, value_dim: the sizes that stay.
    first_key: integers [batch]; tokens before first_key[b] are padding, which is not kept.
    dtype: 'float32', which float16 and bfloat16 are widened to, or 'float64'.)")
      .def(nb::init<nb::handle, nb::handle, nb::handle, nb::handle, nb::handle, nb::handle>(),
           nb::sig("def __init__(self, batch: int, num_kv_heads: int, head_dim: int, "
                   "value_dim: int, *, first_key=None, dtype: str = 'float32')"),
           "batch"_a.none(), "num_kv_heads"_a.none(), "head_dim"_a.none(), "value_dim"_a.none(),
           nb::kw_only(), "first_key"_a = nb::none(), "dtype"_a.none() = "float32")
      .def(
          "append", &Cache::append, "key"_a.none(), "value"_a.none(),
          "Adds tokens: key [batch, num_kv_heads, new, head_dim], value [batch, num_kv_heads, new, "
          "value_dim]. After an error the cache is as before.")
      .def(
          "attend",
          [](Cache& cache, nb::handle query, nb::handle attn_mask, nb::handle scale,
             nb::handle causal, nb::handle query_offset, nb::handle window, nb::handle window_right,
             nb::handle softcap, nb::handle key_length, nb::handle return_lse, nb::handle threads) {
            return cache.attend(query,
                                {attn_mask, nb::handle(), scale, causal, query_offset, window,
                                 window_right, softcap, nb::handle(), key_length, threads},
                                flag("return_lse", return_lse));
          },
          nb::sig("def attend(self, query, attn_mask=None, *, scale: float | None = None, "
                  "causal: str = 'bottom_right', query_offset: int | None = None, "
                  "window: int | None = None, window_right: int | None = None, "
                  "softcap: float = 0.0, key_length=None, return_lse: bool = False, "
                  "threads: int | None = None)"),
          "query"_a.none(), "attn_mask"_a = nb::none(), nb::kw_only(), "scale"_a = nb::none(),
          "causal"_a = "bottom_right", "query_offset"_a = nb::none(), "window"_a = nb::none(),
          "window_right"_a = nb::none(), "softcap"_a.none() = 0.0, "key_length"_a = nb::none(),
          "return_lse"_a.none() = false, "threads"_a = nb::none(),
          "Attention of query [batch, num_heads, seq_len_q, head_dim] over all tokens of the "
          "cache, "
          "of which the queries are the last; options and results are those of "
          "scaled_dot_product_attention. num_kv_heads divides num_heads.")
      .def("__len__", &Cache::size)
      .def("truncate", &Cache::truncate, nb::sig("def truncate(self, size: int) -> None"),
           "size"_a.none(),
           "Forgets tokens from the end on until `size` are left; none when there are no more.")
      .def("reserve", &Cache::reserve, nb::sig("def reserve(self, size: int) -> None"),
           "size"_a.none(),
           "Makes room for `size` tokens, so that append moves nothing until then.")
      .def_prop_ro("dtype", [](const Cache& cache) { return name_of(cache.element()); });
}

}  // namespace headproof::python
