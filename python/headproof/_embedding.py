"""Rows of a table by their numbers."""

from typing import Any

import numpy as np


def embedding(input: Any, weight: Any) -> Any:
    """weight[input]: the vectors of ids, as torch.nn.functional.embedding gives them.

    Args:
        input: integers of any shape [...], each from 0 to num_embeddings - 1.
        weight: [num_embeddings, dim]; Generator.randn(num_embeddings, dim) draws it as
            torch.nn.Embedding does.

    Returns:
        [..., dim], an array of weight's library and dtype.

    Raises:
        ValueError: names the first id that is out of range; a negative one does not count from the
            end.
        TypeError: ids are no integers, or weight is no array.
    """
    ids = whole_numbers("input", input)
    if not hasattr(weight, "shape") or not hasattr(weight, "__getitem__"):
        raise TypeError(f"weight is {type(weight).__name__}; it must be an array")
    if len(weight.shape) != 2:
        raise ValueError(
            f"weight has shape {list(weight.shape)}; it must be [num_embeddings, dim]")
    count = int(weight.shape[0])
    outside = np.argwhere((ids < 0) | (ids >= count))
    if len(outside):
        place = tuple(int(at) for at in outside[0])
        raise ValueError(f"input{list(place)} is {ids[place]}; weight has rows 0 to {count - 1}")
    # As a library that is not NumPy takes them: dense, in this machine's order of bytes.
    return weight[np.ascontiguousarray(ids, np.int64).reshape(ids.shape)]


def whole_numbers(name: str, given: Any) -> np.ndarray:
    """The argument as an array of integers."""
    try:
        numbers = np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} is no array of whole numbers: {error}") from None
    if numbers.size == 0 and isinstance(given, (list, tuple)):
        return numbers.astype(np.int64)
    if numbers.dtype.kind not in "iu":
        raise TypeError(f"{name} holds {numbers.dtype}; it must hold whole numbers")
    return numbers
