"""Muon: orthogonalized momentum, beside ``torch.optim.Muon``."""

import pytest
import torch
from torch import nn

from headwise.training.muon import RMS, Muon, orthogonalized

SHAPES = [(4, 4), (4, 9), (9, 4)]


@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values_are_brought_near_1_and_singular_vectors_stay(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1))

    (found,) = orthogonalized(matrix[None])

    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    diagonal = u.T @ found @ v.T
    assert torch.all((diagonal.diag() > 0.6) & (diagonal.diag() < 1.3))
    assert torch.allclose(diagonal, diagonal.diag().diag(), atol=1e-4)


def test_a_matrix_is_orthogonalized_alike_alone_and_among_others():
    matrices = torch.randn(3, 5, 7, generator=torch.Generator().manual_seed(1))

    together = orthogonalized(matrices)

    for matrix, found in zip(matrices, together, strict=True):
        assert torch.allclose(orthogonalized(matrix[None])[0], found, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_in_bfloat16_it_is_the_same_to_about_two_digits(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1))

    (exact,) = orthogonalized(matrix[None])
    (found,) = orthogonalized(matrix[None], torch.bfloat16)

    assert found.dtype == torch.float32
    assert (found - exact).norm() < 0.05 * exact.norm()


def test_a_matrix_of_zeros_stays_zero():
    assert torch.equal(orthogonalized(torch.zeros(1, 3, 3)), torch.zeros(1, 3, 3))


def test_the_root_mean_square_of_a_square_update_is_about_that_of_adam():
    """An orthogonal N x N matrix has a root mean square of 1/√N."""
    matrix = nn.Parameter(torch.zeros(64, 64))
    matrix.grad = torch.randn(64, 64, generator=torch.Generator().manual_seed(1))

    Muon([matrix], lr=1.0).step()

    assert matrix.detach().square().mean().sqrt().item() == pytest.approx(RMS, rel=0.2)


@pytest.mark.parametrize("shape", SHAPES)
def test_updates_are_those_of_torch(shape):
    """Torch computes them in bfloat16, with 8 bits: hence the tolerance."""
    generator = torch.Generator().manual_seed(1)
    first = torch.randn(shape, generator=generator)
    ours, theirs = nn.Parameter(first.clone()), nn.Parameter(first.clone())
    others = nn.Parameter(torch.ones(2, 2))  # another shape, without a gradient
    optimizers = [
        Muon([ours, others], lr=0.1, weight_decay=0.1),
        torch.optim.Muon(
            [theirs], lr=0.1, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"
        ),
    ]

    for _ in range(3):
        ours.grad = theirs.grad = torch.randn(shape, generator=generator)
        for optimizer in optimizers:
            optimizer.step()

    assert torch.allclose(ours, theirs, atol=6e-3)
    assert not torch.allclose(ours, first, atol=6e-2)
    assert torch.equal(others, torch.ones(2, 2))


def test_a_flag_on_the_device_keeps_the_matrices_as_they_are():
    matrix = nn.Parameter(torch.ones(3, 4))
    matrix.grad = torch.full((3, 4), torch.nan)
    optimizer = Muon([matrix], lr=0.5, weight_decay=0.1)

    optimizer.step(found_inf=torch.tensor(1.0))

    assert torch.equal(matrix, torch.ones(3, 4))


def test_a_flag_of_0_changes_nothing():
    found = []
    for flag in (None, torch.tensor(0.0)):
        matrix = nn.Parameter(torch.ones(3, 4))
        matrix.grad = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
        Muon([matrix], lr=0.5, weight_decay=0.1).step(found_inf=flag)
        found.append(matrix.detach())

    assert torch.equal(*found)
