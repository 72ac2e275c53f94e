"""Forward and backward passes of micro-batches: splitting, seeds, out of memory."""

from unittest.mock import Mock

import pytest
import torch

from headwise.data.batches import make_batch
from headwise.training.micro_batch import seed_rng, split_batch


@pytest.fixture
def trainer(make_trainer):
    return make_trainer()


def test_the_rng_is_seeded_from_seed_and_step():
    draws = []
    for seed, step in [(1, 5), (1, 5), (1, 6), (2, 5)]:
        seed_rng(seed, step)
        draws.append(torch.rand(1).item())

    assert draws[0] == draws[1]
    assert len(set(draws)) == 3


def test_a_split_batch_has_every_pair_once_and_parts_within_a_row_of_the_limit(trainer):
    batch = make_batch(trainer.corpus.train, next(trainer.order.epoch(0)))
    limit = batch.padded_tokens // 3
    parts = split_batch(batch, limit)

    assert len(parts) > 2
    row = batch.padded_tokens // len(batch)
    assert all(part.padded_tokens < limit + row for part in parts)
    assert torch.equal(torch.cat([part.indices for part in parts]), batch.indices)
    assert split_batch(batch, None) == [batch]
    assert [len(part) for part in split_batch(batch, 1)] == [1] * len(batch)


@pytest.mark.parametrize(
    "error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory")]
)
def test_running_out_of_memory_gives_none(trainer, monkeypatch, error):
    runner = trainer.gradients._runner
    batch = make_batch(trainer.corpus.train, [0, 1])
    monkeypatch.setattr(runner, "_loss", Mock(side_effect=error))

    assert runner.run([batch], 1.0, 1, 0) is None


def test_another_error_than_want_of_memory_is_raised(trainer, monkeypatch):
    runner = trainer.gradients._runner
    batch = make_batch(trainer.corpus.train, [0, 1])
    error = RuntimeError("shapes do not match")
    monkeypatch.setattr(runner, "_loss", Mock(side_effect=error))

    with pytest.raises(RuntimeError, match="shapes do not match"):
        runner.run([batch], 1.0, 1, 0)


def test_gradients_are_scaled_and_the_loss_is_not(trainer):
    """Half the loss scale: half of each gradient, and the same loss."""
    runner = trainer.gradients._runner
    batch = make_batch(trainer.corpus.train, [0, 1, 2])
    found = []
    for scale in (1.0, 0.5):
        runner.model.zero_grad()
        loss = runner.run([batch], scale, 1, 0)
        found.append((loss, [p.grad.clone() for p in runner.model.parameters()]))
    (loss, whole), (same, half) = found

    assert loss == same
    for one, other in zip(whole, half, strict=True):
        torch.testing.assert_close(other, 0.5 * one)
