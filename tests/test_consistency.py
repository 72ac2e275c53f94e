"""Losses of two passes: right by hand, and the same by chunks as by all logits."""

import math

import pytest
import torch
from torch.nn import functional as F

from headwise import consistency
from headwise.consistency import (
    Consistency,
    projected_two_pass_loss,
    two_pass_loss,
)
from headwise.losses import cross_entropy

FORMS = pytest.mark.parametrize(
    "form",
    [Consistency.r_drop(5.0), Consistency.simcut(3.0, 0.05)],
    ids=["R-Drop", "SimCut"],
)
SMOOTHING = pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])


def logits(count=2, rows=5, words=7):
    return [
        torch.randn(rows, words, dtype=torch.float64, requires_grad=True)
        for _ in range(count)
    ]


def halves_and_quarters():
    """Return logits of p = [1/2 1/4 1/4] and q = [1/4 1/2 1/4], label 0.

    KL(p ‖ q) = 1/2 ln 2 - 1/4 ln 2 = 1/4 ln 2, and KL(q ‖ p) is the same.
    """
    p, q = torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([[0.25, 0.5, 0.25]])
    return p.log(), q.log(), torch.tensor([0])


def test_r_drop_by_hand():
    """(ln 2 + 2 ln 2) / 2, and α / 2 times the mean of both divergences.

    That is half of Equation 4 of the paper: ln 2 + 2 ln 2 + 5 · 1/4 ln 2.
    """
    loss = two_pass_loss(*halves_and_quarters(), 0.0, Consistency.r_drop(5.0))

    assert loss.total.item() == pytest.approx((3 + 5 / 4) / 2 * math.log(2))
    assert loss.kl_divergence.item() == pytest.approx(math.log(2) / 4)


def test_simcut_by_hand():
    """ln 2 of the first pass, whose labels alone are learned, and α KL(p ‖ q)."""
    loss = two_pass_loss(*halves_and_quarters(), 0.0, Consistency.simcut(3.0, 0.05))

    assert loss.total.item() == pytest.approx((1 + 3 / 4) * math.log(2))
    assert loss.kl_divergence.item() == pytest.approx(math.log(2) / 4)


@FORMS
@SMOOTHING
def test_identical_passes_are_a_single_pass(form, smoothing):
    (first,) = logits(1)
    targets = torch.randint(7, (5,))
    loss = two_pass_loss(first, first, targets, smoothing, form)
    loss.total.backward()
    found, first.grad = first.grad, None
    single = cross_entropy(first, targets, smoothing)
    single.backward()

    assert loss.kl_divergence.item() == 0
    torch.testing.assert_close(loss.total, single)
    torch.testing.assert_close(found, first.grad)


def test_the_passes_of_r_drop_may_be_exchanged_and_those_of_simcut_may_not():
    (first, second), targets = logits(), torch.randint(7, (5,))

    def losses(form):
        there = two_pass_loss(first, second, targets, 0.1, form)
        back = two_pass_loss(second, first, targets, 0.1, form)
        return there.kl_divergence.item(), back.kl_divergence.item()

    there, back = losses(Consistency.r_drop(1.0))
    assert there == pytest.approx(back)
    forth, other = losses(Consistency.simcut(1.0, 0.1))
    assert forth != pytest.approx(other)
    assert there == pytest.approx((forth + other) / 2)


def test_both_passes_are_trained_by_the_divergence():
    """Neither is a constant target: each pass moves towards the other."""
    (first, second), targets = logits(), torch.randint(7, (5,))
    loss = two_pass_loss(first, second, targets, 0.0, Consistency.simcut(2.0, 0.1))
    loss.total.backward()

    p, q = first.softmax(dim=1), second.softmax(dim=1)
    torch.testing.assert_close(second.grad, 2 * (q - p))
    cross = p - F.one_hot(targets, 7)
    assert not torch.allclose(first.grad, cross)


def projected(first, second, vectors, bias, targets, smoothing, form):
    """Compute the readable loss of all logits."""
    first, second = (F.linear(each, vectors, bias) for each in (first, second))
    return two_pass_loss(first, second, targets, smoothing, form)


@FORMS
@SMOOTHING
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("budget", [4 * 7 * 8 * 4, 1 << 24], ids=["chunks", "at once"])
def test_chunks_have_loss_and_gradients_of_the_whole(
    monkeypatch, form, smoothing, with_bias, budget
):
    """The smaller budget has four rows of seven words in a chunk: three chunks."""
    monkeypatch.setattr(consistency, "BYTES_AT_ONCE", budget)
    shapes = [(10, 6), (10, 6), (7, 6), *([(7,)] if with_bias else [])]
    tensors = [
        torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes
    ]
    arguments = tensors if with_bias else [*tensors, None]
    targets = torch.randint(7, (10,))
    losses, gradients = [], []
    for compute in (projected_two_pass_loss, projected):
        loss = compute(*arguments, targets, smoothing, form)
        losses.append(loss)
        gradients.append(torch.autograd.grad(2.5 * loss.total, tensors))

    torch.testing.assert_close(losses[0].total, losses[1].total)
    torch.testing.assert_close(losses[0].kl_divergence, losses[1].kl_divergence)
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected)


@FORMS
def test_gradients_are_those_of_finite_differences(form):
    first, second, vectors = (
        torch.randn(shape, dtype=torch.float64, requires_grad=True)
        for shape in ((4, 3), (4, 3), (5, 3))
    )
    targets = torch.randint(5, (4,))

    def total(*tensors):
        return projected_two_pass_loss(*tensors, None, targets, 0.1, form).total

    assert torch.autograd.gradcheck(total, (first, second, vectors))


@FORMS
def test_autocast_has_the_loss_of_bfloat16_products(form):
    first, second, vectors = (torch.randn(each, 8) for each in (20, 20, 30))
    targets = torch.randint(30, (20,))
    exact = projected(first, second, vectors, None, targets, 0.1, form)
    with torch.autocast("cpu", torch.bfloat16):
        found = projected_two_pass_loss(
            first, second, vectors, None, targets, 0.1, form
        )

    assert found.total.dtype == torch.float32
    assert found.total.item() == pytest.approx(exact.total.item(), rel=0.02)
    assert found.total.item() != exact.total.item()
