#include "speed/work.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

#include "headproof/attention.h"
#include "headproof/head.h"
#include "headproof/kv_cache.h"
#include "headproof/random.h"

namespace headproof {
namespace {

/// Reads a name from left to right.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool literal(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  /// 1 .. 2^31 - 1, so that products of two sizes fit an Index.
  bool size(Index& value) {
    std::int32_t number = 0;
    const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    if (error != std::errc() || number < 1) return false;
    rest_.remove_prefix(static_cast<std::size_t>(stop - rest_.data()));
    value = number;
    return true;
  }
  /// Two sizes with a slash between them, or one that stands for both.
  bool sizes(Index& first, Index& second) {
    if (!size(first)) return false;
    second = first;
    return !literal("/") || size(second);
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

struct Form {
  WorkKind kind;
  const char* word;
  const char* sizes;
  const char* example;
};
constexpr Form forms[] = {
    {WorkKind::prefill, "prefill", "BxHxTxd", "1x12x4096x64"},
    {WorkKind::forward_backward, "forward+backward", "BxHxTxd", "1x12x4096x64"},
    {WorkKind::call, "call", "BxHxTxd", "4x1x8x16"},
    {WorkKind::head, "head", "BxTxmodel->head", "4x8x32->16"},
    {WorkKind::decode, "decode", "HxdxCACHED", "32x128x4096"},
};

bool read_sizes(Reader& reader, Work& work) {
  switch (work.kind) {
    case WorkKind::head:
      return reader.size(work.batch) && reader.literal("x") && reader.size(work.seq_len) &&
             reader.literal("x") && reader.size(work.model_dim) && reader.literal("->") &&
             reader.size(work.head_dim) && (work.value_dim = work.head_dim, true);
    case WorkKind::decode:
      return reader.sizes(work.num_heads, work.num_kv_heads) && reader.literal("x") &&
             reader.sizes(work.head_dim, work.value_dim) && reader.literal("x") &&
             reader.size(work.seq_len);
    default:
      return reader.size(work.batch) && reader.literal("x") &&
             reader.sizes(work.num_heads, work.num_kv_heads) && reader.literal("x") &&
             reader.size(work.seq_len) && reader.literal("x") &&
             reader.sizes(work.head_dim, work.value_dim);
  }
}

double as_double(Index size) { return static_cast<double>(size); }

/// Normal numbers, cheaply: a cycle of them, of a prime length so that no two rows are the same.
/// `start` lets tensors differ.
template <std::size_t Rank>
Tensor<float, Rank> random_tensor(std::array<Index, Rank> shape, std::size_t start) {
  constexpr Index length = 65537;
  static const Tensor<float, 1> cycle = Generator(0).randn(length);
  Tensor<float, Rank> tensor(shape);
  std::size_t at = start;
  for (float& number : tensor) number = cycle.data()[at++ % std::size_t{length}];
  return tensor;
}

AttentionOptions causal_options() {
  AttentionOptions options;
  options.causal = Causal::top_left;
  return options;
}

/// What attention reads and writes, forward and backward.
struct Attention {
  explicit Attention(const Work& w)
      : q(random_tensor<4>({w.batch, w.num_heads, w.seq_len, w.head_dim}, 1)),
        k(random_tensor<4>({w.batch, w.num_kv_heads, w.seq_len, w.head_dim}, 2)),
        v(random_tensor<4>({w.batch, w.num_kv_heads, w.seq_len, w.value_dim}, 3)),
        out({w.batch, w.num_heads, w.seq_len, w.value_dim}) {}

  Status forward(View<float, 3> lse) {
    return attention_into<float>(q, k, v, options, out.view(), lse);
  }

  Tensor<float, 4> q, k, v, out;
  AttentionOptions options = causal_options();
};

struct Gradients {
  explicit Gradients(const Attention& of)
      : lse({of.out.shape()[0], of.out.shape()[1], of.out.shape()[2]}),
        d_out(random_tensor<4>(of.out.shape(), 4)),
        d_q(of.q.shape()),
        d_k(of.k.shape()),
        d_v(of.v.shape()) {}

  Tensor<float, 3> lse;
  Tensor<float, 4> d_out, d_q, d_k, d_v;
};

std::function<Status()> attention_work(const Work& work) {
  const auto attention = std::make_shared<Attention>(work);
  return [attention] { return attention->forward({}); };
}

std::function<Status()> gradients_work(const Work& work) {
  const auto attention = std::make_shared<Attention>(work);
  const auto gradients = std::make_shared<Gradients>(*attention);
  return [attention, gradients]() -> Status {
    Attention& a = *attention;
    Gradients& g = *gradients;
    if (Status done = a.forward(g.lse.view()); !done) return done;
    return attention_backward_into<float>(a.q, a.k, a.v, a.out, g.lse, g.d_out, a.options,
                                          g.d_q.view(), g.d_k.view(), g.d_v.view());
  };
}

std::function<Status()> head_work(const Work& work) {
  Generator generator(0);
  const auto head = std::make_shared<Head>(work.model_dim, work.head_dim, work.seq_len, generator);
  const auto x = std::make_shared<Tensor<float, 3>>(
      random_tensor<3>({work.batch, work.seq_len, work.model_dim}, 1));
  return [head, x]() -> Status {
    if (const auto out = head->out(*x); !out) return out.error();
    return std::monostate();
  };
}

Result<std::function<Status()>> decode_work(const Work& work) {
  const auto cache =
      std::make_shared<KvCache<float>>(1, work.num_kv_heads, work.head_dim, work.value_dim);
  cache->reserve(work.seq_len);
  const auto k = random_tensor<4>({1, work.num_kv_heads, work.seq_len, work.head_dim}, 2);
  const auto v = random_tensor<4>({1, work.num_kv_heads, work.seq_len, work.value_dim}, 3);
  if (const Status done = cache->append(k, v); !done) return done.error();
  const auto q = std::make_shared<Tensor<float, 4>>(
      random_tensor<4>({1, work.num_heads, 1, work.head_dim}, 1));
  const auto out = std::make_shared<Tensor<float, 4>>(
      std::array<Index, 4>{1, work.num_heads, 1, work.value_dim});
  return std::function<Status()>([cache, q, out] {
    static const AttentionOptions everything;
    return cache->attend_into(*q, everything, out->view(), {});
  });
}

double physical_memory() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
}

}  // namespace

const char* const work_forms =
    "prefill BxHxTxd           causal attention: batch, heads, positions, channels\n"
    "forward+backward BxHxTxd  the same and its gradients\n"
    "call BxHxTxd              the same as prefill; for sizes at which the call itself counts\n"
    "head BxTxmodel->head      a head with its three projections\n"
    "decode HxdxCACHED         one query of each head against cached keys\n"
    "H may be 7/1, query heads over key/value heads; d may be 64/128, channels of keys and values.";

double Work::flops() const {
  const double b = as_double(batch), h = as_double(num_heads), t = as_double(seq_len);
  const double d = as_double(head_dim), c = as_double(value_dim);
  const double pairs = kind == WorkKind::decode ? h * t : b * h * t * (t + 1) / 2;
  if (kind == WorkKind::forward_backward) return pairs * 2 * (4 * d + 3 * c);
  const double projections = b * t * as_double(model_dim) * 2 * 3 * d;  // 0 without a model
  return projections + pairs * 2 * (d + c);
}

double Work::bytes() const {
  const double t = as_double(seq_len), kv_heads = as_double(num_kv_heads);
  const double d = as_double(head_dim), c = as_double(value_dim), m = as_double(model_dim);
  const double rows = as_double(batch) * t;
  const double key_values = kv_heads * (d + c);
  switch (kind) {
    case WorkKind::head:
      return sizeof(float) * (rows * m + 3 * d * m + rows * d);
    case WorkKind::decode:
      return sizeof(float) * t * key_values;
    default: {
      const double forward = rows * (as_double(num_heads) * (d + c) + key_values);
      const double lse = rows * as_double(num_heads);
      return sizeof(float) * (kind == WorkKind::forward_backward ? 2 * forward + lse : forward);
    }
  }
}

Result<Work> parse_work(std::string_view name) {
  const std::string quoted = "\"" + std::string(name) + "\"";
  const std::string_view word = name.substr(0, name.find(' '));
  const Form* const form =
      std::find_if(std::begin(forms), std::end(forms),
                   [&](const Form& candidate) { return candidate.word == word; });
  if (form == std::end(forms)) {
    std::string known;
    for (const Form& each : forms) {
      known += (known.empty() ? "" : ", ") + std::string(each.word) + " " + each.sizes;
    }
    return Error{quoted + " is no work; there are " + known};
  }
  Work work{.kind = form->kind};
  Reader reader(name);
  if (!reader.literal(word) || !reader.literal(" ") || !read_sizes(reader, work) ||
      !reader.at_end()) {
    return Error{quoted + " is no work: \"" + form->word + "\" is followed by " + form->sizes +
                 ", sizes of 1 or more, as in \"" + form->word + " " + form->example + "\""};
  }
  if (work.num_heads % work.num_kv_heads != 0) {
    return Error{quoted + " is no work: " + std::to_string(work.num_kv_heads) +
                 " key/value heads do not divide " + std::to_string(work.num_heads) +
                 " query heads"};
  }
  return work;
}

Result<std::function<void()>> prepare(const Work& work) {
  if (work.bytes() > physical_memory() / 2) {
    return Error{"its arrays take more than half the memory of this machine"};
  }
  std::function<Status()> run;
  switch (work.kind) {
    case WorkKind::prefill:
    case WorkKind::call:
      run = attention_work(work);
      break;
    case WorkKind::forward_backward:
      run = gradients_work(work);
      break;
    case WorkKind::head:
      run = head_work(work);
      break;
    case WorkKind::decode: {
      auto decode = decode_work(work);
      if (!decode) return decode.error();
      run = std::move(*decode);
      break;
    }
  }
  if (const Status done = run(); !done) return done.error();
  return std::function<void()>([run] { (void)run().value(); });
}

}  // namespace headproof
