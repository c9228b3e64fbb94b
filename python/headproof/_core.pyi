"""Types of the extension module; the docstrings are in it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

# An array of NumPy, PyTorch, JAX, or anything with DLPack or the buffer protocol; results are of
# the library that came in.
ArrayLike = Any
Corner = Literal["none", "top_left", "bottom_right"]

__version__: str

def scaled_dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    attn_mask: ArrayLike | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    causal: Corner | None = None,
    query_offset: int | None = None,
    window: int | None = None,
    window_right: int | None = None,
    softcap: float = 0.0,
    first_key: ArrayLike | Sequence[int] | None = None,
    key_length: ArrayLike | Sequence[int] | None = None,
    return_lse: bool = False,
    threads: int | None = None,
) -> Any: ...
def attention_backward(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    out: ArrayLike,
    lse: ArrayLike,
    d_out: ArrayLike,
    attn_mask: ArrayLike | None = None,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    causal: Corner | None = None,
    query_offset: int | None = None,
    window: int | None = None,
    window_right: int | None = None,
    softcap: float = 0.0,
    first_key: ArrayLike | Sequence[int] | None = None,
    key_length: ArrayLike | Sequence[int] | None = None,
    threads: int | None = None,
) -> tuple[Any, Any, Any]: ...

class KvCache:
    def __init__(
        self,
        batch: int,
        num_kv_heads: int,
        head_dim: int,
        value_dim: int,
        *,
        first_key: ArrayLike | Sequence[int] | None = None,
        dtype: Literal["float32", "float64"] = "float32",
    ) -> None: ...
    def append(self, key: ArrayLike, value: ArrayLike) -> None: ...
    def attend(
        self,
        query: ArrayLike,
        attn_mask: ArrayLike | None = None,
        *,
        scale: float | None = None,
        causal: Corner = "bottom_right",
        query_offset: int | None = None,
        window: int | None = None,
        window_right: int | None = None,
        softcap: float = 0.0,
        key_length: ArrayLike | Sequence[int] | None = None,
        return_lse: bool = False,
        threads: int | None = None,
    ) -> Any: ...
    def __len__(self) -> int: ...
    def truncate(self, size: int) -> None: ...
    def reserve(self, size: int) -> None: ...
    @property
    def dtype(self) -> str: ...

class Generator:
    def __init__(self, seed: int = 0) -> None: ...
    def manual_seed(self, seed: int) -> Generator: ...
    def randn(self, *size: int | Sequence[int]) -> NDArray[np.float32]: ...
    def rand(self, *size: int | Sequence[int]) -> NDArray[np.float32]: ...
    def randint(self, low: int, high: int, size: int | Sequence[int]) -> NDArray[np.int64]: ...
    def randperm(self, n: int) -> NDArray[np.int64]: ...

class Head:
    def __init__(
        self,
        model_dim: int,
        head_dim: int,
        max_seq_len: int,
        generator: Generator,
        causal: bool = True,
    ) -> None: ...
    @staticmethod
    def from_weights(
        weights: Mapping[str, ArrayLike], max_seq_len: int, causal: bool = True
    ) -> Head: ...
    def __call__(self, x: ArrayLike) -> Any: ...
    @property
    def A(self) -> NDArray[np.float32]: ...
    @property
    def causal(self) -> bool: ...
    @property
    def weights(self) -> dict[str, NDArray[np.float32]]: ...
    def key(self, x: ArrayLike) -> Any: ...
    def query(self, x: ArrayLike) -> Any: ...
    def value(self, x: ArrayLike) -> Any: ...

class Vocabulary:
    def __init__(self, text: str) -> None: ...
    def __len__(self) -> int: ...
    def encode(self, text: str) -> NDArray[np.int64]: ...
    def decode(self, ids: ArrayLike | Iterable[int]) -> str: ...

def default_text() -> str: ...
def visible_labels(text: str) -> list[str]: ...

class Violation(AssertionError): ...

class TheoremReport:
    @property
    def id(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def statement(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def fails(self) -> bool: ...
    @property
    def cases(self) -> int: ...
    @property
    def used(self) -> float: ...

class Report:
    @property
    def subject(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def theorems(self) -> list[TheoremReport]: ...
    @property
    def exit_code(self) -> int: ...
    def json(self) -> str: ...
    def junit(self) -> str: ...
    def html(self) -> str: ...
    def raise_for_violations(self) -> None: ...

def theorem_ids() -> list[str]: ...
def _check(
    answer: Callable[[bytes], bytes],
    name: str,
    theorems: list[str],
    regimes: list[str],
    seed: int,
    seconds: float,
    case_number: int,
    cases: int,
    expect: dict[str, str],
    expected: dict[str, str],
    strict: bool,
    require_bitwise: bool,
    replay: Callable[[str, int], str],
) -> Report: ...
def _draw(
    A: NDArray[np.float32],
    format: str,
    title: str,
    layers: list[str],
    heads: list[str],
    queries: list[str],
    keys: list[str],
    relative: bool,
    causal: bool,
) -> bytes: ...
def _explorer_page(
    A: NDArray[np.float32],
    title: str,
    layers: list[str],
    heads: list[str],
    queries: list[str],
    keys: list[str],
) -> str: ...
def _in_frame(page: str, height: str, scripted: bool) -> str: ...
