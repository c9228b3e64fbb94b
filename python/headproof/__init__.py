"""Fast exact attention, a checker for any other, and pictures of attention matrices.

Arrays are NumPy's, or of any library with DLPack or the buffer protocol; docs/python.md is the
guide. headproof.torch differentiates, headproof.pytest makes tests of theorems, headproof.subjects
holds attention of others to be checked: each is imported by name, where its library is installed.
"""

from typing import TYPE_CHECKING

from headproof._check import check
from headproof._core import (
    Generator,
    Head,
    KvCache,
    Report,
    TheoremReport,
    Violation,
    Vocabulary,
    __version__,
    attention_backward,
    default_text,
    scaled_dot_product_attention,
    theorem_ids,
    visible_labels,
)
from headproof._embedding import embedding
from headproof._plot import Plot, plot

__all__ = [
    "Generator",
    "Head",
    "KvCache",
    "Plot",
    "Report",
    "TheoremReport",
    "Violation",
    "Vocabulary",
    "__version__",
    "attention_backward",
    "check",
    "default_text",
    "embedding",
    "plot",
    "scaled_dot_product_attention",
    "theorem_ids",
    "visible_labels",
]

if TYPE_CHECKING:
    from headproof import pytest, subjects, torch
else:
    def __getattr__(name):
        # `import headproof` is enough for `headproof.pytest.theorems` and
        # `headproof.torch.attention`, and imports neither pytest nor torch.
        if name in ("pytest", "subjects", "torch"):
            import importlib

            return importlib.import_module(f"headproof.{name}")
        raise AttributeError(f"module 'headproof' has no attribute '{name}'")
