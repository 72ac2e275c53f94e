"""How much memory training will take, found out before the first update by trying.

What takes most is gone through once: batches of the full size, and the search of a
validation that has most rows. What only comes later (Adam's moments, means of weights)
has a known size and is added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import islice

import numpy as np
import torch

from headwise.data.batches import cut_by_tokens, demanding_batches, dev_batches
from headwise.data.prepared import PreparedCorpus
from headwise.errors import ResourceError, is_out_of_memory
from headwise.tasks import Transformer, Translation
from headwise.tasks.translation import SEARCH_TOKENS
from headwise.training.gauge import Gauge, gauge_of
from headwise.training.gradients import Gradients
from headwise.training.settings import TrainingSettings
from headwise.training.validation import VALIDATION_TOKENS

MOST_BATCH_TOKENS = 25_000
"""The paper's (Section 5.1): a larger batch would need other learning rates."""

SHARE = 0.85
"""Of the free memory, what a fitted batch may take."""

FARTHEST = 4
"""Times as large as the last trial, and no larger, is the next."""

CLOSE_ENOUGH = 1.03


@dataclass(frozen=True, slots=True)
class Forecast:
    """What training will hold at most and what it may hold, in bytes."""

    peak: int
    room: int | None
    """What is held and what is free, together; None where the system does not say."""

    def __str__(self) -> str:
        there = "" if self.room is None else f" of the {gib(self.room)} there are"
        return f"{gib(self.peak)} of memory at most{there}"


class Rehearsal:
    """Training, tried out on what takes most memory; no weight changes.

    ``already`` is what of Adam's moments and a running mean is there, in bytes.
    """

    def __init__(
        self,
        task: Translation,
        model: Transformer,
        corpus: PreparedCorpus,
        settings: TrainingSettings,
        gradients: Gradients,
        *,
        already: int = 0,
        gauge: Gauge | None = None,
    ) -> None:
        self.task = task
        self.model = model
        self.corpus = corpus
        self.settings = settings
        self.gradients = gradients
        self.gauge = gauge or gauge_of(model.device)
        weights = sum(each.nbytes for each in model.parameters())
        has_mean = settings.ema_decay is not None
        averages = settings.average_last > 1
        self._later = (2 + has_mean) * weights - already
        self._later += weights if has_mean or averages else 0  # a second model
        # Sums in float64, one checkpoint, and the mean that comes of them.
        on_cpu = model.device.type == "cpu"
        self._averaging = 4 * weights if averages and on_cpu else 0

    def forecast(self, batch_tokens: int | None = None) -> Forecast:
        """Learn and look once, and add what is still to come."""

        def work() -> None:
            self._learn(batch_tokens)
            self._look()

        return self._measured(work)

    def of_batches(self, batch_tokens: int) -> Forecast:
        """Tell what learning alone would take with batches of that size."""
        return self._measured(lambda: self._learn(batch_tokens))

    def _measured(self, work: Callable[[], None]) -> Forecast:
        self.gauge.start()
        held, free = self.gauge.held(), self.gauge.free()
        try:
            work()
            peak = max(self.gauge.peak(), held + self._averaging)
        finally:
            self.model.zero_grad()
        return Forecast(
            peak=peak + self._later, room=None if free is None else held + free
        )

    def _learn(self, batch_tokens: int | None) -> None:
        """Go through batches of several shapes, so many together as make an update."""
        settings = self.settings
        batches = demanding_batches(
            self.corpus.facts.train,
            batch_tokens or settings.batch_tokens,
            settings.batch_pairs,
        )
        for start in range(0, len(batches), settings.accumulate):
            together = batches[start : start + settings.accumulate]
            self.gradients.of(list(enumerate(together)), step=0, divisor=1.0)

    @torch.inference_mode()
    def _look(self) -> None:
        """Do of a validation what takes most; the gradients stay, as they do then."""
        was_training = self.model.training
        self.model.eval()
        try:
            for batch in islice(dev_batches(self.corpus.dev, VALIDATION_TOKENS), 1):
                self.task.loss(self.model, batch.to(self.model.device), smoothing=0.0)
            self.task.translate(self.model, self._searched_together())
        finally:
            self.model.train(was_training)

    def _searched_together(self) -> list[str]:
        """Return the shortest texts of a validation, which make the most rows.

        With them goes the most memory, since outputs may be longer by a constant.
        """
        lengths, _ = self.corpus.dev.lengths()
        every = -(-len(lengths) // self.settings.validation_pairs)
        chosen = np.arange(0, len(lengths), every)
        shortest = chosen[np.argsort(lengths[chosen], kind="stable")]
        starts = cut_by_tokens(lengths[shortest] + 1, SEARCH_TOKENS)
        texts, _ = self.corpus.dev_text
        return [texts[index] for index in np.split(shortest, starts[1:])[0]]


def fitted_batch_tokens(rehearsal: Rehearsal) -> tuple[int, Forecast]:
    """Return the largest batch, in target tokens, that fits into the memory there is.

    A share of that memory is left free, and no batch is larger than the paper's.
    """
    facts = rehearsal.corpus.facts.train
    least = max(facts.longest_source, facts.longest_target) + 1
    forecast = rehearsal.forecast(least)  # with a validation, which is the same for all
    if forecast.room is None:
        raise ResourceError(
            "--batch-tokens auto needs to know how much memory is free, and this "
            "system does not say; give a number, such as 4096"
        )
    room, looked = forecast.room, forecast.peak

    @cache
    def peak(batch_tokens: int) -> int:
        try:
            return max(looked, rehearsal.of_batches(batch_tokens).peak)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            return room + 1

    most = max(least, MOST_BATCH_TOKENS)
    fitted = largest_that_fits(peak, least=least, most=most, limit=int(SHARE * room))
    if fitted is None:
        raise ResourceError(
            f"not even a single pair of the longest, {least:,} tokens, can be learned "
            f"from here: it would take {Forecast(peak(least), room)}, and {SHARE:.0%} "
            "of that may be filled; training.activation_checkpointing = true, a "
            "smaller model or a smaller data.max_tokens needs less"
        )
    return fitted, Forecast(peak(fitted), room)


def largest_that_fits(
    peak: Callable[[int], int], *, least: int, most: int, limit: int
) -> int | None:
    """Return the largest round number whose ``peak`` is within ``limit``.

    None means that not even ``least`` is. Small ones are tried first, and none that is
    much larger than one that went well: what is far too large might end this process.
    """
    good, held = least, peak(least)
    if held > limit:
        return None
    too_large = most + 1
    slope = 0.0
    while True:
        guess = FARTHEST * good
        if slope:
            guess = min(guess, int(good + (limit - held) / slope))
        guess = min(guess, most)
        if guess >= too_large:
            guess = (good + too_large) // 2
        if guess < most:
            guess = _round(guess)
        if guess < CLOSE_ENOUGH * good:
            return good
        found = peak(guess)
        slope = max(found - held, 1) / (guess - good)
        if found <= limit:
            good, held = guess, found
        else:
            too_large = guess


def _round(tokens: int) -> int:
    """Round down to two digits, and large numbers to hundreds."""
    step = min(100, 10 ** max(0, len(str(tokens)) - 2))
    return tokens // step * step


def gib(size: int) -> str:
    """Write a number of bytes as people read it."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
