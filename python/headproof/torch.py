"""Attention that PyTorch differentiates."""

from typing import Any

import torch

from headproof import _core


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                options: dict[str, Any]) -> Any:
        return _core.scaled_dot_product_attention(
            query.detach(), key.detach(), value.detach(), return_lse=True, **options)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        *tensors, ctx.options = inputs
        ctx.save_for_backward(*tensors, *output)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, d_out: torch.Tensor, _: torch.Tensor) -> tuple[Any, ...]:
        return (*_Gradients.apply(*ctx.saved_tensors, d_out, ctx.options), None)


class _Gradients(torch.autograd.Function):
    """A step of its own, so that whoever differentiates it again is told."""

    @staticmethod
    def forward(*inputs: Any) -> Any:
        *tensors, options = inputs
        return _core.attention_backward(*(tensor.detach() for tensor in tensors), **options)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError("headproof.torch.attention has no second derivatives")


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
    mask that requires grad is refused, as its gradient is not computed, lse has none, and asking for
    second derivatives raises RuntimeError.
    """
    tensors = [query, key, value]
    for name, tensor in zip(("query", "key", "value"), tensors):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} is {type(tensor).__name__}; it must be a torch.Tensor")
    if getattr(attn_mask, "requires_grad", False):
        raise ValueError("attn_mask requires grad; its gradient is not computed, hand over "
                         "attn_mask.detach()")
    if dropout_p != 0:
        raise ValueError(f"dropout_p is {dropout_p}; headproof has no dropout, it must be 0")
    # What broadcasts is expanded here, so that autograd adds its gradient up.
    kept = 3 if enable_gqa else 2
    try:
        if all(tensor.dim() >= kept for tensor in tensors):
            leading = torch.broadcast_shapes(*(tensor.shape[:-kept] for tensor in tensors))
            tensors = [tensor.expand(*leading, *tensor.shape[-kept:]) for tensor in tensors]
    except RuntimeError:
        pass  # the call below says which do not fit, or are no plain tensors
    options |= {"attn_mask": attn_mask, "is_causal": is_causal, "scale": scale,
                "enable_gqa": enable_gqa}
    out, lse = _Attention.apply(*tensors, options)
    return (out, lse) if return_lse else out
