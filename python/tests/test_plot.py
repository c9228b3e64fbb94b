"""plot(): what it takes, and the files that it writes."""

import base64
import json
import re
import struct

import numpy as np
import pytest

import headproof


def weights(*shape):
    A = np.random.default_rng(0).random(shape).astype(np.float32)
    A = np.tril(A) if len(shape) > 1 and shape[-1] == shape[-2] else A
    return A / A.sum(-1, keepdims=True)


def data_of(page):
    """What the page draws."""
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))
    numbers = np.frombuffer(base64.b64decode(data.pop("A")), np.float32)
    return data, numbers.reshape(*(len(data[name]) for name in ("layers", "heads", "queries", "keys")))


def test_one_matrix_with_the_characters_of_a_text():
    A = weights(6, 6)
    plot = headproof.plot(A, "a b\nc<", title="T <script>")
    data, found = data_of(plot.html())
    assert (found[0, 0] == A).all() and data["causal"] is True
    assert data["keys"] == data["queries"] == ["a", "␣", "b", "⏎", "c", "<"]
    assert data["title"] == "T <script>"


def test_the_page_loads_nothing_and_no_text_gets_out_of_its_place():
    page = headproof.plot(weights(2, 2), ["</script><img src=x onerror=alert(1)>", "{{js}}"]).html()
    assert "<img src=x" not in page and page.count("</script") == 2
    assert data_of(page)[0]["keys"][1] == "{{js}}"
    page = re.sub(r'id="data">.*?</script>', "", page, flags=re.S)
    for loader in ("http:", "https:", "url(", "import(", "fetch(", "src="):
        assert loader not in page, loader


@pytest.mark.parametrize("shape, batch", [((5, 5), None), ((3, 5, 5), None), ((1, 3, 5, 5), None),
                                          ((2, 3, 5, 5), 1), ((1, 3, 2, 7), None), ((1, 1, 1, 4), 0)])
def test_shapes(shape, batch):
    A = weights(*shape)
    data, found = data_of(headproof.plot(A, batch=batch).html())
    expected = A[batch or 0] if len(shape) == 4 else A
    assert (found[0] == expected.reshape(found[0].shape)).all()
    assert data["keys"] == [str(n) for n in range(shape[-1])]


def test_a_tuple_of_layers_and_the_choice_of_some():
    attentions = tuple(weights(1, 4, 6, 6) * (n + 1) for n in range(3))
    data, found = data_of(headproof.plot(attentions, list("abcdef")).html())
    assert found.shape == (3, 4, 6, 6)
    assert all((found[n] == attentions[n][0]).all() for n in range(3))
    data, found = data_of(headproof.plot(attentions, layers=2, heads=[3, 0]).html())
    assert data["layers"] == ["2"] and data["heads"] == ["3", "0"]
    again, _ = data_of(headproof.plot(attentions, layers=np.int64(2), heads=np.array([3, 0])).html())
    assert again["layers"] == ["2"] and again["heads"] == ["3", "0"]
    assert (found[0, 0] == attentions[2][0, 3]).all() and (found[0, 1] == attentions[2][0, 0]).all()


def test_rectangles_have_labels_of_their_own():
    A = weights(2, 3)
    data, _ = data_of(headproof.plot(A, tokens=["le", "chat", "noir"], query_tokens=["the", "cat"]).html())
    assert data["queries"] == ["the", "cat"] and data["keys"][2] == "noir" and not data["causal"]


@pytest.mark.parametrize("ending, begins", [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"),
                                            ("html", b"<!doctype html>"), ("PNG", b"\x89PNG")])
@pytest.mark.parametrize("relative", [False, True])
def test_files(tmp_path, ending, begins, relative):
    A = np.stack([weights(3, 6, 6)] * 2)
    plot = headproof.plot(tuple(A), "abcdef", relative=relative)
    file = plot.save(tmp_path / f"A.{ending}")
    assert file.read_bytes().startswith(begins)
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    assert file.stat().st_mode & 0o777 == 0o666 & ~umask()


def umask():
    import os

    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path):
    plot = headproof.plot(weights(2, 2))
    with pytest.raises(ValueError, match="must end with .png, .svg, .pdf or .html"):
        plot.save(tmp_path / "A.jpeg")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(OSError):
        plot.save(tmp_path / "folder.png")
    with pytest.raises(OSError):
        plot.save(tmp_path / "absent" / "A.png")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]


def test_a_notebook_gets_a_frame_and_a_picture():
    plot = headproof.plot(weights(3, 3), ['"', "&", "'"])
    frame = plot._repr_html_()
    assert frame.startswith('<iframe sandbox="allow-scripts"')
    inner = frame[frame.index('srcdoc="') + 8:frame.rindex('"></iframe>')]
    assert '"' not in inner
    assert inner.replace("&quot;", '"').replace("&amp;", "&") == plot.html()
    png = plot._repr_png_()
    width, height = struct.unpack(">II", png[16:24])
    assert width > 100 and height > 100 and "Plot of 1 x 1" in repr(plot)


@pytest.mark.parametrize("A, options, error, sentence", [
    (None, {}, TypeError, 'A is None: fused attention keeps no weights.'),
    ((None, None), {}, TypeError, 'A[0] is None'),
    (None, {}, TypeError, 'attn_implementation="eager"'),
    # What transformers give where attention is fused.
    ((), {}, ValueError, 'A is empty: fused attention keeps no weights.'),
    (np.ones((2, 2), complex), {}, TypeError, "A is ndarray of complex128; it must be an array of real"),
    (type("Output", (), {"attentions": ()})(), {}, TypeError, "A is Output; plot its .attentions"),
    (weights(4, 4), {"title": None}, TypeError, "title is NoneType; it must be a text"),
    (weights(4, 4), {"heads": 1.0}, TypeError, "heads is float; it must be a number or a list"),
    (weights(4, 4), {"layers": ["a"]}, TypeError, "layers holds str; it must be a whole number"),
    (weights(1, 1, 4, 4), {"batch": "0"}, TypeError, "batch holds str; it must be a whole number"),
    (weights(4, 4), {"tokens": 4}, TypeError, "tokens is int; it must be a text or a list of texts"),
    (((weights(1, 1, 2, 2),),), {}, TypeError, "generate()"),
    ("text", {}, TypeError, "A is str; it must be an array"),
    (weights(4), {}, ValueError, "A has shape [4]; it must be [seq_len_q, seq_len_k]"),
    (weights(2, 3, 4, 4), {}, ValueError, "A has shape [2, 3, 4, 4], a batch of 2; batch=0 chooses"),
    (weights(2, 3, 4, 4), {"batch": 2}, ValueError, "batch is 2, and A has shape"),
    (weights(4, 4), {"batch": 1}, ValueError, "without a batch"),
    (np.zeros((0, 4)), {}, ValueError, "not empty"),
    ((weights(1, 2, 4, 4), weights(1, 2, 5, 5)), {}, ValueError, "A[1] has shape [2, 5, 5] and A[0]"),
    (weights(4, 4), {"tokens": "abc"}, ValueError, "tokens has 3 labels, and A has 4 keys"),
    (weights(4, 4), {"query_tokens": ["a"]}, ValueError, "query_tokens has 1 labels, and A has 4"),
    (weights(4, 4), {"heads": [1]}, ValueError, "heads holds 1; there are 1"),
    (weights(4, 4), {"layers": []}, ValueError, "layers is empty"),
], ids=str)
def test_what_is_wrong_is_said(A, options, error, sentence):
    with pytest.raises(error) as raised:
        headproof.plot(A, **options)
    assert sentence in str(raised.value)


def test_a_system_without_fonts_is_said(tmp_path):
    import os
    import subprocess
    import sys

    (tmp_path / "fonts.conf").write_text(
        '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">'
        f"<fontconfig><dir>{tmp_path}</dir><cachedir>{tmp_path}/cache</cachedir></fontconfig>")
    code = ("import headproof, numpy as np\n"
            "plot = headproof.plot(np.eye(2, dtype=np.float32))\n"
            "plot.save('A.html')\n"
            "try: plot.save('A.png')\n"
            "except ValueError as error: print(error)\n")
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path,
                           env={**os.environ, "FONTCONFIG_FILE": str(tmp_path / "fonts.conf")})
    assert ended.stdout.startswith("fontconfig finds no font on this system"), ended
    assert (tmp_path / "A.html").exists() and not (tmp_path / "A.png").exists()


def test_more_than_a_page_holds_is_said():
    plot = headproof.plot(np.zeros((5000, 4000), np.float32))
    with pytest.raises(ValueError, match="choose fewer layers or heads"):
        plot.html()
    assert plot._repr_html_() is None  # a notebook shows the picture


def test_labels_that_would_not_show_get_marks():
    data, _ = data_of(headproof.plot(weights(6, 6), [" ", "\n", "\u202ea", " the", "🦊", ""]).html())
    assert data["keys"] == ["␣", "⏎", "U+202Ea", " the", "🦊", ""]
    data, _ = data_of(headproof.plot(weights(2, 2), np.array([464, 50256])).html())
    assert data["keys"] == ["464", "50256"]
