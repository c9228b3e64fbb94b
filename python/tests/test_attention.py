"""scaled_dot_product_attention: shapes, dtypes, masks, options, and what it returns."""

import ctypes
import itertools

import numpy as np
import pytest

import headproof
from conftest import bound, definition
from headproof import scaled_dot_product_attention as attention


def normal(rng, *shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def causal(n, m, offset=0):
    return np.tri(n, m, offset, dtype=bool)


SHAPES = [(5, 8), (3, 5, 8), (2, 3, 5, 8), (2, 2, 3, 5, 8), (2, 1, 2, 3, 65, 4), (1, 1, 0, 4),
          (0, 3, 5, 2), (1, 1, 1, 1), (1, 2, 131, 17)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_number_of_leading_axes_gives_the_definition(rng, shape, dtype):
    q, k, v = (normal(rng, *shape, dtype=dtype) for _ in range(3))
    for is_causal in (False, True):
        out = attention(q, k, v, is_causal=is_causal)
        assert isinstance(out, np.ndarray) and out.shape == shape and out.dtype == dtype
        allowed = causal(shape[-2], shape[-2]) if is_causal else None
        error = np.abs(out - definition(q, k, v, allowed)[0]).max(initial=0)
        assert error <= bound(q, k, v, np.finfo(dtype).eps / 2)


def test_out_is_that_of_each_sequence_alone_bit_for_bit(rng):
    q, k, v = (normal(rng, 2, 3, 4, 33, 8) for _ in range(3))
    out = attention(q, k, v, is_causal=True)
    for at in itertools.product(range(2), range(3), range(4)):
        assert (out[at] == attention(q[at], k[at], v[at], is_causal=True)).all()


def test_leading_axes_broadcast_as_numpys_do(rng):
    q, k, v = normal(rng, 2, 1, 3, 5, 4), normal(rng, 3, 3, 7, 4), normal(rng, 1, 7, 6)
    out = attention(q, k, v)
    assert out.shape == (2, 3, 3, 5, 6)
    whole = [np.ascontiguousarray(np.broadcast_to(x, (2, 3, 3, *x.shape[-2:]))) for x in (q, k, v)]
    assert (out == attention(*whole)).all()


def test_any_strides_give_the_same_bits(rng):
    q, k, v = (normal(rng, 2, 3, 9, 8) for _ in range(3))
    expected = attention(q, k, v, is_causal=True)
    turned = [np.asfortranarray(x) for x in (q, k, v)]
    backwards = [np.ascontiguousarray(x[::-1, :, ::-1, ::-1])[::-1, :, ::-1, ::-1] for x in (q, k, v)]
    gaps = [np.repeat(np.repeat(x, 2, 2), 3, 3)[:, :, ::2, ::3] for x in (q, k, v)]
    packed = np.stack([q, k, v], 3)  # [batch, heads, seq_len, 3, dim], as of one projection
    in_packed = [packed[:, :, :, n] for n in range(3)]
    for views in (turned, backwards, gaps, in_packed):
        assert (attention(*views, is_causal=True) == expected).all()


def test_arrays_are_read_in_place(rng):
    # 2^36 keys of which 100 are no padding: a copy would take terabytes.
    few_k, few_v, q = normal(rng, 8), normal(rng, 8), normal(rng, 1, 1, 1, 8)
    k, v = (np.broadcast_to(x, (1, 1, 2**36, 8)) for x in (few_k, few_v))
    out = attention(q, k, v, key_length=[100])
    assert np.allclose(out, few_v, rtol=1e-5)
    # And what is written between two calls is what the second one sees.
    k, v = normal(rng, 1, 1, 4, 8), normal(rng, 1, 1, 4, 8)
    before = attention(q, k, v)
    v += 1
    assert np.allclose(attention(q, k, v), before + 1, atol=1e-5)


def test_memory_grows_with_the_length_not_with_its_square(rng):
    import resource

    q, k, v = (normal(rng, 1, 1, 40_000, 8) for _ in range(3))
    attention(q[:, :, :64], k, v)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    attention(q, k, v)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 64 << 20  # A alone would be 6.4 GB


@pytest.mark.parametrize("kind", ["bytes", "array", "ctypes"])
def test_takes_the_buffer_protocol(kind, rng):
    import array

    q = normal(rng, 5, 4)
    if kind == "array":
        given = memoryview(array.array("f", q.ravel().tolist())).cast("B").cast("f", (5, 4))
    elif kind == "ctypes":
        given = ((ctypes.c_float * 4) * 5)(*[tuple(row) for row in q.tolist()])
    else:
        given = memoryview(bytearray(q.tobytes())).cast("f", (5, 4))
    assert (attention(given, given, given) == attention(q, q, q)).all()


def test_takes_read_only_arrays(rng):
    q = normal(rng, 5, 4)
    expected = attention(q, q, q)
    q.flags.writeable = False
    assert (attention(q, q, q) == expected).all()


class OnlyDlpack:
    """An array that offers DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_takes_dlpack(rng):
    q, k, v = (normal(rng, 2, 3, 5, 4) for _ in range(3))
    given = [OnlyDlpack(x.transpose(1, 0, 2, 3)) for x in (q, k, v)]
    expected = attention(q, k, v, is_causal=True).transpose(1, 0, 2, 3)
    assert (attention(*given, is_causal=True) == expected).all()


def test_grouped_heads_share_keys(rng):
    q, k, v = normal(rng, 2, 6, 5, 4), normal(rng, 2, 2, 7, 4), normal(rng, 2, 2, 7, 3)
    out = attention(q, k, v, enable_gqa=True)
    assert (out == attention(q, np.repeat(k, 3, 1), np.repeat(v, 3, 1))).all()
    alone = attention(q[0], k[0], v[0], enable_gqa=True)  # [num_heads, seq_len, dim]
    assert (alone == out[0]).all()


def test_masks_of_bools_and_of_numbers(rng):
    q, k, v = normal(rng, 2, 3, 5, 4), normal(rng, 2, 3, 7, 4), normal(rng, 2, 3, 7, 6)
    for shape in ((5, 7), (1, 7), (5, 1), (3, 5, 7), (1, 5, 7), (2, 3, 5, 7), (2, 1, 1, 7)):
        allowed = rng.random(shape) < 0.6
        bias = normal(rng, *shape)
        of_bools = attention(q, k, v, allowed)
        assert np.abs(of_bools - definition(q, k, v, allowed)[0]).max() <= bound(q, k, v)
        of_numbers = attention(q, k, v, attn_mask=np.where(allowed, np.float32(0), -np.inf))
        assert (of_numbers == of_bools).all()
        out = attention(q, k, v, bias)
        assert np.abs(out - definition(q, k, v, bias=bias)[0]).max() <= bound(q, k, v)
        for narrow in (np.float16, np.float64):
            wide = bias.astype(narrow)
            assert (attention(q, k, v, wide) == attention(q, k, v, wide.astype(np.float32))).all()


def test_every_way_to_say_the_same_allowed_set_gives_the_same_bits(rng):
    q, k, v = (normal(rng, 2, 2, 70, 8) for _ in range(3))
    expected = attention(q, k, v, is_causal=True)
    triangle = causal(70, 70)
    for way in ({"causal": "top_left"}, {"causal": "bottom_right"}, {"attn_mask": triangle},
                {"query_offset": 0, "causal": "top_left"}, {"window": 70, "window_right": 0},
                {"causal": "top_left", "attn_mask": triangle}, {"is_causal": True, "threads": 1},
                {"is_causal": True, "threads": 3}):
        assert (attention(q, k, v, **way) == expected).all(), way


def test_corners_windows_padding_and_softcap(rng):
    q, k, v = normal(rng, 2, 1, 4, 8), normal(rng, 2, 1, 9, 8), normal(rng, 2, 1, 9, 8)
    i, j = np.arange(4)[:, None], np.arange(9)[None]
    length = np.array([9, 6])[:, None, None, None]
    first = np.array([0, 3])[:, None, None, None]
    for options, allowed in [
        ({"causal": "top_left"}, j <= i),
        ({"causal": "bottom_right"}, j <= i + 5),
        ({"causal": "top_left", "query_offset": 3}, j <= i + 3),
        ({"window": 2, "causal": "top_left"}, (j <= i) & (j > i - 2)),
        ({"window": 1, "window_right": 2}, (j <= i + 2) & (j > i - 1)),
        ({"key_length": [9, 6]}, j < length),
        ({"first_key": np.array([0, 3], np.int32), "key_length": [9, 6]}, (j < length) & (j >= first)),
        ({"causal": "bottom_right", "key_length": np.array([9, 6])}, j <= i + length - 4),
    ]:
        error = np.abs(attention(q, k, v, **options) - definition(q, k, v, allowed)[0]).max()
        assert error <= bound(q, k, v), options
    capped = attention(q, k, v, softcap=2.0)
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) * 8**-0.5
    expected, _ = definition(q, k, v, scale=0, bias=2 * np.tanh(scores / 2))
    assert np.abs(capped - expected).max() <= bound(q, k, v)


def test_lse_and_rows_that_see_nothing(rng):
    q, k, v = (normal(rng, 2, 3, 5, 4) for _ in range(3))
    allowed = np.ones((5, 5), bool)
    allowed[2] = False
    out, lse = attention(q, k, v, allowed, return_lse=True)
    assert lse.shape == (2, 3, 5) and lse.dtype == np.float32
    assert (out[:, :, 2] == 0).all() and (lse[:, :, 2] == -np.inf).all()
    logits = np.where(allowed, q @ k.swapaxes(-1, -2) / 2, -np.inf)
    rows = [0, 1, 3, 4]
    expected = np.log(np.exp(logits[:, :, rows].astype(np.float64)).sum(-1))
    assert np.abs(lse[:, :, rows] - expected).max() <= bound(q, k, v)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_numbers_of_16_bits_are_computed_in_float32_and_rounded_once(rng, name):
    if name == "bfloat16":
        ml_dtypes = pytest.importorskip("ml_dtypes", reason="there is no ml_dtypes here")
        dtype = np.dtype(ml_dtypes.bfloat16)
    else:
        dtype = np.dtype(name)
    q, k, v = (normal(rng, 2, 3, 9, 8).astype(dtype) for _ in range(3))
    out, lse = attention(q, k, v, is_causal=True, return_lse=True)
    wide = [x.astype(np.float32) for x in (q, k, v)]
    expected, expected_lse = attention(*wide, is_causal=True, return_lse=True)
    assert out.dtype == dtype and lse.dtype == np.float32
    assert (out.view(np.uint16) == expected.astype(dtype).view(np.uint16)).all()
    assert (lse == expected_lse).all()
    strided = [np.asfortranarray(x) for x in (q, k, v)]
    assert (attention(*strided, is_causal=True).view(np.uint16) == out.view(np.uint16)).all()


def test_every_half_is_widened_and_narrowed_as_numpy_does():
    # One key whose value is every float16 at once: out is that value, rounded once.
    bits = np.arange(2**16, dtype=np.uint16)
    halves = bits.view(np.float16)
    v = halves[None]
    q = k = np.zeros((1, 1), np.float16)
    out = attention(q, k, v)[0]
    nan = np.isnan(halves)
    # 0 + p v, where p is 1: of -0 and of infinity times 1 nothing changes but the sign of zero.
    assert (out[~nan] == halves[~nan]).all() and np.isnan(out[nan]).all()
    # Two keys with equal weights: the mean, which lies between halves, is rounded to even.
    rng = np.random.default_rng(1)
    pairs = rng.permutation(bits[np.isfinite(halves)])[:60000].view(np.float16).reshape(2, -1)
    q, k = np.zeros((1, 1), np.float16), np.zeros((2, 1), np.float16)
    out = attention(q, k, pairs)[0]
    wide = attention(q.astype(np.float32), k.astype(np.float32), pairs.astype(np.float32))[0]
    with np.errstate(over="ignore"):
        assert (out == wide.astype(np.float16)).all()


@pytest.mark.parametrize("options", [
    {}, {"is_causal": True}, {"causal": "bottom_right", "window": 3}, {"softcap": 2.0, "scale": 0.7},
    {"key_length": [7, 4], "first_key": [1, 0]}], ids=str)
def test_gradients_are_those_of_differences(rng, options):
    q, k, v = (normal(rng, 2, 3, n, 4, dtype=np.float64) for n in (5, 7, 7))
    d_out = normal(rng, 2, 3, 5, 4, dtype=np.float64)
    out, lse = attention(q, k, v, return_lse=True, **options)
    gradients = headproof.attention_backward(q, k, v, out, lse, d_out, **options)
    h = 1e-6
    for x, gradient in zip((q, k, v), gradients):
        assert gradient.shape == x.shape and gradient.dtype == x.dtype
        for at in [(0, 0, 0, 0), (1, 2, 4, 3), (1, 0, 3, 1), (0, 1, 2, 2)]:
            kept = x[at]
            x[at] = kept + h
            above = (attention(q, k, v, **options) * d_out).sum()
            x[at] = kept - h
            below = (attention(q, k, v, **options) * d_out).sum()
            x[at] = kept
            # h^2 of the series and 1e-16 / h of rounding, times sums of order 100.
            assert abs(gradient[at] - (above - below) / (2 * h)) < 1e-7


def test_gradients_of_grouped_heads_and_of_more_axes(rng):
    q, k, v = normal(rng, 2, 2, 4, 5, 4), normal(rng, 2, 2, 2, 6, 4), normal(rng, 2, 2, 2, 6, 4)
    out, lse = attention(q, k, v, enable_gqa=True, is_causal=True, return_lse=True)
    d_out = normal(rng, *out.shape)
    found = headproof.attention_backward(q, k, v, out, lse, d_out, is_causal=True, enable_gqa=True)
    for n in range(2):
        each = headproof.attention_backward(q[n], k[n], v[n], out[n], lse[n], d_out[n],
                                            is_causal=True, enable_gqa=True)
        assert all((a[n] == b).all() for a, b in zip(found, each))


def test_gradients_of_halves_come_in_halves(rng):
    q, k, v, d_out = (normal(rng, 1, 2, 5, 4).astype(np.float16) for _ in range(4))
    out, lse = attention(q, k, v, return_lse=True)
    wide = [x.astype(np.float32) for x in (q, k, v, out)]
    expected = headproof.attention_backward(*wide, lse, d_out.astype(np.float32))
    found = headproof.attention_backward(q, k, v, out, lse, d_out)
    assert all((a == b.astype(np.float16)).all() and a.dtype == np.float16
               for a, b in zip(found, expected))
