"""PyTorch: tensors in and out, its meaning of every argument, gradients."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="there is no torch here")
F = torch.nn.functional

import headproof
import headproof.torch
from headproof import scaled_dot_product_attention as attention


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def normal(*shape, dtype=torch.float32, grad=False):
    return torch.randn(*shape, dtype=dtype, requires_grad=grad)


def close(found, expected, u=2.0**-24):
    # Both are right to a few hundred roundings of numbers of order 1 to 10.
    return (found.double() - expected.double()).abs().max() <= 2000 * u


def test_torch_in_torch_out_without_a_copy_of_strides():
    q = normal(2, 5, 3, 8).transpose(1, 2)
    out, lse = attention(q, q, q, return_lse=True)
    assert isinstance(out, torch.Tensor) and isinstance(lse, torch.Tensor)
    assert out.shape == q.shape and close(out, F.scaled_dot_product_attention(q, q, q))
    numpy = attention(q.numpy(), q.numpy(), q.numpy())
    assert (out.numpy() == numpy).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_dtype_comes_back(dtype):
    q, k, v = (normal(2, 3, 9, 8).to(dtype) for _ in range(3))
    out = attention(q, k, v, is_causal=True)
    assert out.dtype == dtype
    wide = attention(q.float(), k.float(), v.float(), is_causal=True)
    if dtype in (torch.float16, torch.bfloat16):
        assert torch.equal(out, wide.to(dtype))  # rounded once, ties to even
    else:
        assert close(out, F.scaled_dot_product_attention(q, k, v, is_causal=True))


def test_shapes_that_torch_takes_mean_what_they_mean_there():
    for shapes in [((5, 4), (7, 4), (7, 3)), ((2, 5, 4), (2, 7, 4), (2, 7, 3)),
                   ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 3)),
                   ((2, 2, 3, 5, 4), (2, 2, 3, 7, 4), (2, 2, 3, 7, 3)),
                   ((2, 3, 5, 4), (1, 3, 7, 4), (1, 1, 7, 3))]:
        q, k, v = (normal(*shape) for shape in shapes)
        for is_causal in (False, True):
            expected = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
            found = attention(q, k, v, is_causal=is_causal)
            assert found.shape == expected.shape and close(found, expected), shapes


def test_arguments_have_torchs_order_and_meaning():
    q, k, v = normal(2, 4, 5, 8), normal(2, 2, 5, 8), normal(2, 2, 5, 8)
    mask = torch.rand(5, 5) < 0.7
    mask |= torch.eye(5, dtype=torch.bool)
    for arguments, options in [((), {}), ((mask,), {}), ((mask, 0.0, False), {}),
                               ((None, 0.0, True), {}), ((), {"attn_mask": normal(2, 1, 5, 5)}),
                               ((), {"scale": 0.3, "is_causal": True})]:
        expected = F.scaled_dot_product_attention(q, k, v, *arguments, enable_gqa=True, **options)
        found = attention(q, k, v, *arguments, enable_gqa=True, **options)
        assert close(found, expected)


@pytest.mark.parametrize("mask", [torch.rand(5, 7) < 0.6, torch.randn(5, 7)], ids=["bool", "float"])
def test_a_mask_beside_is_causal_means_both_as_in_torch(mask):
    q, k, v = normal(2, 3, 5, 4), normal(2, 3, 7, 4), normal(2, 3, 7, 4)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=True)
    assert close(attention(q, k, v, attn_mask=mask, is_causal=True), expected)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        with pytest.raises(RuntimeError, match="Explicit attn_mask should not be set"):
            F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=True)


def test_the_signature_is_torchs():
    import re

    text = F.scaled_dot_product_attention.__doc__.split(")")[0].split("(")[1]
    theirs = [re.split("[=:]", word)[0].strip() for word in text.split(",")]
    theirs = [word for word in theirs if word not in ("", "*")]
    ours = headproof.scaled_dot_product_attention.__doc__.split(")")[0].split("(")[1]
    names = [re.split("[=:]", word)[0].strip() for word in re.sub(r"\[[^]]*\]", "", ours).split(",")]
    assert [name for name in names if name != "*"][:len(theirs)] == theirs


def test_tensors_that_cannot_be_read_are_said():
    q = normal(1, 1, 5, 4)
    for tensor, sentence in [(normal(1, 1, 5, 4, grad=True), "query requires grad"),
                             (torch.empty(1, 1, 5, 4, device="meta"), "query"),
                             (q.to_sparse(), "query"), (q.to(torch.int8), "query holds torch.int8"),
                             (torch.complex(q, q), "query holds torch.complex64")]:
        with pytest.raises((ValueError, TypeError)) as raised:
            attention(tensor, q, q)
        assert sentence in str(raised.value)
    with pytest.raises(TypeError, match="query holds float32, and key float64"):
        attention(q, q.double(), q)


OPTIONS = [{}, {"is_causal": True}, {"scale": 0.3}, {"causal": "bottom_right", "window": 3},
           {"softcap": 1.5}, {"key_length": [5, 3]}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_gradcheck(options):
    q, k, v = (normal(2, 2, n, 3, dtype=torch.float64, grad=True) for n in (4, 5, 5))
    assert torch.autograd.gradcheck(
        lambda *x: headproof.torch.attention(*x, **options), (q, k, v), fast_mode=False)


def test_gradcheck_of_masks_groups_and_what_broadcasts():
    def check(function, *shapes):
        inputs = [normal(*shape, dtype=torch.float64, grad=True) for shape in shapes]
        assert torch.autograd.gradcheck(function, inputs)

    mask = torch.rand(4, 5) < 0.6
    mask[1] = False
    attend = headproof.torch.attention
    check(lambda q, k, v: attend(q, k, v, mask), (2, 1, 4, 3), (2, 1, 5, 3), (2, 1, 5, 2))
    check(lambda q, k, v: attend(q, k, v, enable_gqa=True), (1, 4, 3, 2), (1, 2, 3, 2), (1, 2, 3, 2))
    check(attend, (2, 2, 3, 2), (1, 2, 4, 2), (4, 2))
    check(attend, (3, 2), (4, 2), (4, 2))


def test_gradients_are_torchs():
    q, k, v = (normal(2, 3, 33, 16, grad=True) for _ in range(3))
    d_out = normal(2, 3, 33, 16)
    headproof.torch.attention(q, k, v, is_causal=True).backward(d_out)
    found = [x.grad.clone() for x in (q, k, v)]
    for x in (q, k, v):
        x.grad = None
    F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(d_out)
    assert all(close(a, x.grad, 2.0**-22) for a, x in zip(found, (q, k, v)))


def test_what_has_no_gradient_is_said():
    q = normal(1, 1, 3, 2, grad=True)
    with pytest.raises(ValueError, match="attn_mask requires grad"):
        headproof.torch.attention(q, q, q, normal(3, 3, grad=True))
    with pytest.raises(ValueError, match="dropout_p is 0.5"):
        headproof.torch.attention(q, q, q, None, 0.5)
    # Also where d_out has no gradient of its own.
    gradient, = torch.autograd.grad(headproof.torch.attention(q, q, q).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        (gradient.square().sum() + q.sum()).backward()
    out = headproof.torch.attention(q, q, q)
    gradient, = torch.autograd.grad(out, q, normal(1, 1, 3, 2, grad=True), create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        gradient.sum().backward()


def test_what_gradients_are_taken_of_is_said():
    q = normal(2, 2, 4, 3)
    for arguments, error, sentence in [
            ((q.numpy(), q, q), TypeError, "query is ndarray; it must be a torch.Tensor"),
            ((q, None, q), TypeError, "key is NoneType"),
            ((q, q, q.to_sparse()), TypeError, "value, a torch.Tensor, does not export"),
            ((q[:, :1].expand(2, 4, 4, 3), q, q), ValueError, "enable_gqa=True lets heads of query"),
            ((q[:, :1].expand(2, 3, 4, 3), q, q), ValueError, "query has shape [2, 3, 4, 3] and key")]:
        with pytest.raises(error) as raised:
            headproof.torch.attention(*arguments)
        assert sentence in str(raised.value)
    mask = np.tri(4, dtype=bool)
    assert torch.equal(headproof.torch.attention(q, q, q, mask), attention(q, q, q, is_causal=True))


def test_torch_func_grad():
    q, k, v = (normal(1, 2, 4, 3) for _ in range(3))
    found = torch.func.grad(lambda x: headproof.torch.attention(x, k, v).square().sum())(q)
    q.requires_grad_()
    headproof.torch.attention(q, k, v).square().sum().backward()
    assert torch.equal(found, q.grad)


def test_a_sign_that_torch_keeps_beside_the_numbers_counts():
    q = torch.randn(1, 2, 4, 3, dtype=torch.complex64).conj().imag
    k = normal(1, 2, 4, 3)
    assert q.is_neg()
    assert torch.equal(attention(q, k, k), attention(q.clone(), k, k))
    mask = normal(4, 4)
    assert torch.equal(attention(k, k, k, torch._neg_view(mask)), attention(k, k, k, -mask))


@pytest.mark.parametrize("width", [1, 65, 2**28 - 1, 2**28, 2**31, 2**32, 2**32 + 1, 2**62])
def test_integers_are_torchs_at_every_width(width):
    torch.manual_seed(3)
    found = headproof.Generator(3).randint(-5, width - 5, (9,))
    assert (found == torch.randint(-5, width - 5, (9,)).numpy()).all()


def test_head_and_generator_beside_torch():
    torch.manual_seed(5)
    generator = headproof.Generator(5)
    assert (generator.randn(3, 40) == torch.randn(3, 40).numpy()).all()
    assert (generator.rand(7) == torch.rand(7).numpy()).all()
    assert (generator.randint(0, 65, (2, 3)) == torch.randint(0, 65, (2, 3)).numpy()).all()
    assert (generator.randperm(50) == torch.randperm(50).numpy()).all()
    x = normal(2, 5, 8)
    linear = {f"{name}.weight": torch.nn.Linear(8, 4, bias=False).weight.detach()
              for name in ("key", "query", "value")}
    out = headproof.Head.from_weights(linear, 5)(x)
    q, k, v = (x @ linear[f"{name}.weight"].T for name in ("query", "key", "value"))
    assert isinstance(out, torch.Tensor)
    assert close(out, F.scaled_dot_product_attention(q, k, v, is_causal=True))


def test_embedding_is_torchs():
    table, ids = normal(5, 3), torch.tensor([[0, 4], [2, 2]])
    assert torch.equal(headproof.embedding(ids, table), F.embedding(ids, table))
    for other in (ids.numpy().astype(np.uint8), ids.numpy().astype(">i8"), ids.flip(1).numpy()[:, ::-1]):
        assert torch.equal(headproof.embedding(other, table), F.embedding(ids, table))
    assert headproof.embedding([], table).shape == (0, 3)
    assert torch.equal(headproof.embedding(3, table), table[3])


def test_check_finds_out_that_a_function_wants_tensors():
    report = headproof.check(F.scaled_dot_product_attention, seconds=4,
                             theorems=["prop-3.1", "prop-5.1", "num-accuracy"])
    assert report.exit_code == 0, str(report)

    def broken(query, key, value, is_causal=False):
        scores = query @ key.transpose(-2, -1)
        if is_causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(2) > 0, -torch.inf)
        return scores.softmax(-1) @ value

    report = headproof.check(broken, seconds=2, theorems=["prop-5.1"])
    assert report.exit_code == 1 and "A is 0 above the diagonal" in str(report)


def test_plot_takes_what_researchers_hold():
    A = torch.rand(1, 2, 4, 4, dtype=torch.float32, requires_grad=True).tril()
    A = (A / A.sum(-1, keepdim=True)).to(torch.bfloat16)
    for wrong in (A.to("meta"), A.to(torch.complex64)):
        with pytest.raises(TypeError, match=r"^A is Tensor of torch\.\w+; it must be an array of real"):
            headproof.plot(wrong)
    assert headproof.plot(A, torch.tensor([464, 2068, 7586, 21831])).html().count("21831") >= 1
    attentions = (A, A * 1)
    assert b"PNG" in headproof.plot(attentions, list("abcd")).draw("png")[:8]
    assert headproof.plot(A[0, 0]).html()
