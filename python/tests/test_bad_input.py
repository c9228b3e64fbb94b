"""What is wrong is said in one sentence that names the argument; nothing crashes."""

import numpy as np
import pytest

import headproof
from headproof import scaled_dot_product_attention as attention

q = np.ones((2, 3, 5, 4), np.float32)


def shaped(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


def repeated(*shape):
    """One number, as often as the shape says."""
    return np.broadcast_to(np.float32(1), shape)


class OnGpu:
    """As a tensor of a GPU shows itself."""

    device = "cuda:0"

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **options):
        raise AssertionError("memory of a GPU was asked for")


class Liar:
    """Offers DLPack and gives something else."""

    def __dlpack__(self, **options):
        return "no capsule"

    def __dlpack_device__(self):
        return (1, 0)


unaligned = np.frombuffer(bytearray(4 * 20 + 1), np.uint8)[1:].view(np.float32).reshape(5, 4)
fields = np.zeros((5, 4), np.dtype([("a", np.float32), ("b", np.int16)], align=False))["a"]

ATTENTION = [
    ((q, q), {}, TypeError, "value"),
    ((None, q, q), {}, TypeError, "query is builtins.NoneType; it must be an array"),
    (([[1.0]], q, q), {}, TypeError, "query is builtins.list; it must be an array"),
    ((q, "key", q), {}, TypeError, "key is builtins.str"),
    ((q.astype(np.int64), q, q), {}, TypeError,
     "query holds int64; attention takes float16, bfloat16, float32 or float64"),
    ((q, q.astype(np.complex64), q), {}, TypeError, "key holds complex64"),
    ((q, q, q > 0), {}, TypeError, "value holds bool"),
    ((q.astype(object), q, q), {}, TypeError, "query"),
    ((q, q.astype(np.float64), q), {}, TypeError,
     "query holds float32, and key float64; they must hold the same dtype"),
    ((q.astype(">f4"), q, q), {}, ValueError, "query holds float32 with the bytes in the order"),
    ((unaligned, unaligned, unaligned), {}, ValueError, "query lies unaligned in memory"),
    ((fields, fields, fields), {}, ValueError, "query lies unaligned in memory"),
    ((shaped(4), q, q), {}, ValueError, "query has shape [4]; it must have at least the two axes"),
    ((q, q, np.float32(1)), {}, ValueError, "value has shape []"),
    ((repeated(2**40, 2**20, 1), q[0, 0], q[0, 0]), {}, ValueError,
     "query has shape [1099511627776, 1048576, 1]; it may have at most 2^48 elements"),
    ((repeated(2**40, 1, 1, 1, 4), repeated(1, 2**24, 1, 5, 4), q[0, 0]), {}, ValueError,
     "the result would have shape [1099511627776, 16777216, 1, 1, 4]; it may have at most 2^48"),
    ((shaped(*[1] * 17), q, q), {}, ValueError, "query has 17 axes; the most are 16"),
    ((q, shaped(2, 3, 5, 8), q), {}, ValueError,
     "query has shape [2, 3, 5, 4] and key has shape [2, 3, 5, 8]; head_dim, the last axis, must"),
    ((q, q, shaped(2, 3, 6, 4)), {}, ValueError, "the number of keys"),
    ((q, shaped(3, 3, 5, 4), shaped(3, 3, 5, 4)), {}, ValueError,
     "query has shape [2, 3, 5, 4] and key has shape [3, 3, 5, 4]; the axes before the last two"),
    ((shaped(2, 6, 5, 4), q, q), {}, ValueError, "enable_gqa=True lets heads of query share"),
    ((shaped(2, 4, 5, 4), q, q), {"enable_gqa": True}, ValueError,
     "the heads of key and value, 3, must divide those of query, 4"),
    ((q, q, shaped(2, 1, 5, 4)), {"enable_gqa": True}, ValueError, "the number of heads"),
    ((shaped(2, 0), shaped(3, 0), shaped(3, 4)), {}, ValueError, "head_dim is 0"),
    ((q, q, q, shaped(4, 5, dtype=bool)), {}, ValueError,
     "attn_mask has shape [4, 5], which does not broadcast to [2, 3, 5, 5]"),
    ((q, q, q, shaped(1, 1, 1, 5, 5)), {}, ValueError, "attn_mask has shape [1, 1, 1, 5, 5]"),
    ((q, q, q, shaped(5, 5, dtype=np.int64)), {}, TypeError, "attn_mask holds int64"),
    ((q, q, q, True), {}, TypeError, "attn_mask is builtins.bool; it must be an array"),
    ((q, q, q, None, 0.1), {}, ValueError, "dropout_p is 0.1"),
    ((q, q, q), {"causal": "left"}, ValueError, "causal is 'left'; it must be"),
    ((q, q, q), {"causal": "none", "is_causal": True}, ValueError, "is_causal=True means causal="),
    ((q, q, q), {"scale": float("nan")}, ValueError, "scale is nan"),
    ((q, q, q), {"softcap": -1}, ValueError, "softcap is -1"),
    ((q, q, q), {"window": 0}, ValueError, "window is 0"),
    ((q, q, q), {"window_right": -1}, ValueError, "window_right is -1"),
    ((q, q, q), {"query_offset": 2**61}, ValueError, "query_offset is 2305843009213693952"),
    ((q, q, q), {"query_offset": 1, "causal": "bottom_right"}, ValueError, "query_offset is 1"),
    ((q, q, q), {"threads": 0}, ValueError, "threads is 0"),
    ((q, q, q), {"key_length": [5]}, ValueError, "key_length has shape [1]; it must hold an integer "
     "for each of the 2 sequences"),
    ((q, q, q), {"key_length": [5, 6]}, ValueError, "key_length[1] is 6"),
    ((q, q, q), {"key_length": [5.0, 5.0]}, TypeError, "key_length holds float64"),
    ((q, q, q), {"first_key": [4, 4], "key_length": [3, 5]}, ValueError, "first_key[0] is 4"),
    ((q, q, q, shaped(5, dtype=bool)), {}, ValueError,
     "attn_mask has shape [5]; it must have at least the two axes"),
    ((q, q, q, None, "0"), {}, TypeError, "dropout_p is builtins.str; it must be a number"),
    ((q, q, q), {"scale": "1"}, TypeError, "scale is builtins.str; it must be a number"),
    ((q, q, q), {"softcap": None}, TypeError, "softcap is builtins.NoneType; it must be a number"),
    ((q, q, q), {"is_causal": 1}, TypeError, "is_causal is builtins.int; it must be True or False"),
    ((q, q, q), {"is_causal": None}, TypeError, "is_causal is builtins.NoneType; it must be True"),
    ((q, q, q), {"enable_gqa": "yes"}, TypeError, "enable_gqa is builtins.str; it must be True"),
    ((q, q, q), {"return_lse": 1}, TypeError, "return_lse is builtins.int; it must be True"),
    ((q, q, q), {"causal": True}, TypeError, "causal is builtins.bool; it must be a text"),
    ((q, q, q), {"query_offset": 1.0}, TypeError, "query_offset is builtins.float; it must be a whole"),
    ((q, q, q), {"window": "3"}, TypeError, "window is builtins.str; it must be a whole number"),
    ((q, q, q), {"window_right": 2**64}, TypeError, "window_right is builtins.int; it must be a whole "
     "number of at most 64 bits"),
    ((q, q, q), {"threads": 1.5}, TypeError, "threads is builtins.float; it must be a whole number"),
    ((q, q, q), {"unknown": 1}, TypeError, "unknown"),
    ((OnGpu(), q, q), {}, ValueError, "query lies on the device cuda:0; headproof computes on the CPU"),
    ((q, q, Liar()), {}, TypeError, "value, a test_bad_input.Liar, does not export its memory"),
]


@pytest.mark.parametrize("arguments, options, error, sentence", ATTENTION,
                         ids=[f"{n}-{case[3][:40]}" for n, case in enumerate(ATTENTION)])
def test_attention_names_what_is_wrong(arguments, options, error, sentence):
    with pytest.raises(error) as raised:
        attention(*arguments, **options)
    assert sentence in str(raised.value)


def test_gradients_name_what_is_wrong():
    out, lse = attention(q, q, q, return_lse=True)
    right = (q, q, q, out, lse, out)

    def wrong(error, sentence, **replaced):
        names = ("query", "key", "value", "out", "lse", "d_out")
        arguments = [replaced.get(name, x) for name, x in zip(names, right)]
        with pytest.raises(error) as raised:
            headproof.attention_backward(*arguments)
        assert sentence in str(raised.value)

    headproof.attention_backward(*right)
    wrong(ValueError, "out has shape [5, 4]; these inputs need [2, 3, 5, 4]", out=out[0, 0])
    wrong(ValueError, "d_out has shape [2, 3, 4, 4]", d_out=out[:, :, :4])
    wrong(ValueError, "lse has shape [3, 5]", lse=lse[0])
    wrong(TypeError, "lse holds float64; attention of float32 gives float32",
          lse=lse.astype(np.float64))
    wrong(TypeError, "query holds float32, and d_out float16", d_out=out.astype(np.float16))
    wrong(ValueError, "key has shape [1, 3, 5, 4], which would broadcast", key=q[:1], value=q[:1])


def test_the_cache_names_what_is_wrong():
    def wrong(error, sentence, call):
        with pytest.raises(error) as raised:
            call()
        assert sentence in str(raised.value)

    Cache = headproof.KvCache
    wrong(ValueError, "batch is -1", lambda: Cache(-1, 1, 1, 1))
    wrong(ValueError, "dtype is 'float16'", lambda: Cache(1, 1, 1, 1, dtype="float16"))
    wrong(ValueError, "first_key has shape [2]", lambda: Cache(1, 1, 1, 1, first_key=[0, 0]))
    wrong(ValueError, "first_key holds -1", lambda: Cache(1, 1, 1, 1, first_key=[-1]))
    cache = Cache(2, 3, 4, 4)
    wrong(ValueError, "key has shape [5, 4]; a cache takes", lambda: cache.append(q[0, 0], q))
    wrong(ValueError, "key has shape [1, 3, 5, 4]; this cache needs [2, 3, 5, 4]",
          lambda: cache.append(q[:1], q[:1]))
    wrong(ValueError, "value has shape [2, 3, 2, 4]; this cache needs [2, 3, 5, 4]",
          lambda: cache.append(q, q[:, :, :2]))
    wrong(TypeError, "num_kv_heads is builtins.str", lambda: Cache(1, "1", 1, 1))
    wrong(TypeError, "dtype is builtins.type", lambda: Cache(1, 1, 1, 1, dtype=float))
    wrong(TypeError, "first_key is builtins.int; it must be an array",
          lambda: Cache(1, 1, 1, 1, first_key=0))
    wrong(TypeError, "size is builtins.float", lambda: cache.truncate(1.0))
    wrong(TypeError, "causal is builtins.bool", lambda: cache.attend(q, causal=True))
    wrong(TypeError, "key holds float64, and this cache float32",
          lambda: cache.append(q.astype(np.float64), q.astype(np.float64)))
    assert len(cache) == 0
    cache.append(q, q)
    wrong(ValueError, "query has shape [1, 3, 5, 4]; this cache needs", lambda: cache.attend(q[:1]))
    wrong(ValueError, "query has 2 heads", lambda: cache.attend(q[:, :2]))
    wrong(ValueError, "size is -1", lambda: cache.truncate(-1))
    wrong(ValueError, "size is", lambda: cache.reserve(2**60))
    assert len(cache) == 5


def test_generator_head_and_words_name_what_is_wrong():
    def wrong(error, sentence, call):
        with pytest.raises(error) as raised:
            call()
        assert sentence in str(raised.value)

    generator = headproof.Generator()
    wrong(ValueError, "seed is 1.5", lambda: generator.manual_seed(1.5))
    wrong(ValueError, "seed is 18446744073709551616", lambda: headproof.Generator(2**64))
    wrong(TypeError, "size holds 'a'", lambda: generator.randn("a"))
    wrong(ValueError, "size holds -1", lambda: generator.rand(-1))
    wrong(ValueError, "low is 3 and high 3", lambda: generator.randint(3, 3, 1))
    wrong(TypeError, "high is builtins.tuple; it must be a whole", lambda: generator.randint(3, (2,), 1))
    wrong(TypeError, "n is builtins.float", lambda: generator.randperm(3.0))
    wrong(ValueError, "seed is None", lambda: headproof.Generator(None))
    wrong(TypeError, "generator is builtins.int; it must be a headproof.Generator",
          lambda: headproof.Head(4, 2, 8, 0))
    wrong(TypeError, "head_dim is builtins.float", lambda: headproof.Head(4, 2.0, 8, generator))
    wrong(ValueError, "n is -1", lambda: generator.randperm(-1))
    wrong(ValueError, "more than memory holds", lambda: generator.randn(2**30, 2**30))

    wrong(ValueError, "head_dim is 0", lambda: headproof.Head(4, 0, 8, generator))
    head = headproof.Head(4, 2, 8, generator)
    wrong(ValueError, "x has shape [5, 4]; it must be [batch, seq_len, model_dim]",
          lambda: head(q[0, 0]))
    wrong(TypeError, "x holds float64", lambda: head(q[0].astype(np.float64)))
    wrong(ValueError, "positions, and this head takes at most 8", lambda: head(shaped(1, 9, 4)))
    wrong(ValueError, "vectors of 4", lambda: head(shaped(1, 8, 5)))
    wrong(ValueError, "model_dim, 4", lambda: head.key(shaped(1, 8, 5)))
    wrong(ValueError, "weights has no 'value.weight'", lambda: headproof.Head.from_weights(
        {"key.weight": shaped(2, 4), "query.weight": shaped(2, 4)}, 8))

    words = headproof.Vocabulary("helo\n")
    wrong(ValueError, "lacks 'd' (U+0064), which stands at position 3", lambda: words.encode("hold?"))
    wrong(ValueError, "id 9 at position 1", lambda: words.decode([0, 9]))
    wrong(TypeError, "ids holds", lambda: words.decode(np.array([0.5])))
    wrong(TypeError, "ids[1] is builtins.float; it must be a whole number", lambda: words.decode([0, 1.7]))
    wrong(TypeError, "ids[0] is builtins.str", lambda: words.decode("0"))
    wrong(TypeError, "ids is builtins.int; it must be an array or a list", lambda: words.decode(0))
    wrong(TypeError, "text is builtins.bytes; it must be a str", lambda: words.encode(b"h"))
    wrong(TypeError, "text is builtins.NoneType", lambda: headproof.Vocabulary(None))
    assert words.decode(n for n in (2, 1)) == words.decode([2, 1])
    table = generator.randn(5, 3)
    wrong(ValueError, "input[1] is -1; weight has rows 0 to 4",
          lambda: headproof.embedding([0, -1], table))
    wrong(ValueError, "input[0, 1] is 5", lambda: headproof.embedding([[0, 5]], table))
    wrong(TypeError, "input holds float64", lambda: headproof.embedding([0.0], table))
    wrong(ValueError, "weight has shape [3]", lambda: headproof.embedding([0], table[0]))
    wrong(TypeError, "weight is list; it must be an array", lambda: headproof.embedding([0], [[1.0]]))
    wrong(TypeError, "input holds bool", lambda: headproof.embedding([True], table))
    wrong(TypeError, "input is no array of whole numbers",
          lambda: headproof.embedding([[0], [0, 1]], table))


def test_more_threads_than_there_are_is_no_news(capfd):
    attention(*[shaped(1, 8, 64, 8)] * 3, threads=1000)
    assert capfd.readouterr() == ("", "")
