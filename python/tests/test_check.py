"""check(): verdicts for right and wrong functions, and for those that are no answer."""

import json

import numpy as np
import pytest

import headproof


def right(q, k, v, is_causal=True, scale=None):
    """The definition, in which what is masked takes no part."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    with np.errstate(all="ignore"):
        return definition(q, k, v, is_causal, scale)


def definition(q, k, v, is_causal, scale):
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2).astype(np.float64) * scale
    allowed = np.ones(scores.shape[-2:], bool)
    if is_causal:
        allowed = np.tril(allowed)
    scores = np.where(allowed, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=np.finfo(np.float64).min))
    total = weights.sum(-1, keepdims=True)
    weights = np.divide(weights, total, out=np.zeros_like(weights), where=total != 0)
    products = weights[..., None] * v[..., None, :, :]
    return np.where(allowed[..., None], products, 0).sum(-2).astype(q.dtype)


def leaking(q, k, v, is_causal=True, scale=None):
    """Sees one key too far."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = q @ k.swapaxes(-1, -2) * np.float32(scale)
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], 1, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ v).astype(np.float32)


ASKED = {"theorems": ["prop-3.1", "prop-5.1", "num-accuracy"], "seconds": 3}


def test_a_right_function_breaks_nothing():
    report = headproof.check(right, seconds=4)
    assert report.exit_code == 0, str(report)
    assert [t.id for t in report.theorems] == headproof.theorem_ids()
    assert {t.verdict for t in report.theorems} <= {"holds", "not applicable", "unsupported", "differs"}
    report.raise_for_violations()


def test_our_own_attention_breaks_nothing():
    def ours(query, key, value, attn_mask=None, is_causal=False, *, scale=None, enable_gqa=False,
             window=None, softcap=0.0, key_length=None, query_offset=None, return_lse=False,
             threads=None):
        return headproof.scaled_dot_product_attention(
            query, key, value, attn_mask, causal="top_left" if is_causal else "none", scale=scale,
            enable_gqa=enable_gqa, window=window, softcap=softcap, key_length=key_length,
            query_offset=query_offset, return_lse=return_lse, threads=threads)

    report = headproof.check(ours, seconds=6, require_bitwise=True)
    assert report.exit_code == 0, str(report)
    held = [t.id for t in report.theorems if t.verdict == "holds"]
    assert len(held) >= 25, str(report)


def test_a_wrong_function_is_caught_and_the_report_says_how():
    report = headproof.check(leaking, **ASKED)
    assert report.exit_code == 1
    verdicts = {t.id: t.verdict for t in report.theorems}
    assert verdicts["prop-5.1"] == verdicts["num-accuracy"] == "violated"
    assert verdicts["prop-3.1"] == "holds"
    text = str(report)
    assert "the smallest counterexample found: 1 head, 2 queries, 2 keys, head_dim 1" in text
    assert "replay: headproof.check(leaking, theorems=['prop-5.1'], seed=0, case=" in text
    assert "1 violated" not in repr(report) and "2 violated" in repr(report)
    with pytest.raises(headproof.Violation, match="A_ij = 0 for every j > i") as raised:
        report.raise_for_violations()
    assert isinstance(raised.value, AssertionError)
    page = report._repr_html_()
    assert page.startswith('<iframe sandbox=""') and "srcdoc" in page and "prop-5.1" in page
    assert json.loads(report.json())["theorems"][0]["id"] == "prop-3.1"
    assert "<testcase" in report.junit()


def test_a_replay_asks_the_same_again():
    report = headproof.check(leaking, theorems=["prop-5.1"], seed=7)
    line = next(line for line in str(report).splitlines() if "replay:" in line)
    again = eval(line.split("replay: ")[1], {"headproof": headproof, "leaking": leaking})
    assert again.theorems[0].verdict == "violated" and again.theorems[0].cases == 1


def test_the_command_says_the_same(command, tmp_path):
    import inspect

    (tmp_path / "mine.py").write_text("import numpy as np\n\n" + inspect.getsource(leaking))
    ended = command("check", "python:mine:leaking", "--theorem", "prop-5.1", "--python",
                    __import__("sys").executable, cwd=tmp_path)
    assert ended.returncode == 1, ended.stderr
    report = str(headproof.check(leaking, theorems=["prop-5.1"]))

    def told(text):  # without times, names and replay lines
        return [line for line in text.splitlines()[1:-1] if "replay" not in line]

    assert told(ended.stdout) == told(report)


def verdict_of(function, **options):
    report = headproof.check(function, **{**ASKED, **options})
    failed = [t for t in report.theorems if t.fails]
    return report.exit_code, failed[0].reason if failed else ""


def test_what_raises_is_a_verdict():
    def raising(q, k, v, is_causal=True):
        if q.shape[2] > 1:
            raise RuntimeError("no kernel for this shape")
        return v

    code, reason = verdict_of(raising)
    assert code == 3 and "raising raised RuntimeError: no kernel for this shape" in reason


def test_whatever_is_raised_is_a_verdict():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    def mute(q, k, v, is_causal=True):
        raise Mute

    def leaves(q, k, v, is_causal=True):
        raise SystemExit("bye")

    code, reason = verdict_of(mute)
    assert code == 3 and reason.endswith("mute raised Mute")
    code, reason = verdict_of(leaves)
    assert code == 3 and reason.endswith("leaves raised SystemExit: bye")


def test_what_returns_nothing_is_a_verdict():
    code, reason = verdict_of(lambda q, k, v, is_causal=True: None)
    assert code == 3 and "returned NoneType as out; it must be an array of numpy" in reason


def test_a_wrong_shape_is_a_verdict():
    code, reason = verdict_of(lambda q, k, v, is_causal=True: np.zeros((2, 7), np.float32))
    assert code == 3 and "returned out of shape [" in reason and "it must be [" in reason


def test_a_wrong_dtype_is_a_verdict():
    code, reason = verdict_of(lambda q, k, v, is_causal=True: q.astype(np.float64))
    assert code == 3 and "returned out in float64, though it was given float32" in reason


def test_changed_inputs_are_a_verdict():
    def mutating(q, k, v, is_causal=True, scale=None):
        out = right(q, k, v, is_causal, scale)
        q *= 2
        return out

    report = headproof.check(mutating, seconds=4)
    assert report.exit_code == 1
    wrong = {t.id: t.reason for t in report.theorems if t.fails}
    assert any("input" in reason or "changed" in reason for reason in wrong.values()), wrong


def test_what_says_that_it_is_not_supported_is_no_fault():
    def picky(q, k, v, is_causal=True):
        if q.shape[0] > 1:
            raise NotImplementedError("one sequence at a time")
        return right(q, k, v, is_causal)

    report = headproof.check(picky, theorems=["num-accuracy", "num-batch-invariance"])
    assert report.exit_code == 0, str(report)
    assert "batches" in str(report).split("does not offer")[1]


def test_the_keyboard_gets_through():
    calls = []

    def pressed(q, k, v, is_causal=True):
        calls.append(1)
        if len(calls) > 5:
            raise KeyboardInterrupt
        return right(q, k, v, is_causal)

    with pytest.raises(KeyboardInterrupt):
        headproof.check(pressed)


def test_a_head():
    def head(x, w_q, w_k, w_v, is_causal=True):
        with np.errstate(all="ignore"):
            q, k, v = (np.swapaxes(w @ x.swapaxes(-1, -2), -1, -2) for w in (w_q, w_k, w_v))
        return right(q[:, None], k[:, None], v[:, None], is_causal)[:, 0]

    def swapped(x, w_q, w_k, w_v, is_causal=True):
        return head(x, w_k, w_q, w_v, is_causal)

    assert headproof.check(head, head=True, seconds=4).exit_code == 0
    assert headproof.check(swapped, head=True, seconds=4).exit_code == 1


def test_expectations_and_known_violations():
    report = headproof.check(leaking, expected={"prop-5.1": "issue 12", "num-accuracy": ""}, **ASKED)
    assert report.exit_code == 0
    assert {t.verdict for t in report.theorems} == {"holds", "expected"}
    strict = headproof.check(leaking, expected=["prop-3.1"], strict=True, **ASKED)
    assert strict.exit_code == 1 and "prop-3.1 is listed as violated and holds" in str(strict)
    report = headproof.check(right, expect={"empty_row": "nan"}, theorems=["prop-3.1"])
    assert report.theorems[-1].id == "expect-empty_row"


@pytest.mark.parametrize("options, sentence", [
    ({"theorems": ["prop-9.9"]}, "theorems holds 'prop-9.9'; there are prop-3.1"),
    ({"theorems": "prop-3.1"}, "theorems is the text 'prop-3.1'"),
    ({"regimes": ["odd"]}, "regimes holds 'odd'; there are gaussian"),
    ({"expect": {"corner": "left"}}, "expect holds {'corner': 'left'}"),
    ({"expected": ["prop-9.9"]}, "expected holds 'prop-9.9'"),
    ({"seconds": 0}, "seconds is"),
    ({"cases": 0}, "cases is 0"),
    ({"cases": 1.5}, "cases is float; it must be a whole number"),
    ({"case": -1}, "case is -1; it counts from 0"),
    ({"case": 2**31}, "case is 2147483648"),
    ({"seed": "a"}, "seed is str; it must be a whole number"),
    ({"seconds": "a"}, "seconds is str; it must be a number"),
    ({"theorems": [3]}, "theorems holds int; it must be a list of texts"),
    ({"regimes": 3}, "regimes holds int; it must be a list of texts"),
    ({"expect": ["corner"]}, "expect is list; it must be a mapping"),
    ({"expected": {"prop-5.1": 12}}, "expected holds int"),
    ({"dtype": "int8"}, "dtype is 'int8'; it must be one of 'float32'"),
    ({"dtype": np.float32}, "dtype is <class 'numpy.float32'>; it must be one of"),
    ({"layout": "bsd"}, "layout is 'bsd'; it must be one of 'bhsd', 'bshd'"),
    ({"framework": "pandas"}, "framework is 'pandas'"),
    ({"framework": "numpy", "device": "cuda"}, "NumPy knows the device cpu alone"),
    ({"framework": "numpy", "dtype": "bfloat16"}, "NumPy has no bfloat16"),
], ids=str)
def test_wrong_use_is_said(options, sentence):
    with pytest.raises((ValueError, TypeError)) as raised:
        headproof.check(right, **options)
    assert sentence in str(raised.value)


def declaring(what):
    def function(q, k, v):
        return v

    function.headproof = what
    return function


def test_numbers_of_numpy_are_numbers():
    report = headproof.check(leaking, theorems=["prop-5.1"], seed=np.int64(3), case=np.int32(0))
    assert report.seed == 3 and report.theorems[0].cases == 1


@pytest.mark.parametrize("function, sentence", [
    (3, "it is int"),
    (declaring(5), "function.headproof is 5; it must be a dict"),
    (declaring({"head_dims": 16}), "['head_dims'] is 16; it must be a tuple of whole numbers"),
    (lambda q, k: q, "names 2 parameters; it must take at least q, k and v"),
    (lambda q, k, v, mystery: q, "needs a value for 'mystery'"),
], ids=["no function", "no dict", "no tuple", "two", "mystery"])
def test_what_cannot_be_asked_is_said(function, sentence):
    with pytest.raises(ValueError) as raised:
        headproof.check(function)
    assert sentence in str(raised.value)
