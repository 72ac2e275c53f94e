"""Epochs as optimizer steps: how many a run makes, and why none is left."""

from __future__ import annotations

from dataclasses import replace

from headwise.errors import SettingsError
from headwise.training.data_loader import AnyOrder
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState
from headwise.wording import count_of


def epochs_to_steps(
    settings: TrainingSettings, order: AnyOrder, state: TrainingState | None = None
) -> TrainingSettings:
    """Return ``settings`` with ``steps`` set to where the last epoch ends.

    The batches of each epoch are planned from its seed, which reads lengths and no
    tokens: the number is exact, and the same from whichever ``state`` of a run it is
    counted. A last step may have fewer batches. Raises ``SettingsError`` if there is no
    step.
    """
    if settings.epochs is None:
        return settings
    state = state or TrainingState()
    left = sum(map(order.num_batches, range(state.epoch, settings.epochs)))
    if state.epoch < settings.epochs:
        left -= state.batch
    if not left and not state.step:
        raise SettingsError(
            [
                f"{count_of(settings.epochs, 'epoch')} take no training pair, as the "
                "weights of the corpora are too small for them; raise "
                "data.corpora.weight or training.epochs"
            ]
        )
    steps = max(1, state.step + -(-left // settings.accumulate))
    if settings.steps is not None:
        steps = min(steps, settings.steps)
    return replace(settings, steps=steps)


def end_reason(
    settings: TrainingSettings,
    state: TrainingState,
    last_step: int,
    *,
    time_over: str | None,
) -> str | None:
    """Return why training ends at ``state``, or None if it does not.

    ``time_over`` is the reason of a time limit that is reached.
    """
    if state.step >= last_step:
        return steps_done_reason(settings, state, last_step)
    if time_over is not None:
        return time_over
    stops = settings.on_plateau == "stop"
    if stops and state.has_exhausted(settings.patience):
        return state.no_gain
    return None


def steps_done_reason(
    settings: TrainingSettings, state: TrainingState, last_step: int
) -> str:
    """Return why no step is left, for a run at ``last_step`` or beyond.

    Beyond it is a run that is resumed with fewer steps or epochs than it has made.
    """
    done = count_of(state.step, "update")
    if state.plateau_step and state.step >= state.cooldown_end:
        return f"{state.no_gain}, and the learning rate has fallen to 0 since"
    if settings.epochs is not None and (state.epoch, state.batch) > (
        settings.epochs,
        0,
    ):
        asked = count_of(settings.epochs, "epoch")
        return f"{done} are done, more than the {asked} asked for"
    if state.step > last_step:
        return f"{done} are done, more than the {last_step:,} asked for"
    return f"{done} {'is' if state.step == 1 else 'are'} done"
