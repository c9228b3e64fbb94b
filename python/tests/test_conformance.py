"""The conformance cases of the ONNX operator Attention, opset 23 to 25, through Python."""

import json

import numpy as np
import pytest

from conftest import SHARED
from headproof import scaled_dot_product_attention as attention

CASES = SHARED / "cases" / "onnx_attention"
NAMES = sorted(path.name for path in CASES.glob("*")) if CASES.is_dir() else []


def with_heads(x, heads):
    """[batch, num_heads, seq_len, dim] of that or of [batch, seq_len, num_heads * dim]."""
    if x.ndim == 4:
        return x
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def one_sequence(q, k, v, mask, options):
    return attention(q, k, v, mask, enable_gqa=True, return_lse=True, **options)


def logits(q, k, mask, options, length):
    """One key after the other: a row that sees one key has its logit as lse."""
    found = np.empty((q.shape[1], q.shape[2], k.shape[2]), np.float64)
    for j in range(k.shape[2]):
        of_key = dict(options, query_offset=options["query_offset"] - j,
                      key_length=[1 if j < length else 0])
        only = None if mask is None else mask[..., j:j + 1]
        key = k[:, :, j:j + 1]
        found[..., j] = one_sequence(q, key, key, only, of_key)[1][0]
    return found


def run(case, inputs):
    attributes = case["attributes"]
    q = with_heads(inputs["Q"], attributes.get("q_num_heads"))
    k = with_heads(inputs["K"], attributes.get("kv_num_heads"))
    v = with_heads(inputs["V"], attributes.get("kv_num_heads"))
    past = 0
    if "past_key" in inputs:
        past = inputs["past_key"].shape[2]
        k = np.concatenate([inputs["past_key"], k], 2)
        v = np.concatenate([inputs["past_value"], v], 2)
    keys, queries = k.shape[2], q.shape[2]
    mask = inputs.get("attn_mask")
    if mask is not None and mask.ndim == 1:  # PyTorch, and so headproof, takes two axes or more
        mask = mask[None]
    if mask is not None and mask.shape[-1] not in (1, keys):
        missing = [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])]
        nothing = False if mask.dtype == bool else -np.inf
        mask = np.pad(mask, missing, constant_values=nothing)
    common = {"scale": attributes.get("scale"), "softcap": attributes.get("softcap", 0.0),
              "causal": "top_left" if attributes.get("is_causal") else "none"}
    left, right = (attributes.get(f"{side}_window_size", -1) for side in ("left", "right"))
    if left >= 0:
        common["window"] = left + 1
    if right >= 0:
        common["window_right"] = right
    outs, stages = [], []
    mode = attributes.get("qk_matmul_output_mode", 0)
    lengths = inputs.get("nonpad_kv_seqlen")
    for b in range(q.shape[0]):
        one = [np.asarray(x[b:b + 1]) for x in (q, k, v)]
        length = keys if lengths is None else int(lengths[b])
        offset = past if lengths is None else length - queries
        options = dict(common, query_offset=offset, key_length=[length])
        of_b = mask
        if mask is not None and mask.ndim == 4 and mask.shape[0] > 1:
            of_b = mask[b:b + 1]
        outs.append(one_sequence(*one, of_b, options)[0])
        if "qk_matmul_output" in case["output_slots"]:
            if mode == 3:
                identity = np.broadcast_to(np.eye(keys, dtype=q.dtype), (*k.shape[1:2], keys, keys))
                stages.append(one_sequence(one[0], one[1], identity[None], of_b, options)[0][0])
            elif mode == 2:
                stages.append(logits(one[0], one[1], of_b, options, length))
            else:
                plain = {"scale": common["scale"], "query_offset": 0,
                         "softcap": common["softcap"] if mode == 1 else 0.0}
                stages.append(logits(one[0], one[1], None, plain, keys))
    out = np.concatenate(outs)
    if inputs["Q"].ndim == 3:
        out = out.transpose(0, 2, 1, 3).reshape(*inputs["Q"].shape[:2], -1)
    return {"Y": out, "present_key": k, "present_value": v,
            "qk_matmul_output": np.stack(stages) if stages else None}


@pytest.mark.skipif(not NAMES, reason=f"there is no folder {CASES}")
@pytest.mark.parametrize("name", NAMES)
def test_case(name):
    case = json.loads((CASES / name / "case.json").read_text())
    slots = [slot for slot in case["input_slots"] if slot]
    inputs = {slot: np.load(CASES / name / f"{slot}.npy") for slot in slots}
    found = run(case, inputs)
    for slot in filter(None, case["output_slots"]):
        expected = np.load(CASES / name / f"{slot}.npy")
        half = expected.dtype == np.float16
        tolerance = {"rtol": 1e-2, "atol": 1e-3} if half else {"rtol": 1e-3, "atol": 1e-5}
        assert found[slot].shape == expected.shape
        np.testing.assert_allclose(found[slot].astype(np.float64), expected.astype(np.float64),
                                   **tolerance, err_msg=slot)


def test_there_are_sixty():
    if not NAMES:
        pytest.skip(f"there is no folder {CASES}")
    assert len(NAMES) == 60
