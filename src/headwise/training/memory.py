"""How much memory training will take, found out before the first update by trying.

What takes most is gone through once: batches of the full size, and the search of a
validation that has most rows. What only comes later (Adam's moments, means of weights)
is stood in for by as many numbers, for memory has holes that not everything fits into,
and sums of sizes say too little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from headwise.data.batches import Batch, cut_by_tokens, demanding_batches
from headwise.data.prepared import PreparedCorpus
from headwise.errors import ResourceError, is_out_of_memory
from headwise.tasks.for_training import Transformer, Translation
from headwise.tasks.searching import SEARCH_TOKENS
from headwise.training.gradient_accumulation import GradientAccumulator
from headwise.training.memory_usage import MemoryUsage, memory_usage_of
from headwise.training.optimizer import make_optimizer
from headwise.training.settings import TrainingSettings
from headwise.training.validation import VALIDATION_TOKENS

MOST_BATCH_TOKENS = 25_000
"""The paper's (Section 5.1): a larger batch would need other learning rates."""

SHARE = 0.85
"""Of the free memory, what a fitted batch may take."""

FARTHEST = 4
"""Times as large as the last trial, and no larger, is the next."""

CLOSE_ENOUGH = 1.03

GROWTH = 1.06
"""What a process takes in the end, of what a few updates take: batches of ever other
shapes leave holes between what is in use."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What training will hold at most and what it may hold, in bytes."""

    peak: int
    held: int
    """Before it begins."""

    free: int | None
    """More than that; None where the system does not say."""

    @property
    def room(self) -> int | None:
        """What may be held in all."""
        return None if self.free is None else self.held + self.free

    def __str__(self) -> str:
        there = "" if self.room is None else f" of the {gib(self.room)} there are"
        return f"{gib(self.peak)} of memory at most{there}"


class Rehearsal:
    """Training, tried out on what takes most memory; no weight changes.

    ``copies_to_come`` are those of the size of the weights that do not exist yet: two
    moments, and a running mean where the settings ask for one.
    """

    def __init__(
        self,
        task: Translation,
        model: Transformer,
        corpus: PreparedCorpus,
        settings: TrainingSettings,
        gradients: GradientAccumulator,
        *,
        copies_to_come: int,
        usage: MemoryUsage | None = None,
    ) -> None:
        self.task = task
        self.model = model
        self.corpus = corpus
        self.settings = settings
        self.gradients = gradients
        self.usage = usage or memory_usage_of(model.device)
        self._copies_to_come = copies_to_come
        self._on_cpu = model.device.type == "cpu"
        self._averages = settings.average_last > 1

    def forecast(
        self, batch_tokens: int | None = None, *, looking: bool = True
    ) -> Forecast:
        """Learn, look and take means, once; ``looking`` may be left out.

        ``batch_tokens`` stands in the place of what the settings say.
        """
        self.usage.reset_peak()
        held, free = self.usage.used(), self.usage.free()
        try:
            self._go_through(batch_tokens, looking=looking)
            peak = self.usage.peak() + self.gradients.workers.memory_used
        finally:
            self.gradients.close()
            self.model.zero_grad()
        return Forecast(self._with_time(peak, held), held, free)

    def _with_time(self, peak: int, held: int) -> int:
        """Add to a measured peak what time brings on a CPU, where means are taken.

        The sums are float64, and the mean and a second model are there beside them; and
        the checkpoints that are read lie in memory of their own.
        """
        if not self._on_cpu:
            return peak
        weights = sum(each.nbytes for each in self.model.parameters())
        means = (self._copies_to_come + 5) * weights if self._averages else 0
        checkpoint = weights if self._averages else 0
        return round(held + GROWTH * max(peak - held, means)) + checkpoint

    def _go_through(self, batch_tokens: int | None, *, looking: bool) -> None:
        """Do everything in the order in which training does."""
        settings = self.settings
        longest, usual, middle = demanding_batches(
            self.corpus.facts.train,
            batch_tokens or settings.batch_tokens,
            settings.batch_pairs,
        )
        self._learn([usual])
        self._step_once()
        kept = self._copies(self._copies_to_come)
        if settings.accumulate > 1:
            self._learn([longest, middle])
        else:
            self._learn([longest])
            self._learn([middle])
        if looking:
            self._look()
        if self._averages or settings.ema_decay is not None:
            kept += self._copies(1)  # a second model, that is looked at

    def _learn(self, batches: Sequence[Batch]) -> None:
        self.gradients.accumulate(list(enumerate(batches)), step=0, divisor=1.0)

    def _step_once(self) -> None:
        """Let an optimizer learn nothing: the first step of any brings in libraries."""
        nothing = nn.Linear(1, 1, device=self.model.device)
        nothing(torch.ones(1, 1, device=self.model.device)).sum().backward()
        make_optimizer(nothing, self.settings).step()

    def _copies(self, count: int) -> list[Tensor]:
        """Fill as much memory as so many copies of the weights."""
        return [
            torch.ones_like(weight, requires_grad=False)
            for weight in self.model.parameters()
            for _ in range(count)
        ]

    @torch.inference_mode()
    def _look(self) -> None:
        """Do of a validation what takes most; the gradients stay, as they do then."""
        was_training = self.model.training
        self.model.eval()
        try:
            for batch in demanding_batches(self.corpus.facts.dev, VALIDATION_TOKENS):
                self.task.loss(self.model, batch.to(self.model.device), smoothing=0.0)
            # Most rows take the most memory: outputs may be longer by a constant. On a
            # CPU each thread searches a batch of its own.
            at_once = torch.get_num_threads() if self._on_cpu else 1
            batches = searches(self.corpus, self.settings)[:at_once]
            texts = [text for batch in batches for text in batch]
            outputs = self.task.translate(self.model, texts)
            self.task.measure("bleu", outputs, texts)  # for what it brings in
        finally:
            self.model.train(was_training)


def searches(corpus: PreparedCorpus, settings: TrainingSettings) -> list[list[str]]:
    """Return the texts that a validation translates, in its batches, short ones first.

    So the first batch has the most rows.
    """
    lengths, _ = corpus.dev.lengths()
    every = -(-len(lengths) // settings.validation_pairs)
    chosen = np.arange(0, len(lengths), every)
    rising = chosen[np.argsort(lengths[chosen], kind="stable")]
    starts = cut_by_tokens(lengths[rising] + 1, SEARCH_TOKENS)
    texts, _ = corpus.dev_text
    groups = np.split(rising, starts[1:])
    return [[texts[index] for index in group] for group in groups]


def fitted_batch_tokens(rehearsal: Rehearsal) -> tuple[int, Forecast]:
    """Return the largest batch, in target tokens, that fits into the memory there is.

    A share of that memory is left free, and no batch is larger than the paper's.
    """
    facts = rehearsal.corpus.facts.train
    least = max(facts.longest_source, facts.longest_target) + 1
    forecast = rehearsal.forecast(least)  # with a validation, which is the same for all
    held, free = forecast.held, forecast.free
    if free is None:
        raise ResourceError(
            "--batch-tokens auto needs to know how much memory is free, and this "
            "system does not say; give a number, such as 4096"
        )

    @cache
    def peak(batch_tokens: int) -> int:
        try:
            return max(
                forecast.peak, rehearsal.forecast(batch_tokens, looking=False).peak
            )
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            return held + free + 1

    most = max(least, MOST_BATCH_TOKENS)
    limit = held + int(SHARE * free)
    fitted = largest_that_fits(peak, least=least, most=most, limit=limit)
    if fitted is None:
        raise ResourceError(
            f"not even a single pair of the longest, {least:,} tokens, can be learned "
            f"from here: it would take {Forecast(peak(least), held, free)}, and of "
            f"what is free {SHARE:.0%} may be filled; a smaller model, a smaller "
            "data.max_tokens or training.activation_checkpointing = true needs less"
        )
    return fitted, Forecast(peak(fitted), held, free)


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
    step = min(100, int(10 ** max(0, len(str(tokens)) - 2)))
    return tokens // step * step


def gib(size: int) -> str:
    """Write a number of bytes as people read it."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
