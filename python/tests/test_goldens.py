"""Random numbers and the head are those of PyTorch, as the goldens have them."""

import json

import numpy as np
import pytest

import headproof
from headproof import Generator


@pytest.fixture
def golden(shared):
    folder = shared / "goldens" / "seed_0"
    names = {path.stem[4:]: path for path in folder.glob("*.npy")}
    return lambda name: np.load(names[name])


def test_streams_have_pytorchs_bits(shared):
    folder = shared / "goldens" / "rng_units"
    seen = 0
    for path in sorted(folder.glob("*.npy")):
        expected = np.load(path)
        generator, name = Generator(0), path.stem
        if name == "randn_4_8_32":  # what the head reads, drawn after its weights
            headproof.Head(32, 16, 8, generator)
            found = generator.randn(4, 8, 32)
        elif name.startswith("randn_"):
            sizes = [int(n) for n in name.split("_")[1:]]
            found = generator.randn(*sizes)
        elif name.startswith("after_"):
            generator.randn(int(name.split("_")[1]))
            found = generator.randint(0, 1000, 1)
        elif name == "cache_5_4_16_3":
            found = np.concatenate([generator.randn(n) for n in (5, 4, 16, 3)])
        elif name == "seed_m1_rand":
            found = generator.manual_seed(-1).rand(expected.shape)
        elif name.startswith("randperm_"):
            found = generator.randperm(int(name.split("_")[1]))
        elif name == "randint_big":
            found = generator.randint(0, 2**33 + 5, expected.shape)
        elif name == "randint_65_8":
            found = generator.randint(0, 65, 8)
        elif name == "emb_8_32":
            found = generator.randn(8, 32)
        else:
            continue  # weights of linear layers, which a head draws
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.reshape(found.shape).tobytes(), name
        seen += 1
    assert seen >= 25


def test_the_head_has_pytorchs_weights_and_its_results(golden):
    generator = Generator(0)
    head = headproof.Head(32, 16, 8, generator)
    for name in ("key", "query", "value"):
        assert (head.weights[f"{name}.weight"] == golden(f"head_{name}")).all()
    x = generator.randn(4, 8, 32)
    assert (x == golden("x")).all()
    assert head.A.size == 0
    out = head(x)
    # What another back end may differ by: goldens/README.md.
    assert np.abs(out - golden("out")).max() <= 1e-6
    assert np.abs(head.A - golden("A")).max() <= 5e-7
    for name, method in (("q", head.query), ("k", head.key), ("v", head.value)):
        assert np.abs(method(x) - golden(name)).max() <= 2e-6
    again = headproof.Head.from_weights(head.weights, 8)
    assert (again(x) == out).all() and (again.A == head.A).all() and again.causal


def test_every_head_of_the_text_has_pytorchs_A(golden):
    x = golden("xin")
    for seed in range(5):
        head = headproof.Head(32, 16, 48, Generator(seed))
        head(x)
        assert np.abs(head.A[0] - golden(f"h_seed{seed}_A").reshape(48, 48)).max() <= 5e-7


def test_the_text_is_encoded_as_the_notebook_does(shared, golden):
    path = shared / "data" / "tinyshakespeare.txt"
    text = path.read_text(encoding="utf-8")
    words = headproof.Vocabulary(text)
    assert len(words) == 65 and len(text) == 1_115_394
    ids = words.encode(text[:48])
    assert (ids == golden("token_ids_48").ravel()).all() and words.decode(ids) == text[:48]
    x = headproof.embedding(ids, golden("tok_emb")) + golden("pos_emb")
    assert (x == golden("xin").reshape(x.shape)).all()


def test_gradients_of_the_attention_inside_the_head(golden):
    q, k, v = (golden(name) for name in "qkv")
    out, lse = headproof.scaled_dot_product_attention(q, k, v, is_causal=True, return_lse=True)
    d_out = np.zeros_like(out)
    d_out[0, 3] = 1
    gradients = headproof.attention_backward(q, k, v, out, lse, d_out, is_causal=True)
    d_x = sum(d @ golden(f"head_{name}") for d, name in zip(gradients, ("query", "key", "value")))
    assert np.abs(d_x - golden("xg_grad")).max() <= 5e-7
    assert (d_x[0, 4:] == 0).all() and (d_x[1:] == 0).all()


def test_the_manifest_counts_what_is_there(shared):
    folder = shared / "goldens" / "seed_0"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert len(manifest["tensors"]) == len(list(folder.glob("*.npy")))


def test_words_without_any_folder():
    words = headproof.Vocabulary("a’b\nö😀")
    assert len(words) == 6
    assert words.decode(words.encode("😀a\n’")) == "😀a\n’"
    assert words.decode([]) == ""
    assert headproof.visible_labels(" \n\x01a") == ["␣", "⏎", "U+0001", "a"]
    assert len(headproof.default_text()) > 48
    assert Generator(3).randn(2, 3).shape == Generator(3).randn((2, 3)).shape == (2, 3)
    assert Generator(3).rand().shape == ()
