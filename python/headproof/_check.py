"""The checker for a callable of this process."""

import operator
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headproof import _core
from headproof._server import Server, Stop

# What these arguments may be.
CHOICES = {"framework": ("numpy", "torch", "jax"),
           "dtype": ("float32", "float64", "float16", "bfloat16"),
           "layout": ("bhsd", "bshd")}


def check(
    function: Callable[..., Any],
    *,
    head: bool = False,
    theorems: Iterable[str] = (),
    regimes: Iterable[str] = (),
    seed: int = 0,
    seconds: float = 8.0,
    case: int | None = None,
    cases: int = 64,
    expect: Mapping[str, str] | None = None,
    expected: Mapping[str, str] | Iterable[str] = (),
    strict: bool = False,
    require_bitwise: bool = False,
    framework: str | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    layout: str = "bhsd",
) -> "_core.Report":
    """Asks an implementation of attention what follows from the theorems.

    The function runs in this process: a crash of it is a crash of the interpreter, and what never
    returns is waited for. `headproof check python:module:function` asks the same in a process of its
    own, which may do both.

    Args:
        function: function(q, k, v, is_causal=True, scale=None, ...) -> out, arrays [batch, num_heads,
            seq_len, head_dim]. It is asked for the options that its signature names
            (docs/subjects.md). What it raises, and what is no answer, is a verdict.
        head: it is a whole head, function(x, w_q, w_k, w_v, is_causal=True) -> out or (out, A).
        theorems: ids, of theorem_ids(); none: all.
        regimes: kinds of inputs; none: all.
        seed: the same seed asks the same questions.
        seconds: what it may take in all, about.
        case: this problem of each theorem only.
        cases: the problems that a theorem is tried on, at most.
        expect: conventions and the values that they must have, {"corner": "bottom_right"}.
        expected: ids of known violations, which do not count; a mapping says why each is known.
        strict: a known violation that no longer occurs counts as one.
        require_bitwise: claims about equal bits count as the others do.
        framework: what the function is handed, "numpy", "torch" or "jax"; by default the one that
            it answers, of those that are imported.
        device, dtype, layout: as the command's options of these names.

    Returns:
        A Report; report.raise_for_violations() makes an exception of what counts.

    Raises:
        ValueError, TypeError: the check is used wrongly.
    """
    for argument, given in (("framework", framework), ("dtype", dtype), ("layout", layout)):
        if given is not None and not (isinstance(given, str) and given in CHOICES[argument]):
            raise ValueError(f"{argument} is {given!r}; it must be one of "
                             + ", ".join(map(repr, CHOICES[argument])))
    kind = "head" if head else "attention"
    name = _name_of(function)
    options = {"device": device, "dtype": dtype, "layout": layout}
    if framework is None:
        framework = _framework_of(function, name, kind, options)
    server = _server(function, name, kind, framework, options)

    def replay(theorem: str, number: int) -> str:
        said = [name, f"theorems=[{theorem!r}]", f"seed={seed}", f"case={number}"]
        said += ["head=True"] if head else []
        defaults = {"device": "cpu", "dtype": "float32", "layout": "bhsd"}
        said += [f"{key}={value!r}" for key, value in options.items() if value != defaults[key]]
        if regimes:
            said.append(f"regimes={list(regimes)!r}")
        return f"headproof.check({', '.join(said)})"

    theorems, regimes = texts("theorems", theorems), texts("regimes", regimes)
    if not isinstance(expected, Mapping):
        expected = {theorem: "" for theorem in texts("expected", expected)}
    if case is not None and _whole("case", case) < 0:
        raise ValueError(f"case is {case}; it counts from 0")
    return _core._check(
        server.answer, ("head:" if head else "") + name, theorems, regimes,
        _whole("seed", seed) % 2**64, _real("seconds", seconds),
        -1 if case is None else _whole("case", case), _whole("cases", cases),
        _texts_by_text("expect", expect or {}), _texts_by_text("expected", expected), bool(strict),
        bool(require_bitwise), replay)


def texts(name: str, given: Iterable[str]) -> list[str]:
    """The argument as a list of texts; raises TypeError where it is none."""
    if isinstance(given, str):
        raise TypeError(f"{name} is the text {given!r}; it must be a list of such texts")
    listed = list(given) if isinstance(given, Iterable) else [given]
    for one in listed:
        if not isinstance(one, str):
            raise TypeError(f"{name} holds {type(one).__name__}; it must be a list of texts")
    return listed


def _texts_by_text(name: str, given: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} is {type(given).__name__}; it must be a mapping of texts to texts")
    texts(name, [*given.keys(), *given.values()])
    return dict(given)


def _whole(name: str, given: Any) -> int:
    try:
        number = operator.index(given)
    except TypeError:
        raise TypeError(f"{name} is {type(given).__name__}; it must be a whole number") from None
    if name != "seed" and abs(number) >= 2**31:
        raise ValueError(f"{name} is {number}; it must be below 2^31")
    return number


def _real(name: str, given: Any) -> float:
    try:
        return float(given)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {type(given).__name__}; it must be a number") from None


def _name_of(function: Any) -> str:
    name = getattr(function, "__name__", None) or type(function).__name__
    return name if name.isidentifier() else "function"


def _server(function: Any, name: str, kind: str, framework: str, options: Mapping[str, str]) -> Server:
    try:
        return Server(function, name, kind, framework, **options)
    except Stop as stop:
        raise ValueError(str(stop)) from None


def _framework_of(function: Any, name: str, kind: str, options: Mapping[str, str]) -> str:
    """The framework whose arrays the function answers."""
    words = " ".join(
        [str(getattr(function, "__module__", ""))]
        + [str(getattr(value, "__name__", ""))
           for value in getattr(function, "__globals__", {}).values()
           if type(value) is type(sys)]).replace(".", " ").split()
    imported = [one for one in CHOICES["framework"] if one in sys.modules]
    # Those that the function's own module speaks of come first.
    likely = sorted(imported, key=lambda one: one not in words)
    declared = getattr(function, "headproof", {})
    if isinstance(declared, dict) and "framework" in declared:
        return declared["framework"]
    for framework in likely:
        try:
            server = _server(function, name, kind, framework, options)
        except ValueError:
            continue
        sizes = "batch=1 num_heads=1 num_kv_heads=1 seq_len_q=1 seq_len_k=1 head_dim=1 value_dim=1"
        if kind == "head":
            sizes = "batch=1 seq_len=1 model_dim=1 head_dim=1"
        causal = "top_left" if server.causal or kind == "head" else "none"
        number = 8 if server.dtype == "float64" else 4
        question = f"{'head' if kind == 'head' else 'attend'} {sizes} causal={causal}\n".encode()
        if server.answer(question + bytes(4 * number)).startswith(b"ok"):
            return framework
    return likely[0]
