"""KvCache: bits of attention over all keys at once."""

import threading

import numpy as np
import pytest

from headproof import KvCache
from headproof import scaled_dot_product_attention as attention


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_chunks_of_any_size_give_the_rows_of_all_at_once(rng, dtype):
    q, k, v = (rng.standard_normal(shape).astype(dtype)
               for shape in ((2, 4, 70, 8), (2, 2, 70, 8), (2, 2, 70, 5)))
    expected, expected_lse = attention(q, k, v, is_causal=True, enable_gqa=True, return_lse=True)
    cache = KvCache(2, 2, 8, 5, dtype="float64" if dtype == "float64" else "float32")
    at = 0
    for size in (1, 3, 1, 40, 0, 25):
        part = np.s_[:, :, at:at + size]
        cache.append(k[part], v[part])
        out, lse = cache.attend(q[part], return_lse=True)
        assert out.dtype == q.dtype and (out == expected[part]).all()
        assert (lse == expected_lse[part]).all()
        at += size
        assert len(cache) == at
    cache.truncate(30)
    assert (cache.attend(q[:, :, 29:30]) == expected[:, :, 29:30]).all()


def test_padding_at_the_left_and_options(rng):
    q, k, v = (rng.standard_normal((2, 1, 20, 4)).astype(np.float32) for _ in range(3))
    options = {"softcap": 3.0, "window": 6, "scale": 0.4}
    expected = attention(q, k, v, causal="top_left", first_key=[0, 5], **options)
    cache = KvCache(2, 1, 4, 4, first_key=[0, 5])
    cache.reserve(20)
    cache.append(k, v)
    assert (cache.attend(q[:, :, 12:], **options) == expected[:, :, 12:]).all()
    mask = rng.random((8, 20)) < 0.5
    assert (cache.attend(q[:, :, 12:], mask, causal="none") ==
            attention(q[:, :, 12:], k, v, mask, first_key=[0, 5])).all()


def test_threads_may_share_it(rng):
    q, k, v = (rng.standard_normal((1, 2, 64, 8)).astype(np.float32) for _ in range(3))
    cache = KvCache(1, 2, 8, 8)
    failed = []

    def work():
        try:
            for _ in range(40):
                cache.append(k, v)
                assert np.isfinite(cache.attend(q[:, :, :1], causal="none")).all()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and len(cache) == 4 * 40 * 64
