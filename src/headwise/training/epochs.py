"""Epochs as optimizer steps: how many steps a run of so many epochs makes."""

from __future__ import annotations

from dataclasses import replace

from headwise.data.batches import TrainingOrder
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState


def epochs_to_steps(
    settings: TrainingSettings, order: TrainingOrder, state: TrainingState | None = None
) -> TrainingSettings:
    """Return ``settings`` with ``steps`` set to where the last epoch ends.

    The batches of each epoch are planned from its seed, which reads lengths and no
    tokens: the number is exact, and the same from whichever ``state`` of a run it is
    counted. A last step may have fewer batches.
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
