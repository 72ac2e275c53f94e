"""What tasks do unless they say otherwise; see :class:`headwise.tasks.task.Task`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np

from headwise.consistency import Consistency, TwoPassLoss
from headwise.data.ragged_batch import Batch
from headwise.decoding.settings import DecodingSettings
from headwise.errors import SettingsError


class TaskDefaults:
    """Base class of tasks, which are frozen dataclasses with a ``check_stop``."""

    has_perplexity = True

    def with_check_stop(self, check_stop: Callable[[], None]) -> Self:
        """Return this task with another ``check_stop``."""
        return cast(Self, replace(cast(Any, self), check_stop=check_stop))

    def with_length_limits(self, decoding: DecodingSettings) -> Self:
        """Return this task: its outputs are not searched for, or have their own."""
        return self

    def training_batch(self, batch: Batch, random: np.random.PCG64) -> Batch:
        """Return ``batch``: nothing about it is drawn at random."""
        return batch

    def two_pass_loss(
        self, model: Any, batch: Batch, *, smoothing: float, consistency: Consistency
    ) -> TwoPassLoss:
        """Raise ``SettingsError``: there is no loss of two passes."""
        raise SettingsError(
            ["training.r_drop and training.simcut: this task has no loss of two passes"]
        )
