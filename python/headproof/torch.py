"""Attention that PyTorch differentiates."""

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from headproof import _core


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                options: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        out, lse = _core.scaled_dot_product_attention(
            query.detach(), key.detach(), value.detach(), return_lse=True, **options)
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.options = options
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: torch.Tensor, _: torch.Tensor) -> tuple[Any, ...]:
        query, key, value, out, lse = (tensor.detach() for tensor in ctx.saved_tensors)
        gradients = _core.attention_backward(query, key, value, out, lse, d_out.detach(),
                                             **ctx.options)
        return (*gradients, None)


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    **options: Any,
) -> Any:
    """headproof.scaled_dot_product_attention with gradients by query, key and value.

    Shapes, options and results are the same; the gradients' bits too depend on the problem alone. A
    mask that requires grad is refused, as its gradient is not computed, lse has none, and there are
    no second derivatives.
    """
    if attn_mask is not None and attn_mask.requires_grad:
        raise ValueError("attn_mask requires grad; its gradient is not computed, hand over "
                         "attn_mask.detach()")
    if dropout_p != 0:
        raise ValueError(f"dropout_p is {dropout_p}; headproof has no dropout, it must be 0")
    # What broadcasts is expanded here, so that autograd adds its gradient up.
    tensors = [query, key, value]
    kept = 3 if enable_gqa else 2
    if all(tensor.dim() >= kept for tensor in tensors):
        leading = torch.broadcast_shapes(*(tensor.shape[:-kept] for tensor in tensors))
        tensors = [tensor.expand(*leading, *tensor.shape[-kept:]) for tensor in tensors]
    options |= {"attn_mask": attn_mask, "is_causal": is_causal, "scale": scale,
                "enable_gqa": enable_gqa}
    out, lse = _Attention.apply(*tensors, options)
    return (out, lse) if return_lse else out
