"""Bits are those of C++: the stored digest, and what the command writes."""

import numpy as np
import pytest

from headproof import Generator, attention_backward
from headproof import scaled_dot_product_attention as attention

# batch, num_heads, num_kv_heads, seq_len_q, seq_len_k, head_dim, value_dim; src/attention/fused_test.cc
SHAPES = [
    (1, 1, 1, 1, 1, 1, 1), (2, 4, 2, 7, 7, 3, 5), (1, 2, 1, 5, 64, 16, 16), (1, 1, 1, 64, 65, 40, 100),
    (1, 2, 2, 63, 130, 7, 80), (1, 1, 1, 130, 63, 64, 64), (1, 1, 1, 47, 127, 8, 15),
    (1, 1, 1, 49, 129, 17, 17), (1, 1, 1, 1, 1300, 16, 16), (1, 1, 1, 97, 1100, 8, 33),
    (1, 1, 1, 1030, 1030, 4, 16), (1, 3, 1, 6, 2049, 2, 8), (1, 1, 1, 0, 5, 4, 4),
    (1, 1, 1, 5, 0, 4, 4), (0, 1, 1, 5, 5, 4, 4), (1, 1, 1, 5, 5, 4, 0)]


def draw(shape):
    batch, heads, kv_heads, queries, keys, dim, value_dim = shape
    return (Generator(1).randn(batch, heads, queries, dim),
            Generator(2).randn(batch, kv_heads, keys, dim),
            Generator(3).randn(batch, kv_heads, keys, value_dim))


def digest(arrays):
    found = 0xCBF29CE484222325
    for array in arrays:
        for byte in array.tobytes():
            found = (found ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return found


def test_a_dozen_problems_have_the_stored_digest():
    def results():
        for shape in SHAPES:
            yield from attention(*draw(shape), is_causal=True, enable_gqa=True, return_lse=True)

    assert digest(results()) == 0xDA27EC72F8784D22


def test_gradients_of_dozens_of_problems_have_the_stored_digest():
    """The problems of src/attention/backward_test.cc."""
    shapes = SHAPES[:3] + [(1, 1, 1, 6, 5, 4, 20), (1, 1, 1, 47, 48, 5, 3), (1, 1, 1, 49, 47, 33, 1),
                           (1, 1, 1, 64, 65, 40, 100), (1, 2, 2, 63, 130, 7, 80),
                           (1, 1, 1, 130, 63, 64, 64), (1, 7, 1, 65, 66, 17, 16),
                           (1, 1, 1, 1, 1300, 16, 16), (1, 1, 1, 0, 5, 4, 4), (1, 1, 1, 5, 0, 4, 4),
                           (0, 1, 1, 5, 5, 4, 4), (1, 0, 2, 5, 5, 4, 4), (1, 0, 0, 5, 5, 4, 4),
                           (1, 1, 1, 5, 5, 4, 0)]
    problems = [(shape, {"is_causal": True}) for shape in shapes]
    problems.append(((1, 2, 1, 1030, 1100, 2, 3), {}))
    numbers = Generator(5).randn(2, 4, 70, 90)
    may, bias = numbers > -1, np.where(numbers > 1, np.float32(-np.inf), numbers)
    wide_bias = np.where(numbers > 2, -np.inf, numbers.astype(np.float64))
    first_key, key_length = [17, 70], [81, 90]
    every_option = [
        {"scale": -0.3}, {"query_offset": 20, "window": 7},
        {"causal": "top_left", "query_offset": -5}, {"window": 1, "window_right": 0},
        {"window_right": 3}, {"causal": "bottom_right", "window": 30, "softcap": 1.5},
        {"softcap": 0.5}, {"attn_mask": may}, {"attn_mask": may[:1, :1, :1]},
        {"causal": "top_left", "attn_mask": bias}, {"attn_mask": bias[:1]},
        {"attn_mask": bias[:, :1, :, :1]}, {"softcap": 2, "attn_mask": wide_bias},
        {"first_key": first_key}, {"causal": "bottom_right", "key_length": key_length},
        {"causal": "bottom_right", "window": 40, "softcap": 3, "attn_mask": bias,
         "first_key": first_key, "key_length": key_length}]
    problems += [((2, 4, 2, 70, 90, 5, 7), options) for options in every_option]

    def gradients():
        for shape, options in problems:
            q, k, v = draw(shape)
            out, lse = attention(q, k, v, enable_gqa=True, return_lse=True, **options)
            d_out = Generator(4).randn(*out.shape)
            yield from attention_backward(q, k, v, out, lse, d_out, enable_gqa=True, **options)

    assert digest(gradients()) == 0xB5E7EA263B9C4421


@pytest.mark.parametrize("implementation", ["fused", "canonical"])
def test_bits_are_those_that_the_command_writes(command, tmp_path, implementation):
    for n, shape in enumerate(SHAPES[:12]):
        if implementation == "canonical" and shape[4] > 200:
            continue
        q, k, v = draw(shape)
        out, lse = attention(q, k, v, enable_gqa=True, causal="bottom_right", return_lse=True)
        for name, array in (("q", q), ("k", k), ("v", v)):
            np.save(tmp_path / f"{name}.npy", array)
        arguments = ["attend", "--causal", "bottom_right", "--lse", "--out", tmp_path / str(n),
                     "--implementation", implementation]
        for name in "qkv":
            arguments += [f"--{name}", tmp_path / f"{name}.npy"]
        gradients = ()
        if implementation == "fused":
            d_out = Generator(4).randn(*out.shape)
            np.save(tmp_path / "d_out.npy", d_out)
            arguments += ["--d-out", tmp_path / "d_out.npy"]
            gradients = attention_backward(q, k, v, out, lse, d_out, enable_gqa=True,
                                           causal="bottom_right")
        ended = command(*arguments)
        assert ended.returncode == 0, ended.stderr
        for name, array in zip(("out", "lse", "d_q", "d_k", "d_v"), (out, lse, *gradients)):
            written = np.load(tmp_path / str(n) / f"{name}.npy")
            assert written.tobytes() == array.tobytes(), (shape, name)
