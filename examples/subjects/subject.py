"""An attention in NumPy that headproof can check. Put your own into my_attention:

    headproof check python:subject:my_attention

Only the options that the signature names are asked for: is_causal, scale, attn_mask, enable_gqa,
window, softcap and others that docs/subjects.md lists.
"""
import numpy as np


@np.errstate(invalid="ignore", over="ignore")  # what is hidden may hold anything
def my_attention(q, k, v, is_causal=True, scale=None, attn_mask=None):
    """q, k, v: float32 of shape [batch, num_heads, seq_len, head_dim]; so is what is returned."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    number = q.dtype.type  # float32, and what is asked for is returned
    scores = number(scale) * (q @ k.swapaxes(-1, -2))
    allowed = np.ones(scores.shape[-2:], bool)
    if is_causal:
        allowed = np.tril(allowed)
    if attn_mask is not None:
        if attn_mask.dtype == bool:
            allowed = allowed & attn_mask
        else:  # numbers to add; minus infinity hides, whatever the score is
            allowed = allowed & (attn_mask != -np.inf)
            scores = scores + attn_mask
    scores = np.where(allowed, scores, number(-np.inf))
    largest = scores.max(axis=-1, keepdims=True, initial=np.finfo(q.dtype).min)
    weights = np.exp(scores - largest)
    total = weights.sum(axis=-1, keepdims=True)
    weights = np.divide(weights, total, out=np.zeros_like(weights), where=total != 0)
    # Not weights @ v: a value that a query may not see must not reach it, not even as 0 * NaN.
    products = weights[..., None] * v[..., None, :, :]
    return np.where(allowed[..., None], products, number(0)).sum(axis=-2)
