"""Attention matrices as pictures and as a page to explore."""

import operator
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from headproof import _core

_NO_WEIGHTS = ("fused attention keeps no weights. With Hugging Face's transformers load the model "
               'with attn_implementation="eager" and call it with output_attentions=True')


class Plot:
    """Attention matrices, ready to be shown: in a notebook by itself, elsewhere by save()."""

    def __init__(self, A: np.ndarray, layers: list[str], heads: list[str], queries: list[str],
                 keys: list[str], title: str, relative: bool):
        self._A, self._layers, self._heads = A, layers, heads
        self._queries, self._keys = queries, keys
        self._title, self._relative = title, relative

    def __repr__(self) -> str:
        layers, heads, rows, columns = self._A.shape
        return (f"<headproof.Plot of {layers} x {heads} matrices of {rows} queries and {columns} "
                "keys; .save('A.png'), or .svg, .pdf, .html>")

    def html(self) -> str:
        """A page to explore, which loads nothing from elsewhere."""
        return _core._explorer_page(self._A, self._title, self._layers, self._heads, self._queries,
                                    self._keys)

    def draw(self, format: str = "png") -> bytes:
        """A picture: the bytes of a file of the format 'png', 'svg' or 'pdf'."""
        if format not in ("png", "svg", "pdf"):
            raise ValueError(f"format is {format!r}; it must be 'png', 'svg' or 'pdf'")
        A, causal = self._A, _is_causal(self._A)
        if self._relative:
            A = A * np.count_nonzero(A, axis=-1, keepdims=True).astype(np.float32)
        return _core._draw(A, format, self._title, self._layers, self._heads, self._queries,
                           self._keys, self._relative, causal)

    def save(self, file: str | os.PathLike[str]) -> Path:
        """Writes the picture or the page, by the name's ending: .png, .svg, .pdf or .html.

        The file appears whole or not at all.
        """
        path = Path(file)
        ending = path.suffix.lower().lstrip(".")
        if ending == "html":
            content = self.html().encode()
        elif ending in ("png", "svg", "pdf"):
            content = self.draw(ending)
        else:
            raise ValueError(f"{path} must end with .png, .svg, .pdf or .html")
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.",
                                         delete=False) as made:
            try:
                made.write(content)
                made.close()
                mask = os.umask(0)
                os.umask(mask)
                os.chmod(made.name, 0o666 & ~mask)
                os.replace(made.name, path)
            except BaseException:
                os.unlink(made.name)
                raise
        return path

    def _repr_html_(self) -> str | None:
        try:
            return _core._in_frame(self.html(), "56rem", True)
        except ValueError:  # more weights than a page holds: the picture is shown alone
            return None

    def _repr_png_(self) -> bytes:
        return self.draw("png")


def plot(
    A: Any,
    tokens: Iterable[Any] | str | None = None,
    *,
    query_tokens: Iterable[Any] | str | None = None,
    batch: int | None = None,
    layers: Iterable[int] | int | None = None,
    heads: Iterable[int] | int | None = None,
    title: str = "",
    relative: bool = False,
) -> Plot:
    """Attention matrices as a picture and as a page to explore.

    In a notebook the result shows itself; plot(A, tokens).save("A.html") (or .png, .svg, .pdf)
    writes a file. Rows are queries, row 0 at the top; columns are keys.

    Args:
        A: weights [seq_len_q, seq_len_k], [num_heads, seq_len_q, seq_len_k] or [batch, num_heads,
            seq_len_q, seq_len_k], of any dtype, from NumPy, PyTorch (on any device, also where it
            requires grad) or JAX; or a sequence of such, one for each layer, as
            outputs.attentions of Hugging Face's transformers is. TransformerLens's
            cache["pattern", layer] is [batch, num_heads, seq_len_q, seq_len_k].
        tokens: a label for each key, and for each query where there are as many; a text stands for
            its characters. Without it positions are numbered.
        query_tokens: a label for each query, where those of the keys do not fit.
        batch: which element of the batch; may be left out where there is one.
        layers, heads: those to show, by number; all by default.
        title: stands above.
        relative: the picture shows n A, where n is the number of keys with a weight above 0, so that
            1 is the even share. The page has both.

    Raises:
        ValueError, TypeError: what is wrong with A, its shape, or the number of labels.
    """
    if not isinstance(title, str):
        raise TypeError(f"title is {type(title).__name__}; it must be a text")
    matrices, layer_numbers = _all_layers(A, batch)
    matrices, layer_numbers = _chosen("layers", layers, matrices, 0, layer_numbers)
    matrices, head_numbers = _chosen("heads", heads, matrices, 1, list(range(matrices.shape[1])))
    rows, columns = matrices.shape[2:]
    keys = _labels("tokens", tokens, columns)
    queries = _labels("query_tokens", query_tokens, rows)
    if query_tokens is None and rows == columns:
        queries = keys
    return Plot(np.ascontiguousarray(matrices), [str(n) for n in layer_numbers],
                [str(n) for n in head_numbers], queries, keys, _in_utf8(title), bool(relative))


def _array(A: Any, name: str) -> np.ndarray:
    """float32, on this machine, without what autograd keeps."""
    if A is None:
        raise TypeError(f"{name} is None: {_NO_WEIGHTS}")
    if hasattr(A, "attentions"):
        raise TypeError(f"{name} is {type(A).__name__}; plot its .attentions")
    try:
        if hasattr(A, "detach"):  # PyTorch
            A = A.detach().cpu().resolve_neg()
            A = A if A.is_complex() else A.float()
        found = np.asarray(A)
        # The numbers of ml_dtypes are of the kind V.
        if found.dtype.kind not in "biufV" or found.dtype.names:
            raise TypeError
        return found.astype(np.float32)
    except (TypeError, ValueError, RuntimeError, AttributeError):
        holds = f" of {A.dtype}" if hasattr(A, "dtype") else ""
        raise TypeError(f"{name} is {type(A).__name__}{holds}; it must be an array of real numbers, "
                        "or a tuple or list of one for each layer") from None


def _all_layers(A: Any, batch: int | None) -> tuple[np.ndarray, list[int]]:
    """[layers, heads, queries, keys] of one element of the batch."""
    if isinstance(A, (tuple, list)) and (not A or not np.isscalar(_first_leaf(A))):
        if not A:
            raise ValueError(f"A is empty: {_NO_WEIGHTS}")
        if isinstance(A[0], (tuple, list)):
            raise TypeError("A[0] is a tuple, as generate() gives one for each step; plot one step: "
                            "A[step]")
        each = [_one_layer(layer, f"A[{n}]", batch) for n, layer in enumerate(A)]
        for n, layer in enumerate(each):
            if layer.shape != each[0].shape:
                raise ValueError(f"A[{n}] has shape {list(layer.shape)} and A[0] "
                                 f"{list(each[0].shape)}; layers must have the same")
        return np.stack(each), list(range(len(each)))
    return _one_layer(A, "A", batch)[None], [0]


def _first_leaf(A: Any) -> Any:
    """What lies at the bottom of lists of numbers; the array in lists of arrays."""
    while isinstance(A, (tuple, list)) and A:
        A = A[0]
    return A


def _one_layer(A: Any, name: str, batch: int | None) -> np.ndarray:
    matrix = _array(A, name)
    shape = list(matrix.shape)
    if matrix.ndim == 4:
        if batch is None and shape[0] != 1:
            raise ValueError(f"{name} has shape {shape}, a batch of {shape[0]}; batch=0 chooses its "
                             "first element")
        index = 0 if batch is None else _whole("batch", batch)
        if not -shape[0] <= index < shape[0]:
            raise ValueError(f"batch is {batch}, and {name} has shape {shape}")
        matrix = matrix[index]
    elif batch is not None and _whole("batch", batch) != 0:
        raise ValueError(f"batch is {batch}, and {name} has shape {shape}, without a batch")
    if matrix.ndim == 2:
        matrix = matrix[None]
    if matrix.ndim != 3 or 0 in matrix.shape:
        raise ValueError(f"{name} has shape {shape}; it must be [seq_len_q, seq_len_k], with "
                         "[num_heads] or [batch, num_heads] before these, and not empty")
    return matrix


def _chosen(name: str, wanted: Iterable[int] | int | None, matrices: np.ndarray, axis: int,
            numbers: list[int]) -> tuple[np.ndarray, list[int]]:
    if wanted is None:
        return matrices, numbers
    try:
        chosen = [operator.index(wanted)]
    except TypeError:
        if not isinstance(wanted, Iterable):
            raise TypeError(f"{name} is {type(wanted).__name__}; it must be a number or a list of "
                            "them") from None
        chosen = [_whole(name, number) for number in wanted]
    for number in chosen:
        if not -len(numbers) <= number < len(numbers):
            raise ValueError(f"{name} holds {number}; there are {len(numbers)}, numbered from 0")
    if not chosen:
        raise ValueError(f"{name} is empty; there must be one to show")
    return np.take(matrices, chosen, axis), [numbers[number] for number in chosen]


def _labels(name: str, given: Iterable[Any] | str | None, count: int) -> list[str]:
    if given is None:
        return [str(number) for number in range(count)]
    if isinstance(given, str):
        labels = _core.visible_labels(given)
    else:
        given = given.tolist() if hasattr(given, "tolist") else given  # numbers of tokens
        if not isinstance(given, Iterable):
            raise TypeError(f"{name} is {type(given).__name__}; it must be a text or a list of texts")
        # What would show as nothing gets the marks that it has in a text.
        labels = [label if label.isprintable() and not label.isspace()
                  else "".join(_core.visible_labels(label)) for label in map(str, given)]
    if len(labels) != count:
        raise ValueError(f"{name} has {len(labels)} labels, and A has {count} "
                         + ("keys" if name == "tokens" else "queries"))
    return [_in_utf8(label) for label in labels]


def _in_utf8(text: str) -> str:
    """What is no text in UTF-8 shows as an escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def _whole(name: str, given: Any) -> int:
    try:
        return operator.index(given)
    except TypeError:
        raise TypeError(f"{name} holds {type(given).__name__}; it must be a whole number") from None


def _is_causal(A: np.ndarray) -> bool:
    return A.shape[2] == A.shape[3] > 1 and not np.triu(A, 1).any()
