"""JAX: arrays in and out."""

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="there is no jax here")

from headproof import scaled_dot_product_attention as attention


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_arrays_in_arrays_out(rng, dtype):
    q, k, v = (jax.numpy.asarray(rng.standard_normal((2, 3, 9, 8)), dtype=dtype) for _ in range(3))
    out, lse = attention(q, k, v, is_causal=True, return_lse=True)
    assert isinstance(out, jax.Array) and isinstance(lse, jax.Array)
    assert out.dtype == dtype and lse.dtype == "float32" and out.shape == q.shape
    wide = [np.asarray(x.astype("float32")) for x in (q, k, v)]
    expected = attention(*wide, is_causal=True)
    found = np.asarray(out.astype("float32"))
    assert (found == np.asarray(jax.numpy.asarray(expected).astype(dtype).astype("float32"))).all()
    mask = jax.numpy.tril(jax.numpy.ones((9, 9), bool))
    assert (attention(q, k, v, mask) == out).all()


def test_meaning_is_that_of_jax(rng):
    q, k, v = (jax.numpy.asarray(rng.standard_normal((2, 9, 3, 8)), dtype="float32") for _ in range(3))
    expected = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    found = attention(*(x.transpose(0, 2, 1, 3) for x in (q, k, v)), is_causal=True)
    assert np.abs(np.asarray(found.transpose(0, 2, 1, 3) - expected)).max() < 1e-5


def test_what_is_held_is_named():
    q = jax.numpy.ones((1, 1, 3, 4))
    with pytest.raises(TypeError, match="query holds int8; attention takes"):
        attention(q.astype("int8"), q, q)
