"""Epochs as updates: how many a run makes that ends after so many passes."""

from __future__ import annotations

from dataclasses import replace

from headwise.data.batches import TrainingOrder
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState


def counted(
    settings: TrainingSettings, order: TrainingOrder, state: TrainingState | None = None
) -> TrainingSettings:
    """Return ``settings`` whose ``steps`` are those after which ``epochs`` are over.

    Each epoch is planned from its seed, which reads lengths and no tokens, so that the
    number is exact, and the same from whichever ``state`` of a run it is counted.
    Batches that are too few for a whole update make a smaller one at the end.
    """
    if settings.epochs is None:
        return settings
    state = state or TrainingState()
    left = sum(map(order.num_batches, range(state.epoch, settings.epochs)))
    if state.epoch < settings.epochs:
        left -= state.batch
    steps = max(1, state.step + -(-left // settings.accumulate))
    if settings.steps is not None:
        steps = min(steps, settings.steps)
    return replace(settings, steps=steps)
