#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "attention/check.h"
#include "headproof/kv_cache.h"
#include "headproof/subject.h"

struct headproof_cache {
  std::variant<headproof::KvCache<float>, headproof::KvCache<double>> of;
  headproof::Index num_kv_heads;
};

namespace headproof {
namespace {

using Shape = std::array<Index, 4>;

template <class T, std::size_t Rank>
View<T, Rank> view_of(T* data, const std::array<Index, Rank>& shape, const int64_t (&strides)[4]) {
  View<T, Rank> view(data, shape, {});
  std::copy_n(strides, Rank, view.strides.begin());
  return view;
}

template <class Scalar>
View<const Scalar, 4> view_of(const headproof_input& input, const Shape& shape) {
  return view_of(static_cast<const Scalar*>(input.data), shape, input.strides);
}

template <class Scalar>
View<Scalar, 4> view_of(const headproof_output& output, const Shape& shape) {
  return view_of(static_cast<Scalar*>(output.data), shape, output.strides);
}

Shape q_shape(const headproof_problem& p) {
  return {p.batch, p.num_heads, p.seq_len_q, p.head_dim};
}
Shape k_shape(const headproof_problem& p) {
  return {p.batch, p.num_kv_heads, p.seq_len_k, p.head_dim};
}
Shape v_shape(const headproof_problem& p) {
  return {p.batch, p.num_kv_heads, p.seq_len_k, p.value_dim};
}
Shape out_shape(const headproof_problem& p) {
  return {p.batch, p.num_heads, p.seq_len_q, p.value_dim};
}

template <class Scalar>
View<Scalar, 3> lse_of(const headproof_problem& p) {
  return view_of<Scalar, 3>(static_cast<Scalar*>(p.lse.data), {p.batch, p.num_heads, p.seq_len_q},
                            p.lse.strides);
}

/// A pointer to anything, as C gives it, may lie where no such number can.
std::optional<Error> alignment_error(std::initializer_list<AnyView> views) {
  for (const AnyView& view : views) {
    if (std::bit_cast<std::intptr_t>(view.data) % view.element_size != 0) {
      return Error{std::string(view.name) + ".data is not a multiple of " +
                   std::to_string(view.element_size) + ", the bytes of one element"};
    }
  }
  return std::nullopt;
}

Error unknown(const char* what, int32_t value, const char* known) {
  return Error{std::string(what) + " is " + std::to_string(value) + "; it must be " + known};
}

Status set_causal(const headproof_problem& p, AttentionOptions& options) {
  switch (p.causal) {
    case HEADPROOF_CAUSAL_NONE:
      options.causal = Causal::none;
      break;
    case HEADPROOF_CAUSAL_TOP_LEFT:
      options.causal = Causal::top_left;
      break;
    case HEADPROOF_CAUSAL_BOTTOM_RIGHT:
      options.causal = Causal::bottom_right;
      break;
    default:
      return unknown("causal", p.causal, "0 (none), 1 (top left) or 2 (bottom right)");
  }
  return std::monostate();
}

Status set_mask(const headproof_mask& mask, AttentionOptions& options) {
  const auto set = [&]<class T>(const T* data) -> Status {
    const View<const T, 4> view = view_of(data, std::to_array(mask.shape), mask.strides);
    if (auto error = alignment_error({{"mask", view}})) return *error;
    options.mask = view;
    return std::monostate();
  };
  switch (mask.kind) {
    case HEADPROOF_MASK_NONE:
      return std::monostate();
    case HEADPROOF_MASK_BOOL:
      return set(static_cast<const bool*>(mask.data));
    case HEADPROOF_MASK_FLOAT32:
      return set(static_cast<const float*>(mask.data));
    case HEADPROOF_MASK_FLOAT64:
      return set(static_cast<const double*>(mask.data));
    default:
      return unknown("mask.kind", mask.kind, "0 (none), 1 (bool), 2 (float32) or 3 (float64)");
  }
}

/// `stopped` is set when the caller's `progress` stops the work.
Result<AttentionOptions> options_of(const headproof_problem& p, bool& stopped) {
  AttentionOptions options;
  if (auto done = set_causal(p, options); !done) return done.error();
  if (auto done = set_mask(p.mask, options); !done) return done.error();
  if (p.has_scale != 0) options.scale = p.scale;
  if (p.has_query_offset != 0) options.query_offset = p.query_offset;
  if (p.window != 0) options.window = p.window;
  if (p.has_window_right != 0) options.window_right = p.window_right;
  options.softcap = p.softcap;
  if (p.first_key != nullptr) options.first_key = {p.first_key, {p.batch}, {1}};
  if (p.key_length != nullptr) options.key_length = {p.key_length, {p.batch}, {1}};
  if (p.progress != nullptr) {
    options.progress = [&p, &stopped](double share) {
      stopped = p.progress(share, p.progress_user) == 0;
      return !stopped;
    };
  }
  return options;
}

void write(std::string_view sentence, char* error, std::size_t error_size) {
  if (error == nullptr || error_size == 0) return;
  const std::size_t length = std::min(sentence.size(), error_size - 1);
  std::memcpy(error, sentence.data(), length);
  error[length] = '\0';
}

/// Calls `work(Scalar(), options)` for the problem's dtype and options.
template <class Work>
Status dispatched(const headproof_problem* problem, bool& stopped, const Work& work) {
  if (problem == nullptr) return Error{"problem is null"};
  if (problem->struct_size != sizeof(headproof_problem)) {
    return Error{"struct_size is " + std::to_string(problem->struct_size) +
                 "; this library knows the problem of " +
                 std::to_string(sizeof(headproof_problem)) + " bytes"};
  }
  const auto options = options_of(*problem, stopped);
  if (!options) return options.error();
  switch (problem->dtype) {
    case HEADPROOF_FLOAT32:
      return work(float(), *options);
    case HEADPROOF_FLOAT64:
      return work(double(), *options);
    default:
      return unknown("dtype", problem->dtype, "1 (float32) or 2 (float64)");
  }
}

/// The border to C, which no exception crosses: the status of `dispatched`, and its sentence.
template <class Work>
int answer(const headproof_problem* problem, char* error, std::size_t error_size,
           const Work& work) {
  bool stopped = false;
  try {
    const Status done = dispatched(problem, stopped, work);
    if (done) return HEADPROOF_DONE;
    write(done.error().message, error, error_size);
    return stopped ? HEADPROOF_FAILED : HEADPROOF_USED_WRONGLY;
  } catch (const std::bad_alloc&) {
    write("there is not enough memory", error, error_size);
  } catch (const std::exception& exception) {
    write(exception.what(), error, error_size);
  } catch (...) {
    write("an exception of an unknown kind stopped the work", error, error_size);
  }
  return HEADPROOF_FAILED;
}

/// What is wrong with the sizes alone.
std::optional<Error> sizes_error(const headproof_problem& p) {
  return attention_error(q_shape(p), k_shape(p), v_shape(p), {.scale = 1});
}

/// Calls `work(KvCache<Scalar>&)`, unless the cache does not fit the problem.
template <class Scalar, class Cache, class Work>
Status with_cache(Cache* cache, const headproof_problem& p, const Work& work) {
  if (cache == nullptr) return Error{"cache is null"};
  auto* typed = std::get_if<KvCache<Scalar>>(&cache->of);
  if (typed == nullptr) {
    return Error{"dtype is " + std::to_string(p.dtype) + ", and the cache was made with another"};
  }
  if (p.num_kv_heads != cache->num_kv_heads) {
    return Error{"num_kv_heads is " + std::to_string(p.num_kv_heads) +
                 ", and the cache was made with " + std::to_string(cache->num_kv_heads)};
  }
  return work(*typed);
}

}  // namespace
}  // namespace headproof

using namespace headproof;  // NOLINT: what follows are the functions of C

int headproof_attention(const headproof_problem* problem, char* error, size_t error_size) {
  const auto solve = [&]<class Scalar>(Scalar, const AttentionOptions& options) -> Status {
    const headproof_problem& p = *problem;
    const auto q = view_of<Scalar>(p.q, q_shape(p)), k = view_of<Scalar>(p.k, k_shape(p)),
               v = view_of<Scalar>(p.v, v_shape(p));
    const auto out = view_of<Scalar>(p.out, out_shape(p));
    const auto lse = lse_of<Scalar>(p);
    if (p.A.data != nullptr) return Error{"A.data is not null; this function does not give A"};
    if (auto wrong = alignment_error({{"q", q}, {"k", k}, {"v", v}, {"out", out}, {"lse", lse}})) {
      return *wrong;
    }
    return attention_into<Scalar>(q, k, v, options, out, lse);
  };
  return answer(problem, error, error_size, solve);
}

int headproof_attention_backward(const headproof_problem* problem,
                                 const headproof_gradients* gradients, char* error,
                                 size_t error_size) {
  const auto solve = [&]<class Scalar>(Scalar, const AttentionOptions& options) -> Status {
    if (gradients == nullptr) return Error{"gradients is null"};
    const headproof_problem& p = *problem;
    const auto q = view_of<Scalar>(p.q, q_shape(p)), k = view_of<Scalar>(p.k, k_shape(p)),
               v = view_of<Scalar>(p.v, v_shape(p)),
               d_out = view_of<Scalar>(gradients->d_out, out_shape(p));
    const auto out = view_of<Scalar>(p.out, out_shape(p)),
               d_q = view_of<Scalar>(gradients->d_q, q_shape(p)),
               d_k = view_of<Scalar>(gradients->d_k, k_shape(p)),
               d_v = view_of<Scalar>(gradients->d_v, v_shape(p));
    const auto lse = lse_of<Scalar>(p);
    if (auto wrong = alignment_error({{"q", q},
                                      {"k", k},
                                      {"v", v},
                                      {"out", out},
                                      {"lse", lse},
                                      {"d_out", d_out},
                                      {"d_q", d_q},
                                      {"d_k", d_k},
                                      {"d_v", d_v}})) {
      return *wrong;
    }
    return attention_backward_into<Scalar>(q, k, v, out, lse, d_out, options, d_q, d_k, d_v);
  };
  return answer(problem, error, error_size, solve);
}

int headproof_cache_create(const headproof_problem* problem, headproof_cache** cache, char* error,
                           size_t error_size) {
  const auto create = [&]<class Scalar>(Scalar, const AttentionOptions&) -> Status {
    if (cache == nullptr) return Error{"cache is null"};
    const headproof_problem& p = *problem;
    if (auto wrong = sizes_error(p)) return *wrong;
    std::vector<Index> first_key;
    if (p.first_key != nullptr) first_key.assign(p.first_key, p.first_key + p.batch);
    for (const Index first : first_key) {
      if (first < 0)
        return Error{"first_key holds " + std::to_string(first) + "; it counts from 0"};
    }
    *cache = new headproof_cache{
        KvCache<Scalar>(p.batch, p.num_kv_heads, p.head_dim, p.value_dim, std::move(first_key)),
        p.num_kv_heads};
    return std::monostate();
  };
  return answer(problem, error, error_size, create);
}

int headproof_cache_append(headproof_cache* cache, const headproof_problem* problem, char* error,
                           size_t error_size) {
  const auto append = [&]<class Scalar>(Scalar, const AttentionOptions&) -> Status {
    const headproof_problem& p = *problem;
    if (auto wrong = sizes_error(p)) return *wrong;
    const auto k = view_of<Scalar>(p.k, k_shape(p)), v = view_of<Scalar>(p.v, v_shape(p));
    if (auto wrong = alignment_error({{"k", k}, {"v", v}})) return *wrong;
    return with_cache<Scalar>(cache, p, [&](KvCache<Scalar>& typed) { return typed.append(k, v); });
  };
  return answer(problem, error, error_size, append);
}

int headproof_cache_attend(const headproof_cache* cache, const headproof_problem* problem,
                           char* error, size_t error_size) {
  const auto attend = [&]<class Scalar>(Scalar, const AttentionOptions& options) -> Status {
    const headproof_problem& p = *problem;
    const auto q = view_of<Scalar>(p.q, q_shape(p));
    const auto out = view_of<Scalar>(p.out, out_shape(p));
    const auto lse = lse_of<Scalar>(p);
    if (auto wrong = alignment_error({{"q", q}, {"out", out}, {"lse", lse}})) return *wrong;
    AttentionOptions of_cache = options;
    of_cache.first_key = {};
    return with_cache<Scalar>(cache, p, [&](const KvCache<Scalar>& typed) {
      return typed.attend_into(q, of_cache, out, lse);
    });
  };
  return answer(problem, error, error_size, attend);
}

int64_t headproof_cache_size(const headproof_cache* cache) {
  return std::visit([](const auto& typed) { return typed.size(); }, cache->of);
}

void headproof_cache_truncate(headproof_cache* cache, int64_t size) {
  std::visit([&](auto& typed) { typed.truncate(size); }, cache->of);
}

void headproof_cache_free(headproof_cache* cache) { delete cache; }
