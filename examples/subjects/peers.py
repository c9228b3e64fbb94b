"""Attention as others compute it, to be checked: each function is a subject, such as

    headproof check python:peers:torch_math

run in this folder, or python:headproof.subjects:torch_math where the Python package is installed,
of which this file is a module. docs/peers.md says what comes out and why.
"""

import math


def numpy_attention(q, k, v, is_causal=True, scale=None):
    """The definition in NumPy, all of it at once."""
    import numpy as np

    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = q @ np.swapaxes(k, -1, -2) * np.float32(scale)
    if is_causal:
        scores = np.where(np.tri(scores.shape[-2], scores.shape[-1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def _of(framework, **declared):
    """Says what a signature cannot: whose arrays the function takes."""

    def mark(function):
        function.headproof = {"framework": framework, **declared}
        return function

    return mark


@_of("torch")
def torch_sdpa(q, k, v, attn_mask=None, is_causal=False, scale=None, enable_gqa=False):
    """PyTorch's scaled_dot_product_attention, by whichever kernel it chooses."""
    import torch

    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)


def _torch_backend(name):
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def attention(q, k, v, attn_mask=None, is_causal=False, scale=None, enable_gqa=False):
        with sdpa_kernel(getattr(SDPBackend, name)):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=attn_mask, is_causal=is_causal, scale=scale,
                enable_gqa=enable_gqa)

    return attention


@_of("torch")
def torch_math(q, k, v, attn_mask=None, is_causal=False, scale=None, enable_gqa=False):
    """PyTorch's scaled_dot_product_attention, written with matrix products."""
    return _torch_backend("MATH")(q, k, v, attn_mask, is_causal, scale, enable_gqa)


@_of("torch")
def torch_flash(q, k, v, attn_mask=None, is_causal=False, scale=None):
    """The same, its fused kernel."""
    return _torch_backend("FLASH_ATTENTION")(q, k, v, attn_mask, is_causal, scale)


@_of("torch")
def torch_head(x, w_q, w_k, w_v, is_causal=True):
    """A head as a course writes it in PyTorch: the masked weights are zeros that are multiplied."""
    import torch

    q, k, v = x @ w_q.T, x @ w_k.T, x @ w_v.T
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if is_causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -torch.inf)
    A = scores.softmax(-1)
    return A @ v, A


@_of("jax", layout="bshd", features=["grouped_heads"])
def jax_attention(q, k, v, bias=None, mask=None, is_causal=False, scale=None):
    """JAX's jax.nn.dot_product_attention."""
    import jax

    return jax.nn.dot_product_attention(q, k, v, bias, mask, scale=scale, is_causal=is_causal)


_sessions = {}


@_of("numpy")
def onnxruntime_attention(q, k, v, attn_mask=None, is_causal=True, scale=None, softcap=0.0):
    """ONNX Runtime's Attention operator (opset 23), one thread."""
    import numpy as np
    import onnx
    import onnxruntime

    kind = None if attn_mask is None else attn_mask.dtype
    key = (is_causal, scale, softcap, kind)
    if key not in _sessions:
        types = {np.dtype(bool): onnx.TensorProto.BOOL, np.dtype(np.float32): onnx.TensorProto.FLOAT}
        names = ["q", "k", "v"] + ([] if attn_mask is None else ["attn_mask"])
        element = {"attn_mask": types[kind]} if attn_mask is not None else {}
        values = [
            onnx.helper.make_tensor_value_info(
                name, element.get(name, onnx.TensorProto.FLOAT),
                [f"{name}{axis}" for axis in range(4)])
            for name in names
        ]
        attributes = {"is_causal": int(is_causal)}
        if scale is not None:
            attributes["scale"] = float(scale)
        if softcap:
            attributes["softcap"] = float(softcap)
        node = onnx.helper.make_node("Attention", names, ["out"], **attributes)
        out = onnx.helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, [None] * 4)
        model = onnx.helper.make_model(
            onnx.helper.make_graph([node], "attention", values, [out]),
            opset_imports=[onnx.helper.make_opsetid("", 23)], ir_version=10)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        _sessions[key] = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    inputs = {"q": q, "k": k, "v": v}
    if attn_mask is not None:
        inputs["attn_mask"] = attn_mask
    return _sessions[key].run(None, inputs)[0]
