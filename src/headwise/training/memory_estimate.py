"""Peak memory of training, estimated by a trial before the first step.

The trial runs what takes most: batches of the full size, and the validation search with
the most rows. What is allocated later (Adam's moments, averaged weights) is stood in
for by tensors of the same size: because of fragmentation, adding up tensor sizes
underestimates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from headwise.data.batches import worst_case_batches
from headwise.data.pair_formats import DOCUMENTS
from headwise.data.prepared import PreparedCorpus
from headwise.data.ragged_batch import Batch
from headwise.data.token_budget import BATCH_TOKENS, split_by_tokens
from headwise.errors import ResourceError, is_out_of_memory
from headwise.evaluation_mode import evaluation_mode
from headwise.model.sequence_model import SequenceModel
from headwise.tasks.task import Task
from headwise.training.data_loader import planned_facts, training_order
from headwise.training.gradient_accumulation import GradientAccumulator
from headwise.training.memory_usage import MemoryUsage, memory_usage_of
from headwise.training.optimizer import Optimizer
from headwise.training.settings import TrainingSettings
from headwise.training.validation import (
    NUM_SAMPLES,
    VALIDATION_TOKENS,
    scored_indices,
)

MAX_BATCH_TOKENS = 25_000
"""The paper's (Section 5.1): a larger batch would need other learning rates."""

MAX_MEMORY_FRACTION = 0.85
"""Fraction of the free memory that a fitted batch may take."""

MAX_TRIAL_RATIO = 4
"""Each trial is at most so many times as large as the last that fitted."""

STOP_RATIO = 1.03
"""The search stops when the next trial would be larger by less than this."""

FRAGMENTATION_FACTOR = 1.06
"""Memory after many steps, as a multiple of that after a few: batches of varying shapes
fragment it."""


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Peak memory of training, in bytes; the field names are keys of ``--json``."""

    peak: int
    held: int
    """In use before training."""

    free: int | None
    """Free before training; None where the system does not say."""

    @property
    def total(self) -> int | None:
        """All memory that training may use."""
        return None if self.free is None else self.held + self.free

    def __str__(self) -> str:
        there = (
            ""
            if self.total is None
            else f" of the {format_bytes(self.total)} there are"
        )
        return f"{format_bytes(self.peak)} of memory at most{there}"


class MemoryEstimator:
    """Tries training out on what takes most memory; no weight changes.

    ``future_copies`` counts tensors of the size of the weights that are allocated
    later: Adam's two moments, and an EMA if the settings ask for one.
    """

    def __init__(
        self,
        task: Task,
        model: SequenceModel,
        corpus: PreparedCorpus,
        settings: TrainingSettings,
        gradients: GradientAccumulator,
        *,
        future_copies: int,
        usage: MemoryUsage | None = None,
    ) -> None:
        self.task = task
        self.model = model
        self.corpus = corpus
        self.settings = settings
        self.gradients = gradients
        self.usage = usage or memory_usage_of(model.device)
        self._future_copies = future_copies
        self._on_cpu = model.device.type == "cpu"
        self._averages = settings.average_last > 1
        order = training_order(corpus, settings, seed=0)  # no length depends on it
        self.train_facts = planned_facts(corpus, order)
        """Counts of the training set by the most tokens that texts may have."""

    def estimate(
        self, batch_tokens: int | None = None, *, validate: bool = True
    ) -> MemoryEstimate:
        """Run the trial, batches and then a validation; return the peak memory.

        ``batch_tokens`` replaces the setting; ``validate=False`` skips the validation.
        """
        self.usage.reset_peak()
        held, free = self.usage.used(), self.usage.free()
        try:
            self._run_trial(batch_tokens, validate=validate)
            peak = self.usage.peak() + self.gradients.workers.memory_used
        finally:
            self.gradients.close()
            self.model.zero_grad()
        return MemoryEstimate(self._with_growth(peak, held), held, free)

    def _with_growth(self, peak: int, held: int) -> int:
        """Add fragmentation and checkpoint averaging to a peak measured on a CPU.

        Averaging holds float64 sums, their mean, a second model, and the checkpoint
        that is being read.
        """
        if not self._on_cpu:
            return peak
        weights = sum(each.nbytes for each in self.model.parameters())
        means = (self._future_copies + 5) * weights if self._averages else 0
        checkpoint = weights if self._averages else 0
        return round(held + FRAGMENTATION_FACTOR * max(peak - held, means)) + checkpoint

    def _run_trial(self, batch_tokens: int | None, *, validate: bool) -> None:
        """Run everything in the order of training, which decides on fragmentation."""
        settings = self.settings
        tokens = batch_tokens or settings.batch_tokens
        longest, usual, middle = worst_case_batches(
            self.train_facts,
            replace(settings, batch_tokens=tokens).example_tokens,
            settings.batch_pairs,
            self.corpus.facts.ends,
            self.corpus.facts.patch_values,
        )
        self._forward_backward([usual])
        self._optimizer_step()
        kept = self._allocate_copies(self._future_copies)
        if settings.accumulate > 1:
            self._forward_backward([longest, middle])
        else:
            self._forward_backward([longest])
            self._forward_backward([middle])
        if validate:
            self._validate()
        if self._averages or settings.ema_decay is not None:
            kept += self._allocate_copies(1)  # the evaluation model

    def _forward_backward(self, batches: Sequence[Batch]) -> None:
        self.gradients.accumulate(list(enumerate(batches)), step=0, divisor=1.0)

    def _optimizer_step(self) -> None:
        """Step a tiny optimizer: the first step of any loads libraries."""
        nothing = nn.Linear(1, 1, device=self.model.device)
        nothing(torch.ones(1, 1, device=self.model.device)).sum().backward()
        Optimizer(nothing, self.settings).step()

    def _allocate_copies(self, count: int) -> list[Tensor]:
        """Return ``count`` copies of the weights, filled so that memory is touched."""
        return [
            torch.ones_like(weight, requires_grad=False)
            for weight in self.model.parameters()
            for _ in range(count)
        ]

    @torch.inference_mode()
    def _validate(self) -> None:
        """Run the largest batches of a validation; gradients stay, as they do then."""
        with evaluation_mode(self.model):
            facts = self.corpus.facts
            for batch in worst_case_batches(
                facts.dev,
                VALIDATION_TOKENS,
                ends=facts.ends,
                patch_values=facts.patch_values,
            ):
                self.task.loss(self.model, batch.to(self.model.device), smoothing=0.0)
            # Most rows take the most memory: outputs may be longer by a constant. On a
            # CPU each thread searches a batch of its own.
            at_once = torch.get_num_threads() if self._on_cpu else 1
            batches = prediction_batches(self.corpus, self.settings)[:at_once]
            texts = [text for batch in batches for text in batch]
            outputs = self.task.predict(self.model, texts)
            for metric in self.task.always_measured:  # for the libraries they load
                self.task.measure(metric, outputs, outputs)


def prediction_batches(
    corpus: PreparedCorpus, settings: TrainingSettings
) -> list[list[str]]:
    """Return the batches of texts for a validation's outputs, shortest first.

    The first batch has the most rows.
    """
    texts, _ = corpus.dev_text
    lengths, _ = corpus.dev.lengths()
    if corpus.facts.pair_format == DOCUMENTS.name:  # windows, and some lines
        return [texts[:NUM_SAMPLES]]
    if len(lengths) != len(texts):  # parts of texts, which are read in such batches too
        lengths = np.full(len(texts), lengths.sum() // len(texts))
    chosen = np.array(scored_indices(len(lengths), settings.validation_pairs))
    rising = chosen[np.argsort(lengths[chosen], kind="stable")]
    starts = split_by_tokens(lengths[rising] + 1, BATCH_TOKENS)
    groups = np.split(rising, starts[1:])
    return [[texts[index] for index in group] for group in groups]


def fit_batch_tokens(estimator: MemoryEstimator) -> tuple[int, MemoryEstimate]:
    """Return the largest batch that fits, in target tokens, and its estimate.

    At most ``MAX_MEMORY_FRACTION`` of the free memory is used, and no batch is larger
    than the paper's. Raises ``ResourceError`` if not even one pair fits.
    """
    facts = estimator.train_facts
    least = max(facts.longest_source, facts.longest_target) + 1
    estimate = estimator.estimate(least)  # with a validation, which is the same for all
    held, free = estimate.held, estimate.free
    if free is None:
        raise ResourceError(
            "--batch-tokens auto needs to know how much memory is free, and this "
            "system does not say; give a number, such as 4096"
        )

    @cache
    def peak(batch_tokens: int) -> int:
        try:
            return max(
                estimate.peak, estimator.estimate(batch_tokens, validate=False).peak
            )
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            return held + free + 1

    most = max(least, MAX_BATCH_TOKENS)
    limit = held + int(MAX_MEMORY_FRACTION * free)
    fitted = largest_that_fits(peak, least=least, most=most, limit=limit)
    if fitted is None:
        needed = MemoryEstimate(peak(least), held, free)
        raise ResourceError(
            f"not even a single pair of the longest, {least:,} tokens, can be learned "
            f"from here: it would take {needed}, and of what is free "
            f"{MAX_MEMORY_FRACTION:.0%} may be filled; a smaller model, a smaller "
            "data.max_tokens or training.activation_checkpointing = true needs less"
        )
    return fitted, MemoryEstimate(peak(fitted), held, free)


def largest_that_fits(
    peak: Callable[[int], int], *, least: int, most: int, limit: int
) -> int | None:
    """Return the largest round number whose ``peak`` is within ``limit``.

    None: not even ``least`` fits. Trials grow from ``least`` on, by at most
    ``MAX_TRIAL_RATIO`` at a time: the system may kill a process that asks for far too
    much.
    """
    good, held = least, peak(least)
    if held > limit:
        return None
    too_large = most + 1
    slope = 0.0
    while True:
        guess = MAX_TRIAL_RATIO * good
        if slope:
            guess = min(guess, int(good + (limit - held) / slope))
        guess = min(guess, most)
        if guess >= too_large:
            guess = (good + too_large) // 2
        if guess < most:
            guess = _round(guess)
        if guess < STOP_RATIO * good:
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


def format_bytes(size: int) -> str:
    """Return a number of bytes as text: ``700 MiB``, ``2.3 GiB``."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
