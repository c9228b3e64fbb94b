"""Public bug reports, as small cases with the right values: what they found does not happen here.

Cases with queries, keys, values and the values of A or out are run as they stand; the others have a
few lines each. What concerns no function of this package is not in this file (docs/reports.md).
"""

import json

import numpy as np
import pytest

import headproof
from conftest import SHARED
from headproof import scaled_dot_product_attention as attention

FILE = SHARED / "cases" / "public_reports.json"
REPORTS = {case["id"]: case for case in json.loads(FILE.read_text())} if FILE.is_file() else {}
pytestmark = pytest.mark.skipif(not REPORTS, reason=f"there is no file {FILE}")

CORNERS = {True: "top_left", False: "none", "bottom_right": "bottom_right",
           "bottom_right (decode)": "bottom_right"}


def numbers(values):
    """A list of numbers, in which words stand for NaN and infinities."""
    return np.vectorize(float, otypes=[np.float64])(np.array(values, dtype=object))


def inputs(case, dtype=np.float64):
    return [numbers(case["input"][name]).astype(dtype) for name in "qkv"]


def options(case):
    given = case["input"]
    found = {"causal": CORNERS[given.get("causal", False)]}
    if isinstance(given.get("scale"), float):
        found["scale"] = given["scale"]
    if isinstance(given.get("allow"), list):
        found["attn_mask"] = np.array(given["allow"], bool)
    if given.get("window"):
        found["window"] = given["window"]
    return found


def weights(q, k, **how):
    """A, which the values of the identity show."""
    return attention(q, k, np.eye(k.shape[-2], dtype=k.dtype), **how)


def of_scores(scores, allowed=None, dtype=np.float64, **how):
    """A of one query with these scores, which are its keys of one channel."""
    k = numbers(scores).astype(dtype)[:, None]
    mask = None if allowed is None else np.array([allowed], bool)
    return weights(np.ones((1, 1), dtype), k, attn_mask=mask, scale=1.0, **how)[0]


WHOLE = [case for case in REPORTS.values()
         if {"q", "k", "v"} <= set(case["input"]) and {"A", "out"} & set(case["expected"])
         and not {"mask", "keep", "token_ids", "W_Q"} & set(case["input"])
         and case["input"].get("causal", False) in CORNERS
         and case["id"] not in ("BC023", "BC108")]  # below; second derivatives, which are not offered


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", WHOLE, ids=lambda case: case["id"])
def test_values_are_the_right_ones(case, dtype):
    q, k, v = inputs(case, dtype)
    how = options(case)
    # Numbers of order 1 and sums of a handful: 64 roundings are more than there are.
    tolerance = 64 * np.finfo(dtype).eps
    if "out" in case["expected"]:
        np.testing.assert_allclose(attention(q, k, v, **how), numbers(case["expected"]["out"]),
                                   rtol=tolerance, atol=tolerance)
    if "A" in case["expected"]:
        expected = numbers(case["expected"]["A"])
        A = weights(q, k, **how)
        np.testing.assert_allclose(A, expected, rtol=tolerance, atol=tolerance)
        assert ((A == 0) == (expected == 0)).all()


def test_many_cases_are_run_whole():
    assert len(WHOLE) >= 8


ROWS = [case for case in REPORTS.values() if "one_query_scores" in case["input"]
        and isinstance(case["expected"].get("A"), list) and "v" not in case["input"]]


@pytest.mark.parametrize("case", ROWS, ids=lambda case: case["id"])
def test_weights_of_one_query(case):
    given = case["input"]
    allowed = given.get("allow")
    if "additive_masked" in given:
        allowed = [not masked for masked in given["additive_masked"]]
    for dtype in (np.float32, np.float64):
        A = of_scores(given["one_query_scores"], allowed, dtype, softcap=given.get("cap", 0.0))
        expected = numbers(case["expected"]["A"]).ravel()
        np.testing.assert_allclose(A, expected, rtol=16 * np.finfo(dtype).eps, atol=1e-45)
        assert ((A == 0) == (expected == 0)).all()


def test_BC004_gradients_beside_a_row_that_sees_nothing():
    case = REPORTS["BC004"]
    q, k, v = inputs(case)
    how = options(case)
    out, lse = attention(q, k, v, return_lse=True, **how)
    d_out = numbers(case["input"]["dOut"])
    how.pop("causal")
    found = headproof.attention_backward(q, k, v, out, lse, d_out, **how)
    for gradient, name in zip(found, ("dQ", "dK", "dV")):
        np.testing.assert_allclose(gradient, numbers(case["expected"][name]), atol=1e-15)


def test_BC014_lse():
    case = REPORTS["BC014"]
    k = numbers(case["input"]["one_query_scores"])[:, None]
    _, lse = attention(np.ones((1, 1)), k, k, scale=1.0, return_lse=True)
    assert abs(lse[0] - case["expected"]["lse"]) < 1e-15
    _, lse = attention(np.ones((1, 1)), k[:0], k[:0], return_lse=True)
    assert lse[0] == -np.inf


def test_BC017_and_BC015_nan_behind_the_mask():
    case = REPORTS["BC017"]
    q, k, v = inputs(case)
    out = attention(q, k, v, is_causal=True)
    assert np.isnan(out[2]).all()
    expected = numbers(case["expected"]["rows_0_1_out"])
    np.testing.assert_allclose(out[:2], expected, atol=1e-15)


def test_BC018_a_sequence_of_length_0_is_written():
    q = np.ones((2, 1, 2, 2), np.float32)
    out = attention(q, q, q, key_length=REPORTS["BC018"]["input"]["batch_lengths"])
    assert (out[0] == 1).all() and (out[1] == 0).all()


def test_BC019_and_BC021_bad_numbers_stay_visible():
    q, k, v = inputs(REPORTS["BC019"])
    out = attention(q, k, v)
    assert np.isnan(out[0]).all() and (out[1] == REPORTS["BC019"]["expected"]["row1"]).all()
    assert np.isnan(of_scores(REPORTS["BC021"]["input"]["one_query_scores"])).all()


def test_BC023_scores_beyond_floats_are_seen_and_fit_doubles():
    case = REPORTS["BC023"]
    assert np.isnan(attention(*inputs(case, np.float32), **options(case))).all()
    assert attention(*inputs(case), **options(case)) == 1


def test_BC025_ten_thousand_equal_weights():
    T = REPORTS["BC025"]["input"]["T"]
    q, k = np.zeros((1, 4), np.float32), np.zeros((T, 4), np.float32)
    A = weights(q, k)
    assert (A == REPORTS["BC025"]["input"]["weight"]).all()


def test_BC026_a_large_negative_number_in_half_is_a_number_and_infinity_forbids():
    value = np.float16(REPORTS["BC026"]["input"]["mask_value"])
    q = k = np.ones((2, 1), np.float16)
    v = np.array([[1], [3]], np.float16)
    assert (attention(q, k, v, np.full((2, 2), value)) == 2).all()
    assert (attention(q, k, v, np.full((2, 2), -np.inf, np.float16)) == 0).all()


def test_BC028_encodings_of_a_mask():
    case = REPORTS["BC028"]
    scores = numbers(case["input"]["scores"]).astype(np.float32)
    k = np.eye(4, dtype=np.float32)
    allowed = np.tri(4, dtype=bool)
    expected = weights(scores, k, attn_mask=allowed, scale=1.0)
    np.testing.assert_allclose(expected, numbers(case["expected"]["A"]), atol=1e-7)
    for value in (-np.inf, -1e9, -3.4028234663852886e38):
        bias = np.where(allowed, 0, value).astype(np.float32)
        assert (weights(scores, k, attn_mask=bias, scale=1.0) == expected).all()


def test_BC032_the_corner_is_named():
    q, k, v = inputs(REPORTS["BC032"])
    for corner in ("top_left", "bottom_right"):
        np.testing.assert_allclose(attention(q, k, v, causal=corner),
                                   REPORTS["BC032"]["expected"][corner]["out"], atol=1e-15)
    assert (attention(q, k, v, is_causal=True) == attention(q, k, v, causal="top_left")).all()


def test_BC034_more_queries_than_keys():
    v = np.arange(1.0, 3)[:, None]
    out = attention(np.zeros((3, 1)), np.zeros((2, 1)), v, causal="bottom_right")
    assert out.ravel().tolist() == [0, 1, 1.5]


def test_BC035_BC037_BC038_chunks_follow_a_cache():
    q, k, v = inputs(REPORTS["BC035"])
    cache = headproof.KvCache(1, 1, 2, 2, dtype="float64")
    cache.append(k[None, None, :2], v[None, None, :2])
    cache.append(k[None, None, 2:], v[None, None, 2:])
    found = cache.attend(q[None, None, 2:])[0, 0]
    np.testing.assert_allclose(found, REPORTS["BC035"]["expected"]["rows_2_3_out"], rtol=1e-14)
    assert (found == attention(q, k, v, is_causal=True)[2:]).all()


def test_BC040_BC051_BC053_BC118_every_way_of_asking_gives_the_same_rows():
    case = REPORTS["BC040"]
    q, k, v = inputs(case, np.float32)
    out = attention(q, k, v, is_causal=True)
    np.testing.assert_allclose(out, case["expected"]["out_for_every_option"], rtol=1e-6, atol=1e-6)
    assert (attention(q, k, v, is_causal=True, return_lse=True)[0] == out).all()
    assert (attention(q[None], k[None], v[None], is_causal=True)[0] == out).all()
    assert (attention(q, k, v, is_causal=True, threads=1) == out).all()
    for batch in REPORTS["BC051"]["input"]["B"]:
        many = [np.stack([x] + [-x] * (batch - 1))[:, None] for x in (q, k, v)]
        assert (attention(*many, is_causal=True)[0, 0] == out).all()
    for length in REPORTS["BC053"]["input"]["prefix_lengths"]:
        assert (attention(q[:length], k[:length], v[:length], is_causal=True) == out[:length]).all()
    np.testing.assert_allclose(weights(q, k, is_causal=True) @ v, out, atol=1e-6)


def test_BC043_BC067_BC065_BC070_masks():
    case = REPORTS["BC043"]
    q, k, v = inputs(case)
    keep = np.array([case["input"]["keep"]], bool)
    found = attention(q, k, v, keep, is_causal=True)
    np.testing.assert_allclose(found, case["expected"]["out"], atol=1e-14)
    case = REPORTS["BC067"]
    q, k, v = inputs(case)
    real = np.array([case["input"]["token_ids"]]) != case["input"]["pad_id"]
    A = weights(q, k, attn_mask=real)
    np.testing.assert_allclose(A[:2], case["expected"]["A_rows_0_1"], atol=1e-15)
    assert (A[:, 2:] == 0).all()
    case = REPORTS["BC065"]
    q, k, v = inputs(case)
    out = attention(q, k, v, np.array(case["input"]["mask"]))
    np.testing.assert_allclose(out, case["expected"]["out"], atol=1e-15)
    case = REPORTS["BC070"]
    q, k, v = inputs(case)
    out = attention(q, k, v, np.array(case["input"]["mask"]))
    assert (out == case["expected"]["if_named_allow"]["out"]).all()


def test_BC055_BC057_BC058_sizes_of_zero():
    for batch, heads, rows, dim in REPORTS["BC055"]["input"]["shapes_B_H_T_d"]:
        q = np.ones((batch, heads, rows, dim), np.float32)
        if dim == 0:
            with pytest.raises(ValueError, match="head_dim is 0"):
                attention(q, q, q)
            assert attention(q, q, q, scale=1.0).shape == q.shape
        else:
            assert attention(q, q, q).shape == q.shape
    out, lse = attention(np.ones((2, 1)), np.ones((0, 1)), np.ones((0, 3)), return_lse=True)
    assert out.tolist() == [[0] * 3] * 2 and (lse == -np.inf).all()
    q, k, v = inputs(REPORTS["BC058"])
    out = attention(q, k, v, is_causal=True, key_length=REPORTS["BC058"]["input"]["lengths"])
    assert (out[0] == REPORTS["BC058"]["expected"]["item0_out"]).all() and (out[1] == 0).all()


def test_BC059_any_width():
    for name in ("d1", "d3"):
        given = REPORTS["BC059"]["input"][name]
        q, k, v = (numbers(given[x]) for x in "qkv")
        np.testing.assert_allclose(attention(q, k, v), REPORTS["BC059"]["expected"][name]["out"],
                                   rtol=1e-14)


def test_BC063_layouts_by_strides():
    case = REPORTS["BC063"]
    q, k, v = (numbers(case["input"][x])[None].transpose(0, 2, 1, 3) for x in "qkv")
    out = attention(q, k, v)
    for head in range(2):
        np.testing.assert_allclose(out[0, head], case["expected"][f"head{head}_out"], rtol=1e-14)
    assert (out == attention(*(np.ascontiguousarray(x) for x in (q, k, v)))).all()


def test_BC088_BC090_BC163_heads_that_share():
    case = REPORTS["BC088"]
    v = numbers(case["input"]["kv_values"]).reshape(1, 2, 1, 1)
    out = attention(np.ones((1, 4, 1, 1)), v * 0, v, enable_gqa=True)
    assert out.ravel().tolist() == case["expected"]["out_per_head"]
    q, k = np.ones((1, 6, 1, 1)), np.ones((1, 4, 1, 1))
    for gqa in (True, False):
        with pytest.raises(ValueError, match="6.*4|4.*6"):
            attention(q, k, k, enable_gqa=gqa)


def test_BC093_softcap():
    case = REPORTS["BC093"]
    for cap in case["input"]["caps"]:
        A = of_scores(case["input"]["one_query_scores"], softcap=cap)
        name = "cap_0_means_off" if cap == 0 else f"cap_{cap}"
        np.testing.assert_allclose(A, case["expected"][name], rtol=1e-13)


def test_BC094_BC159_windows_count_the_query():
    case = REPORTS["BC094"]
    T = case["input"]["T"]
    A = weights(np.zeros((T, 1)), np.zeros((T, 1)), is_causal=True, window=case["input"]["window"])
    assert ((A > 0) == np.array(case["expected"]["allow"])).all()


def test_BC097_BC099_padding():
    case = REPORTS["BC097"]
    q, k, v = (x[None, None] for x in inputs(case))
    out = attention(q, k, v, is_causal=True, first_key=[2])[0, 0, 2:]
    np.testing.assert_allclose(out, case["expected"]["real_rows_out"], atol=1e-15)
    case = REPORTS["BC099"]
    q, k, v = inputs(case)
    pad = np.full((case["input"]["right_pad"], 2), np.nan)
    padded = [np.concatenate([x, pad])[None, None] for x in (q, k, v)]
    out = attention(*padded, is_causal=True, key_length=[4])[0, 0, :4]
    assert (out == attention(q, k, v, is_causal=True)).all()


def test_BC102_a_decoded_query_has_the_kernel_of_its_own_position():
    i = REPORTS["BC102"]["input"]["decode_position"]
    q = np.array([[float(i), 1.0]])
    k = np.array([[float(j), -j * j / 2] for j in range(i + 1)])
    np.testing.assert_allclose(weights(q, k, scale=1.0)[0], REPORTS["BC102"]["expected"]["A"], rtol=1e-14)


def test_BC106_BC109_gradients():
    case = REPORTS["BC106"]
    q, k, v = inputs(case)
    for is_causal, name in ((True, "causal"), (False, "full")):
        out, lse = attention(q, k, v, is_causal=is_causal, return_lse=True)
        found = headproof.attention_backward(q, k, v, out, lse, numbers(case["input"]["dOut"]),
                                             is_causal=is_causal)
        for gradient, which in zip(found, ("dQ", "dK", "dV")):
            np.testing.assert_allclose(gradient, case["expected"][name][which], atol=1e-14)


def test_BC140_BC142_BC143_characters():
    case = REPORTS["BC140"]["input"]
    with pytest.raises(ValueError, match=r"'d' \(U\+0064\).*position 3"):
        headproof.Vocabulary(case["vocab_text"]).encode(case["prompt"])
    text = bytes.fromhex(REPORTS["BC142"]["input"]["bytes_hex"]).decode()
    assert len(headproof.Vocabulary(text)) == len(text) == REPORTS["BC142"]["expected"]["length"]


def test_BC120_BC133_pictures():
    A = np.array(REPORTS["BC120"]["input"]["A"])
    assert headproof.plot(A).draw("svg")
    case = REPORTS["BC133"]["input"]
    with pytest.raises(ValueError, match=r"A has shape \[2\]; it must be \[seq_len_q, seq_len_k\]"):
        headproof.plot(case["attention"], case["tokens"])


def test_BC160_a_mask_of_doubles():
    q = np.zeros((1, 1))
    A = weights(q, np.zeros((2, 1)), attn_mask=np.array([[0.0, REPORTS["BC160"]["input"]["mask_value"]]]))
    assert A.tolist() == [[1.0, 0.0]]


def test_BC165_BC167_permutations():
    case = REPORTS["BC167"]
    x = numbers(case["input"]["x"])
    order = case["input"]["permutation"]
    np.testing.assert_allclose(attention(x, x, x), case["expected"]["out"], rtol=1e-14)
    moved = x[order]
    np.testing.assert_allclose(attention(moved, moved, moved), case["expected"]["out_of_permuted"],
                               rtol=1e-14)
