"""Theorems as tests of pytest."""

import subprocess
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec

import pytest

pytest_plugins = ["pytester"]

# Installed, the package brings its plug-in along; run from the build, it has no entry points.
INSTALLED = any(one.value == "headproof_pytest" for one in entry_points(group="pytest11"))
PLUGIN = [] if INSTALLED else ["-p", "headproof_pytest"]

MINE = """
import numpy as np
import pytest
import headproof

def attention(q, k, v, is_causal=True, scale=None):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = q @ k.swapaxes(-1, -2) * np.float32(scale)
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], {corner}, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ v).astype(np.float32)

@headproof.pytest.theorems(attention, only=["prop-3.1", "prop-5.1", "num-gradient"], seconds=1)
def test_mine(theorem):
    theorem.check()

@headproof.pytest.theorems(attention, only=["prop-5.1"], seconds=1)
@pytest.mark.xfail(strict=True)
def test_known(theorem):
    theorem.check()
"""


@pytest.fixture
def run(pytester):
    def run_pytest(*arguments, corner=0):
        pytester.makepyfile(test_it=MINE.format(corner=corner))
        return pytester.runpytest_subprocess(*PLUGIN, "-rs", *arguments)

    return run_pytest


def test_ids_are_the_theorems(run):
    listed = run("--collect-only", "-q")
    listed.stdout.fnmatch_lines(["test_it.py::test_mine[[]prop-3.1[]]",
                                 "test_it.py::test_mine[[]prop-5.1[]]",
                                 "test_it.py::test_mine[[]num-gradient[]]",
                                 "test_it.py::test_known[[]prop-5.1[]]"])


def test_right_attention_passes_and_what_it_does_not_offer_is_skipped(run):
    ended = run("-k", "test_mine")
    ended.assert_outcomes(passed=2, skipped=1, deselected=1)
    ended.stdout.fnmatch_lines(["*not applicable: the subject does not offer backward*"])


def test_wrong_attention_fails_with_the_report_and_no_traceback_of_ours(run):
    ended = run(corner=1)
    ended.assert_outcomes(passed=1, failed=1, skipped=1, xfailed=1)
    text = ended.stdout.str()
    assert "the smallest counterexample found: 1 head, 2 queries, 2 keys" in text
    assert "raise_for_violations" not in text


def test_k_lf_junit_and_xdist(run, pytester):
    ended = run("-k", "test_mine and prop-5", "--junitxml=out.xml", corner=1)
    ended.assert_outcomes(failed=1, deselected=3)
    assert 'name="test_mine[prop-5.1]"' in (pytester.path / "out.xml").read_text()
    run("--lf", corner=1).assert_outcomes(failed=1)
    if find_spec("xdist"):
        run("-n", "2", corner=1).assert_outcomes(passed=1, failed=1, skipped=1, xfailed=1)


def test_options_of_the_command_line(run, pytester):
    ended = run("-k", "test_mine and prop-5", "--headproof-seed=7", "--headproof-seconds=0.5", corner=1)
    assert "seed=7, case=" in ended.stdout.str()


def test_an_unknown_theorem_is_said(pytester):
    pytester.makepyfile("import headproof\n"
                        "@headproof.pytest.theorems(print, only=['prop-9.9'])\n"
                        "def test_it(theorem): pass\n")
    ended = pytester.runpytest_subprocess(*PLUGIN)
    ended.stdout.fnmatch_lines(["*there is no theorem 'prop-9.9'; there are prop-3.1*"])
    assert "headproof_pytest.py" not in ended.stdout.str()  # no traceback of ours
    pytester.makepyfile("import headproof\n"
                        "@headproof.pytest.theorems(print, only='prop-5.1')\n"
                        "def test_it(theorem): pass\n")
    ended = pytester.runpytest_subprocess(*PLUGIN)
    ended.stdout.fnmatch_lines(["*TypeError: only is the text 'prop-5.1'; it must be a list*"])
    pytester.makepyfile("import headproof\n"
                        "@headproof.pytest.theorems(print, only=['prop-5.1'])\n"
                        "@headproof.pytest.theorems(print, only=['prop-3.1'])\n"
                        "def test_it(theorem): pass\n")
    ended = pytester.runpytest_subprocess(*PLUGIN)
    ended.stdout.fnmatch_lines(["*test_it is decorated twice by headproof.pytest.theorems*"])


def test_the_plugin_costs_nothing_where_it_is_not_used():
    code = ("import sys, headproof_pytest\n"
            "assert not {'headproof', 'numpy', 'pytest'} & set(sys.modules)")
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_importing_headproof_imports_no_framework():
    code = ("import sys, headproof\n"
            "assert not {'torch', 'jax', 'pytest', 'onnxruntime'} & set(sys.modules)\n"
            "try: headproof.nothing\n"
            "except AttributeError as error: assert 'nothing' in str(error)\n")
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
