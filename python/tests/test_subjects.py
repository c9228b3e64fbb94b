"""Attention of others, ready to be checked, through the command and in this process."""

import sys
from importlib.util import find_spec

import pytest

import headproof

NEEDS = {"torch_sdpa": ["torch"], "torch_math": ["torch"], "jax_attention": ["jax"],
         "onnxruntime_attention": ["onnxruntime", "onnx"], "numpy_attention": ["numpy"]}


def needs(name):
    for module in NEEDS[name]:
        if find_spec(module) is None:
            pytest.skip(f"there is no {module} here")


# The command is told of jax too, whose start takes seconds.
@pytest.mark.parametrize("name", NEEDS)
def test_the_command_checks_them_by_name(command, name):
    needs(name)
    ended = command("check", f"python:headproof.subjects:{name}", "--python", sys.executable,
                    "--theorem", "prop-3.1", "--theorem", "prop-5.1", "--seconds", "4")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "2 theorems: 2 hold" in ended.stdout


@pytest.mark.parametrize("name", NEEDS)
def test_check_takes_them(name):
    needs(name)
    report = headproof.check(getattr(headproof.subjects, name), theorems=["prop-5.1"], seconds=2)
    assert report.exit_code == 0 and report.theorems[0].verdict == "holds", str(report)
