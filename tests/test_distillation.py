"""The loss of distillation: right by hand, and the same by chunks as by all logits."""

import math

import pytest
import torch
from torch.nn import functional as F

from headwise import distillation
from headwise.distillation import (
    Projection,
    distillation_loss,
    projected_distillation_loss,
)
from headwise.losses import cross_entropy


def by_hand():
    """Return logits of p = [1/2 1/2] and t = [3/4 1/4], label 0.

    CE is ln 2, and KL(t ‖ p) is 3/4 ln 3/2 + 1/4 ln 1/2 = 3/4 ln 3 - ln 2.
    """
    p = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    t = torch.tensor([[0.75, 0.25]], dtype=torch.float64).log()
    return p, t, torch.tensor([0])


def test_the_loss_and_its_gradient_by_hand():
    """With w = 1/4 the gradient of the logits is p - 3/4 [1 0] - 1/4 t.

    That is [1/2 - 3/4 - 3/16, 1/2 - 1/16] = [-7/16, 7/16].
    """
    p, t, label = by_hand()

    loss = distillation_loss(p, [t], label, 0.0, 0.25)
    loss.total.backward()

    kl = 0.75 * math.log(3) - math.log(2)
    assert loss.cross_entropy.item() == pytest.approx(math.log(2))
    assert loss.kl_divergence.item() == pytest.approx(kl)
    assert loss.total.item() == pytest.approx(0.75 * math.log(2) + 0.25 * kl)
    assert p.grad.tolist() == [pytest.approx([-7 / 16, 7 / 16])]


def test_several_teachers_give_the_mean_of_their_probabilities():
    """[3/4 1/4] and [1/4 3/4] are [1/2 1/2] together, from which p does not differ."""
    p, t, label = by_hand()

    loss = distillation_loss(p, [t, t.flip(1)], label, 0.0, 1.0)

    assert loss.kl_divergence.item() == pytest.approx(0, abs=1e-15)


def test_a_teacher_that_is_the_student_leaves_the_labels():
    logits = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(7, (5,))

    loss = distillation_loss(logits, [logits.detach()], targets, 0.1, 0.3)
    (found,) = torch.autograd.grad(loss.total, logits)

    (expected,) = torch.autograd.grad(cross_entropy(logits, targets, 0.1), logits)
    torch.testing.assert_close(found, 0.7 * expected)


def test_with_a_weight_of_1_the_minimum_is_the_teacher():
    """The divergence has the gradient p - t, which is 0 there and nowhere else."""
    student = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(5, 7, dtype=torch.float64)
    targets = torch.randint(7, (5,))

    loss = distillation_loss(student, [teacher], targets, 0.1, 1.0)
    (found,) = torch.autograd.grad(loss.total, student)

    torch.testing.assert_close(found, (student.softmax(1) - teacher.softmax(1)))


def projection(rows, width, words, *, bias, grad=False):
    make = {"dtype": torch.float64, "requires_grad": grad}
    given = torch.randn(words, **make) if bias else None
    return Projection(
        torch.randn(rows, width, **make), torch.randn(words, width, **make), given
    )


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("teachers", [1, 3])
def test_chunks_give_the_same_loss_and_gradients(
    monkeypatch, bias, smoothing, teachers
):
    """Two rows at a time of seven, and teachers that are wider than the student."""
    words = 11
    at_once = 2 * 4 * words * (2 + teachers)
    monkeypatch.setattr(distillation, "BYTES_AT_ONCE", at_once)
    student = projection(7, 5, words, bias=bias, grad=True)
    given = [projection(7, 8, words, bias=bias) for _ in range(teachers)]
    targets = torch.randint(words, (7,))
    weights = [each for each in student if each is not None]

    loss = projected_distillation_loss(student, given, targets, smoothing, 0.4)
    found = torch.autograd.grad(3 * loss.total, weights)
    logits = [F.linear(*each) for each in (student, *given)]
    expected = distillation_loss(logits[0], logits[1:], targets, smoothing, 0.4)

    for ours, theirs in zip(loss, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    for ours, theirs in zip(
        found, torch.autograd.grad(3 * expected.total, weights), strict=True
    ):
        torch.testing.assert_close(ours, theirs)
