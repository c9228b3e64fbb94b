"""What the tests share: where data lie, and the definition of attention in float64."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

SOURCE = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("HEADPROOF_SHARED", SOURCE.parent / "shared"))


@pytest.fixture(scope="session")
def shared():
    """The folder with tensors of PyTorch and cases of others."""
    if not SHARED.is_dir():
        pytest.skip(f"there is no folder {SHARED}; HEADPROOF_SHARED may name another")
    return SHARED


@pytest.fixture(scope="session")
def command():
    """Runs the command `headproof`, which HEADPROOF_BINARY names, or that of PATH."""
    binary = os.environ.get("HEADPROOF_BINARY", "headproof")

    def run(*arguments, **options):
        return subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True,
                              **options)

    try:
        run("--version")
    except FileNotFoundError:
        pytest.skip(f"there is no command {binary}; HEADPROOF_BINARY may name it")
    return run


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def definition(q, k, v, allowed=None, scale=None, bias=None):
    """(out, A) of softmax(mask(scale q k^T + bias)) v in float64; a row that sees nothing is 0."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    logits = scale * (q @ np.swapaxes(k, -1, -2))
    if bias is not None:
        logits = logits + bias
    allowed = np.broadcast_to(True if allowed is None else allowed, logits.shape)
    logits = np.where(allowed, logits, -np.inf)
    largest = logits.max(-1, keepdims=True, initial=-np.finfo(np.float64).max)
    weights = np.exp(logits - largest)
    total = weights.sum(-1, keepdims=True)
    A = np.divide(weights, total, out=np.zeros_like(weights), where=total != 0)
    return A @ v, A


def bound(q, k, v, u=2.0**-24):
    """How far out in that precision may be from the definition, for inputs of ordinary size: scores
    off by (d + 3) u times their terms, and as many roundings of sums as keys
    (docs/kernel.md)."""
    q, k, v = (np.abs(np.asarray(x, np.float64)) for x in (q, k, v))
    d, n = q.shape[-1], k.shape[-2]
    logits = q.max(initial=0) * k.max(initial=0) * d * d**-0.5
    return u * (4 * (d + 3) * logits + 2 * min(n, 1072) + 60) * max(v.max(initial=0), 1e-30)
