// scaled_dot_product_attention and its gradients.

#include "headproof/attention.h"

#include "argument.h"
#include "floating.h"
#include "frame.h"
#include "options.h"
#include "parts.h"
#include "work.h"

namespace headproof::python {
namespace {

using namespace nb::literals;  // NOLINT: names of arguments

nb::object attend(nb::handle q, nb::handle k, nb::handle v, const Options& options, bool enable_gqa,
                  bool return_lse) {
  Input query("query", q), key("key", k), value("value", v);
  check_floating({&query, &key, &value});
  const Frame frame(query, key, value, enable_gqa);
  const Index seq_len_q = second_last(query), seq_len_k = second_last(key);
  ReadOptions read(options, frame, seq_len_q, seq_len_k);
  Output out(query, query.element(), frame.with_last({seq_len_q, last(value)}));
  std::optional<Output> lse;
  if (return_lse) lse.emplace(query, wide(query.element()), frame.with_last({seq_len_q}));

  Signals signals;
  with_scalar(query.element(), [&]<class Scalar>(Scalar) {
    run_outside(read.threads(), signals, [&]() -> Status {
      for (Input* input : {&query, &key, &value}) input->widen();
      read.widen();
      const Strided all_q = query, all_k = key, all_v = value;
      const Strided all_out(out.numbers(), out.shape());
      for (Index call = 0; call < frame.calls(); ++call) {
        AttentionOptions of_call = read.of_call(frame, call);
        of_call.progress = signals.progress();
        View<Scalar, 3> lse_view;
        if (lse) lse_view = frame.output<Scalar, 3>({lse->numbers(), lse->shape()}, call);
        auto done = attention_into<Scalar>(frame.input<Scalar>(all_q, call),
                                           frame.input<Scalar>(all_k, call),
                                           frame.input<Scalar>(all_v, call), of_call,
                                           frame.output<Scalar, 4>(all_out, call), lse_view);
        if (!done) return done;
      }
      out.finish();
      return std::monostate();
    });
  });
  if (!lse) return out.take();
  return nb::make_tuple(out.take(), lse->take());
}

nb::object differentiate(nb::handle q, nb::handle k, nb::handle v, nb::handle o, nb::handle l,
                         nb::handle d_o, const Options& options, bool enable_gqa) {
  Input query("query", q), key("key", k), value("value", v), out("out", o), lse("lse", l),
      d_out("d_out", d_o);
  check_floating({&query, &key, &value, &out, &d_out});
  const Frame frame(query, key, value, enable_gqa);
  const Index seq_len_q = second_last(query);
  ReadOptions read(options, frame, seq_len_q, second_last(key));
  for (const Input* input : {&query, &key, &value}) {
    if (!frame.spreads(*input)) continue;
    raise_value_error(std::string(input->name()) + " has shape " + input->shape().text() +
                      ", which would broadcast; its gradient needs all of its axes");
  }
  const auto check_shape = [](const Input& input, const Axes& wanted) {
    if (input.shape() == wanted) return;
    raise_value_error(std::string(input.name()) + " has shape " + input.shape().text() +
                      "; these inputs need " + wanted.text());
  };
  check_shape(out, frame.with_last({seq_len_q, last(value)}));
  check_shape(d_out, out.shape());
  check_shape(lse, frame.with_last({seq_len_q}));
  if (lse.element() != wide(query.element())) {
    raise_type_error("lse holds " + lse.element_name() + "; attention of " + query.element_name() +
                     " gives " + name_of(wide(query.element())));
  }
  Output d_query(query, query.element(), query.shape()), d_key(key, query.element(), key.shape()),
      d_value(value, query.element(), value.shape());

  Signals signals;
  with_scalar(query.element(), [&]<class Scalar>(Scalar) {
    run_outside(read.threads(), signals, [&]() -> Status {
      for (Input* input : {&query, &key, &value, &out, &d_out}) input->widen();
      read.widen();
      const auto written = [&](const Output& output, Index call) {
        return frame.output<Scalar, 4>({output.numbers(), output.shape()}, call);
      };
      const Strided all_lse = lse;
      for (Index call = 0; call < frame.calls(); ++call) {
        AttentionOptions of_call = read.of_call(frame, call);
        of_call.progress = signals.progress();
        auto done = attention_backward_into<Scalar>(
            frame.input<Scalar>(query, call), frame.input<Scalar>(key, call),
            frame.input<Scalar>(value, call), frame.input<Scalar>(out, call),
            frame.output<const Scalar, 3>(all_lse, call), frame.input<Scalar>(d_out, call), of_call,
            written(d_query, call), written(d_key, call), written(d_value, call));
        if (!done) return done;
      }
      for (Output* output : {&d_query, &d_key, &d_value}) output->finish();
      return std::monostate();
    });
  });
  return nb::make_tuple(d_query.take(), d_key.take(), d_value.take());
}

constexpr const char* attention_doc =
    R"(softmax(mask(softcap(scale * query @ key.T))) @ value, exactly, fast and in little memory.

Names, order, defaults and meaning of the first eight arguments are those of
torch.nn.functional.scaled_dot_product_attention (PyTorch 2.13).

Args:
    query: [..., num_heads, seq_len_q, head_dim], of 2 axes or more: a NumPy array, or anything
        that offers DLPack or the buffer protocol (PyTorch and JAX on the CPU). float16, bfloat16,
        float32 or float64, any strides; it is read in place.
    key: [..., num_heads, seq_len_k, head_dim], of the same dtype.
    value: [..., num_heads, seq_len_k, value_dim], of the same dtype. The axes before the last two
        broadcast.
    attn_mask: bool (True may attend) or floating-point (added to the logits, -inf forbids), of 2
        axes or more, broadcasts to [..., num_heads, seq_len_q, seq_len_k]. Beside is_causal both must
        allow a key, as in PyTorch (whose MATH back end refuses the pair).
    dropout_p: must be 0.
    is_causal: query i sees keys 0 .. i, as in PyTorch: the corner is at the top left.
    scale: multiplies query @ key.T; 1 / sqrt(head_dim) by default.
    enable_gqa: num_heads of key and value divide those of query, and query head h reads head
        h / (heads of query / heads of key).
    causal: 'none', 'top_left' or 'bottom_right' (the last query sees every key).
    query_offset: the position of query 0 among the keys, for causal='top_left' and windows.
    window: of the keys up to its own position a query sees the last `window`, its own included.
    window_right: a query sees at most so many keys beyond its own position.
    softcap: scores become softcap * tanh(scores / softcap), before the mask; 0 for none.
    first_key, key_length: an integer for each sequence of the batch: keys before first_key and
        from key_length on are padding and are never read.
    return_lse: also return the logarithms of the rows' sums.
    threads: how many to use; all by default. No bit of the result depends on it.

Returns:
    out [..., num_heads, seq_len_q, value_dim], an array of the library and dtype that came in; with
    return_lse the pair (out, lse), lse [..., num_heads, seq_len_q] in float32, or float64 for
    float64. float16 and bfloat16 are widened, computed in float32, and rounded once. A query that
    sees no key gets out 0 and lse -inf. Bits depend on the problem alone (docs/kernel.md).

Raises:
    TypeError, ValueError: one sentence that names the argument, what is wrong and what would do.
    KeyboardInterrupt: Ctrl-C stops a long call. The GIL is free meanwhile.)";

constexpr const char* backward_doc =
    R"(The gradients of sum(d_out * out) by query, key and value.

Args:
    query, key, value: as scaled_dot_product_attention took them; here nothing broadcasts.
    out, lse: what it returned for them, with the same options and return_lse=True.
    d_out: out's shape and dtype.
    The rest: as there.

Returns:
    (d_query, d_key, d_value), shapes and dtype of query, key and value. A query that sees no key,
    or whose d_out is 0, adds nothing to any gradient. 16-bit numbers are computed with in float32,
    from out as it was rounded.)";

}  // namespace

void add_attention(nb::module_& module) {
  module.def(
      "scaled_dot_product_attention",
      [](nb::handle query, nb::handle key, nb::handle value, nb::handle attn_mask,
         nb::handle dropout_p, nb::handle is_causal, nb::handle scale, nb::handle enable_gqa,
         nb::handle causal, nb::handle query_offset, nb::handle window, nb::handle window_right,
         nb::handle softcap, nb::handle first_key, nb::handle key_length, nb::handle return_lse,
         nb::handle threads) {
        if (const double p = real("dropout_p", dropout_p); p != 0) {
          raise_value_error("dropout_p is " + std::to_string(p) +
                            "; headproof has no dropout, it must be 0");
        }
        return attend(query, key, value,
                      {attn_mask, is_causal, scale, causal, query_offset, window, window_right,
                       softcap, first_key, key_length, threads},
                      flag("enable_gqa", enable_gqa), flag("return_lse", return_lse));
      },
      nb::sig("def scaled_dot_product_attention(query, key, value, attn_mask=None, "
              "dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None, "
              "enable_gqa: bool = False, causal: str | None = None, "
              "query_offset: int | None = None, window: int | None = None, "
              "window_right: int | None = None, softcap: float = 0.0, first_key=None, "
              "key_length=None, return_lse: bool = False, threads: int | None = None)"),
      "query"_a.none(), "key"_a.none(), "value"_a.none(), "attn_mask"_a = nb::none(),
      "dropout_p"_a.none() = 0.0, "is_causal"_a.none() = false, nb::kw_only(),
      "scale"_a = nb::none(), "enable_gqa"_a.none() = false, "causal"_a = nb::none(),
      "query_offset"_a = nb::none(), "window"_a = nb::none(), "window_right"_a = nb::none(),
      "softcap"_a.none() = 0.0, "first_key"_a = nb::none(), "key_length"_a = nb::none(),
      "return_lse"_a.none() = false, "threads"_a = nb::none(), attention_doc);
  module.def(
      "attention_backward",
      [](nb::handle query, nb::handle key, nb::handle value, nb::handle out, nb::handle lse,
         nb::handle d_out, nb::handle attn_mask, nb::handle is_causal, nb::handle scale,
         nb::handle enable_gqa, nb::handle causal, nb::handle query_offset, nb::handle window,
         nb::handle window_right, nb::handle softcap, nb::handle first_key, nb::handle key_length,
         nb::handle threads) {
        return differentiate(query, key, value, out, lse, d_out,
                             {attn_mask, is_causal, scale, causal, query_offset, window,
                              window_right, softcap, first_key, key_length, threads},
                             flag("enable_gqa", enable_gqa));
      },
      nb::sig("def attention_backward(query, key, value, out, lse, d_out, attn_mask=None, "
              "is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False, "
              "causal: str | None = None, query_offset: int | None = None, "
              "window: int | None = None, window_right: int | None = None, softcap: float = 0.0, "
              "first_key=None, key_length=None, threads: int | None = None)"),
      "query"_a.none(), "key"_a.none(), "value"_a.none(), "out"_a.none(), "lse"_a.none(),
      "d_out"_a.none(), "attn_mask"_a = nb::none(), "is_causal"_a.none() = false, nb::kw_only(),
      "scale"_a = nb::none(), "enable_gqa"_a.none() = false, "causal"_a = nb::none(),
      "query_offset"_a = nb::none(), "window"_a = nb::none(), "window_right"_a = nb::none(),
      "softcap"_a.none() = 0.0, "first_key"_a = nb::none(), "key_length"_a = nb::none(),
      "threads"_a = nb::none(), backward_doc);
}

}  // namespace headproof::python
