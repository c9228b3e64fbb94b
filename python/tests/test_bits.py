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


def test_a_dozen_problems_have_the_stored_digest():
    digest = 0xCBF29CE484222325
    for shape in SHAPES:
        q, k, v = draw(shape)
        out, lse = attention(q, k, v, is_causal=True, enable_gqa=True, return_lse=True)
        for byte in out.tobytes() + lse.tobytes():
            digest = (digest ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    assert digest == 0xDA27EC72F8784D22


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
