"""Fused functions equal their references: values, gradients and dropout masks."""

import pytest
import torch
from torch.nn import functional as F

from headwise.backends.pytorch.cpu_autograd import (
    apply_mask,
    draw_mask,
    masked_dropout,
)
from headwise.backends.pytorch.fused_attention import (
    MAX_KEYS_BY_MATMUL,
    MIN_KEYS_FOR_TORCH,
    attention_by_matmul,
    fused_attention,
    row_softmax,
    softmax_gradient,
)
from headwise.backends.pytorch.install_fused import install, use_backend
from headwise.model.add_and_norm import AddAndNorm
from headwise.model.attention import scaled_dot_product_attention

EXACT = {"rtol": 1e-12, "atol": 1e-12}
ROUGH = {"rtol": 0.05, "atol": 0.05}
"""bfloat16 has 8 bits."""

MASKS = {
    "nothing hidden": None,
    "padding": torch.tensor([[True] * 5, [True] * 3 + [False] * 2])[:, None, None, :],
    "the future": torch.ones(5, 5, dtype=torch.bool).tril()[None, None],
}
MASKED = pytest.mark.parametrize("mask", MASKS)


def heads(dtype=torch.float64):
    """Queries and keys of 4 channels, values of 3; 2 rows, 3 heads, 5 positions."""
    return [
        torch.randn(2, 5, 3, width, dtype=torch.float64)
        .to(dtype)
        .transpose(1, 2)
        .requires_grad_()
        for width in (4, 4, 3)
    ]


def with_gradients(function, inputs):
    """Return the value of ``function``, and gradients for some gradient from above."""
    out = function(*inputs)
    above = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).to(out.dtype)
    return [out, *torch.autograd.grad(out, inputs, above.view(out.shape))]


@MASKED
def test_attention_by_matmul_equals_equation_1(mask):
    inputs = heads()

    ours = with_gradients(lambda *x: attention_by_matmul(*x, MASKS[mask], 0.0), inputs)
    plain = with_gradients(
        lambda *x: scaled_dot_product_attention(*x, MASKS[mask], 0.0), inputs
    )

    for mine, theirs in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, theirs, **EXACT)


@MASKED
def test_gradients_of_attention_equal_finite_differences(mask):
    assert torch.autograd.gradcheck(
        lambda *x: attention_by_matmul(*x, MASKS[mask], 0.0), heads()
    )


@MASKED
def test_attention_in_bfloat16_is_near_that_in_float64(mask):
    exact = heads()
    rough = [x.detach().to(torch.bfloat16).requires_grad_() for x in exact]

    near = with_gradients(lambda *x: attention_by_matmul(*x, MASKS[mask], 0.0), rough)
    true = with_gradients(
        lambda *x: scaled_dot_product_attention(*x, MASKS[mask], 0.0), exact
    )

    for mine, theirs in zip(near, true, strict=True):
        torch.testing.assert_close(mine.double(), theirs, **ROUGH)


@MASKED
def test_attention_dropout_applies_to_the_attention_weights(mask):
    """With the very mask that is drawn, as Equation 1 written out has it."""
    inputs, hidden = heads(), MASKS[mask]
    ones = torch.eye(5, dtype=torch.float64).expand(2, 3, 5, 5)

    def by_hand(queries, keys, values):
        torch.manual_seed(7)
        weights = scaled_dot_product_attention(queries, keys, ones, hidden, 0.0)
        kept = draw_mask(weights.detach(), 0.4)
        return (weights * kept / 0.6) @ values

    def ours(*x):
        torch.manual_seed(7)
        return attention_by_matmul(*x, hidden, 0.4)

    pairs = zip(
        with_gradients(ours, inputs), with_gradients(by_hand, inputs), strict=True
    )
    for mine, theirs in pairs:
        torch.testing.assert_close(mine, theirs, **EXACT)


def test_a_fully_masked_query_gets_zeros_in_training_too():
    mask = MASKS["padding"].clone()
    mask[1] = False
    inputs = heads()

    out, *gradients = with_gradients(lambda *x: fused_attention(*x, mask, 0.0), inputs)

    assert (out[1] == 0).all()
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("length", [1, 5, MIN_KEYS_FOR_TORCH, 20])
def test_the_softmax_of_short_rows_is_a_softmax(length):
    """Far scores too: e^1000 is no number, and what is forbidden weighs nothing."""
    scores = torch.randn(3, 4, length, dtype=torch.float64) * 300
    scores[0, 0, 1:] = -torch.inf
    scores.requires_grad_()
    above = torch.randn_like(scores)

    ours = row_softmax(scores.detach())
    theirs = scores.softmax(-1)

    torch.testing.assert_close(ours, theirs, **EXACT)
    (gradient,) = torch.autograd.grad(theirs, scores, above)
    torch.testing.assert_close(softmax_gradient(above, ours), gradient, **EXACT)


def test_long_sentences_keep_no_attention_weights():
    long = torch.randn(1, 1, MAX_KEYS_BY_MATMUL + 1, 2, requires_grad=True)

    out = fused_attention(long, long, long, None, 0.0)

    assert "Attention" in out.grad_fn.name()
    assert not out.grad_fn.name().startswith("_Attention")


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_fused_add_and_norm_equals_its_formula(share):
    layer = AddAndNorm(6, share, "post").double().train()
    install(layer, fused=True)
    layer.norm.weight.data.uniform_(0.5, 2)
    layer.norm.bias.data.uniform_(-1, 1)
    x, out = (
        torch.randn(3, 4, 6, dtype=torch.float64, requires_grad=True) for _ in "xo"
    )
    inputs = [x, out, layer.norm.weight, layer.norm.bias]

    def ours(x, out, *_):
        torch.manual_seed(7)
        return layer.add_residual(x, out)

    def by_hand(x, out, weight, bias):
        torch.manual_seed(7)
        kept = draw_mask(out.detach(), share)
        return F.layer_norm(x + out * kept / (1 - share), (6,), weight, bias)

    pairs = zip(
        with_gradients(ours, inputs), with_gradients(by_hand, inputs), strict=True
    )
    for mine, theirs in pairs:
        torch.testing.assert_close(mine, theirs, **EXACT)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_dropout_mask_multiplies_by_zero_or_one(dtype):
    x = torch.randn(7, 3).to(dtype)
    kept = draw_mask(x, 0.5)

    assert kept.unique().tolist() == [0, 1]
    assert torch.equal(apply_mask(x, kept), x * kept)
    assert torch.equal(apply_mask(x.T, kept.T), x.T * kept.T)


def test_dropout_uses_the_same_mask_in_the_backward_pass():
    x = torch.randn(50, 4, requires_grad=True)

    out = masked_dropout(x, 0.25)
    out.backward(torch.ones_like(out))

    torch.testing.assert_close(out, x * x.grad)
    torch.testing.assert_close(x.grad.unique(), torch.tensor([0, 4 / 3]))


@pytest.mark.parametrize("norm", ["post", "pre", "deep"])
def test_fused_functions_give_a_model_the_same_gradients(small, batch, norm):
    model = small(dropout=0.0, norm=norm).double().train()
    found = {}
    for kernels in ("auto", "reference"):
        use_backend(model, kernels)
        model.zero_grad()
        scores = model(*batch)
        scores.logsumexp(-1).sum().backward()
        found[kernels] = [scores, *(each.grad.clone() for each in model.parameters())]

    for fast, readable in zip(*found.values(), strict=True):
        torch.testing.assert_close(fast, readable, rtol=1e-9, atol=1e-9)
