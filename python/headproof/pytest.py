"""Theorems as tests: the decorator; headproof_pytest.py, pytest's plug-in, does the rest."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from headproof import _core
from headproof._check import check, texts


@dataclass
class Theorem:
    """What a test decorated with `theorems` is handed: a theorem about a function."""

    id: str
    function: Callable[..., Any]
    options: dict[str, Any] = field(default_factory=dict)

    def check(self) -> "_core.Report":
        """Asks the function. Raises headproof.Violation where it counts, and skips the test where
        the function does not offer what the theorem needs."""
        __tracebackhide__ = True
        report = check(self.function, theorems=[self.id], **self.options)
        report.raise_for_violations()
        for found in report.theorems:
            if found.id == self.id and found.verdict in ("not applicable", "unsupported"):
                pytest.skip(f"{found.verdict}: {found.reason}")
        return report


def theorems(function: Callable[..., Any], *, only: Iterable[str] = (),
             **options: Any) -> pytest.MarkDecorator:
    """Makes a test of each theorem: the test function gets it as its argument `theorem`.

        @headproof.pytest.theorems(my_attention)
        def test_mine(theorem):
            theorem.check()

    Args:
        function: as headproof.check takes it.
        only: ids of theorems; none: all of theorem_ids().
        options: further arguments of headproof.check. `seed` and `seconds` (2 for each theorem) are
            also options of pytest's command line: --headproof-seed, --headproof-seconds.
    """
    return pytest.mark.headproof_theorems(function, only=texts("only", only), **options)


def parametrize(metafunc: pytest.Metafunc, mark: pytest.Mark) -> None:
    """Called by the plug-in for each decorated test."""
    if [own.name for own in metafunc.definition.own_markers].count(mark.name) > 1:
        pytest.fail(f"{metafunc.function.__name__} is decorated twice by headproof.pytest.theorems; a "
                    "test asks one function", pytrace=False)
    options = dict(mark.kwargs)
    ids = list(options.pop("only", ())) or _core.theorem_ids()
    for name, default in (("seed", 0), ("seconds", 2.0)):
        given = metafunc.config.getoption(f"headproof_{name}")
        options[name] = given if given is not None else options.get(name, default)
    known = _core.theorem_ids()
    for theorem in ids:
        if theorem not in known:
            pytest.fail(f"{metafunc.function.__name__}: there is no theorem {theorem!r}; there are "
                        + " ".join(known), pytrace=False)
    metafunc.parametrize("theorem", [Theorem(one, mark.args[0], options) for one in ids], ids=ids)
