"""``--dry-run``: parameters, memory, data, time and learning rates of a training.

Some steps and a validation are run in memory; nothing is written.
"""

from __future__ import annotations

import heapq
import math
import statistics
import time
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import nn

from headwise.data.batches import dev_batches
from headwise.data.prepared import CorpusFacts, PreparedCorpus
from headwise.data.sequence_packing import PackedShape
from headwise.training.data_loader import AnyOrder, training_order
from headwise.training.epochs import epochs_to_steps
from headwise.training.memory_estimate import (
    MemoryEstimate,
    MemoryEstimator,
    prediction_batches,
)
from headwise.training.optimizer import Optimizer
from headwise.training.schedule import learning_rate
from headwise.training.settings import TrainingSettings
from headwise.training.validation import VALIDATION_TOKENS

NUM_LONGEST_PAIRS = 5
NUM_DROPPED_EXAMPLES = 3
"""Examples per reason."""

NUM_PADDING_BATCHES = 200
"""Batches of the first epoch that the padding fraction is taken from."""

NUM_TIMED_STEPS = 8
MAX_TIMING_SECONDS = 30.0
"""Seconds after which no further step is timed."""

PAIRS_PER_CHUNK = 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class LongPair:
    """One of the longest pairs, which decide how much memory is needed."""

    index: int
    """Index in the prepared corpus, counted from 0."""

    source_tokens: int
    target_tokens: int
    corpus: str
    """The file with its source."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dropped:
    """Pairs that were left out of the corpus for one reason."""

    reason: str
    pairs: int
    examples: tuple[str, ...]
    """File, line and token counts of the first ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRunReport:
    """The result of a dry run; the field names are keys of its JSON form."""

    parameters: dict[str, int]
    """Number of parameters per part of the model."""

    memory: MemoryEstimate

    pairs: int
    parts: int
    """Parts that the pairs are trained in: more than pairs where long texts are cut."""

    updates_an_epoch: int
    updates_done: int
    updates: int
    padding: float
    """Fraction of padding in batches: 0 to 1."""

    longest: tuple[LongPair, ...]
    dropped: tuple[Dropped, ...]
    seconds_an_update: float
    validations: int
    seconds_a_validation: float
    """Upper bound: a trained model ends its outputs sooner."""

    max_seconds: float | None
    """Time limit of the whole training, in seconds; None: no limit."""

    seconds_done: float = 0.0
    """Seconds of it that the updates done have taken."""

    learning_rates: tuple[tuple[int, float], ...]
    """(step, learning rate) at the milestones of the schedule."""

    @property
    def seconds(self) -> float:
        """Estimated seconds that training still takes, within its time limit."""
        left = self.seconds_left
        whole = self._seconds_without_limit
        return whole if left is None else min(whole, left)

    @property
    def seconds_left(self) -> float | None:
        """Seconds before the time limit; None: no limit."""
        if self.max_seconds is None:
            return None
        return max(0.0, self.max_seconds - self.seconds_done)

    @property
    def share_in_time(self) -> float:
        """Estimated share of what is left to do that the time limit has room for."""
        whole = self._seconds_without_limit
        return self.seconds / whole if whole > 0 else 1.0

    @property
    def _seconds_without_limit(self) -> float:
        updating = (self.updates - self.updates_done) * self.seconds_an_update
        return updating + self.validations * self.seconds_a_validation


def dry_run_report(
    estimator: MemoryEstimator,
    *,
    seed: int,
    done: int = 0,
    seconds_done: float = 0.0,
    until: int | None = None,
) -> DryRunReport:
    """Run a dry run; it changes the weights of the estimator's model.

    ``done`` steps were made before, in ``seconds_done``; ``until`` is the step to stop
    at for now.
    """
    model, corpus = estimator.model, estimator.corpus
    settings = estimator.settings
    order = training_order(corpus, settings, seed=seed)
    settings = epochs_to_steps(settings, order)
    updates_an_epoch = max(1, order.num_batches(0) // settings.accumulate)
    estimate = estimator.estimate()
    last = settings.num_steps
    if until is not None:
        last = until if settings.epochs is None else min(last, until)
    left = max(0, last - done)
    return DryRunReport(
        parameters=parameters_by_part(model),
        memory=estimate,
        pairs=corpus.facts.train.texts,
        parts=corpus.facts.train.pairs,
        updates_an_epoch=updates_an_epoch,
        updates_done=done,
        updates=last,
        padding=padding_fraction(order),
        longest=tuple(longest_pairs(corpus)),
        dropped=tuple(dropped_pairs(corpus)),
        seconds_an_update=_seconds_per_step(estimator, order),
        validations=-(-left // settings.validate_every),
        seconds_a_validation=_seconds_per_validation(estimator),
        max_seconds=None if settings.max_minutes is None else 60 * settings.max_minutes,
        seconds_done=seconds_done,
        learning_rates=tuple(
            (step, learning_rate(step, settings, model.config.d_model))
            for step in schedule_milestones(settings)
        ),
    )


def parameters_by_part(model: nn.Module) -> dict[str, int]:
    """Return part -> number of parameters; tied weights count once."""
    counts: dict[str, int] = {}
    for name, weight in model.named_parameters():
        part = name.split(".")[0].replace("_", " ")
        counts[part] = counts.get(part, 0) + weight.numel()
    return counts


def schedule_milestones(settings: TrainingSettings) -> list[int]:
    """Return the first step, the one at the end of the warm-up, and the last."""
    last = settings.num_steps
    return sorted({1, min(settings.warmup_steps, last), last})


def padding_fraction(order: AnyOrder) -> float:
    """Return the fraction of padding, 0 to 1, over the first batches."""
    tokens = places = 0
    for batch in islice(order.batches(0), NUM_PADDING_BATCHES):
        tokens += batch.num_source_tokens + batch.num_target_tokens
        if order.packed:
            shape = PackedShape.of(batch.max_length, order.batch_tokens)
            places += 2 * shape.rows * shape.width
        else:
            for side in (batch.source, batch.target):
                places += math.prod(side.padded_shape)
    return 1 - tokens / places


def longest_pairs(corpus: PreparedCorpus) -> list[LongPair]:
    """Return the longest training pairs, by their longer side."""
    found: list[tuple[int, int, int, int]] = []
    for start in range(0, len(corpus.train), PAIRS_PER_CHUNK):
        stop = min(start + PAIRS_PER_CHUNK, len(corpus.train))
        sources, targets = corpus.train.lengths(start, stop)
        here = zip(sources.tolist(), targets.tolist(), range(start, stop), strict=True)
        rows = ((max(s, t), s + t, -number, s) for s, t, number in here)
        found = heapq.nlargest(NUM_LONGEST_PAIRS, [*found, *rows])
        corpus.train.release_pages()
    numbers = np.array([-number for _, _, number, _ in found], dtype=np.int64)
    indices = corpus.train.indices(numbers).tolist()
    return [
        LongPair(
            index=-number,
            source_tokens=source,
            target_tokens=both - source,
            corpus=_corpus_of(index, corpus.facts.corpora).source,
        )
        for (_, both, number, source), index in zip(found, indices, strict=True)
    ]


def _corpus_of(index: int, corpora: tuple[CorpusFacts, ...]) -> CorpusFacts:
    return max(
        (each for each in corpora if each.train and each.first_pair <= index),
        key=lambda each: each.first_pair,
    )


def dropped_pairs(corpus: PreparedCorpus) -> list[Dropped]:
    """Return the pairs left out of all corpora, by reason, with examples."""
    reasons = {
        "empty": "a side without text",
        "too_long": f"over max_tokens={corpus.facts.max_tokens:,} tokens",
        "held_out": "the source of a held-out pair",
    }
    counts = dict.fromkeys(reasons, 0)
    examples: dict[str, list[str]] = {name: [] for name in reasons}
    with (corpus.folder / "dropped.tsv").open(encoding="utf-8", newline="\n") as file:
        next(file)  # the names of the columns
        for row in file:
            path, line, reason, source, target = row.rstrip("\n").rsplit("\t", 4)
            counts[reason] += 1
            if counts[reason] <= NUM_DROPPED_EXAMPLES:
                examples[reason].append(f"{path}:{line} ({source} and {target} tokens)")
    return [
        Dropped(reason=why, pairs=counts[name], examples=tuple(examples[name]))
        for name, why in reasons.items()
        if counts[name]
    ]


def _seconds_per_step(estimator: MemoryEstimator, order: AnyOrder) -> float:
    """Return the mean seconds of the first steps, without the very first."""
    model, settings = estimator.model, estimator.settings
    optimizer = Optimizer(model, settings)
    batches = order.batches(0)
    model.train()
    seconds: list[float] = []
    while len(seconds) <= NUM_TIMED_STEPS and sum(seconds) < MAX_TIMING_SECONDS:
        started = time.perf_counter()
        chosen = list(enumerate(islice(batches, settings.accumulate)))
        if not chosen:
            break
        divisor = sum(batch.num_target_tokens for _, batch in chosen)
        with estimator.gradients.step_threads():
            estimator.gradients.accumulate(chosen, step=len(seconds), divisor=divisor)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
            optimizer.step()
        _synchronize(model.device)
        seconds.append(time.perf_counter() - started)
    return statistics.mean(seconds[1:] or seconds)


@torch.inference_mode()
def _seconds_per_validation(estimator: MemoryEstimator) -> float:
    """Time one batch of the loss and one of the search; extrapolate to all."""
    task, model, corpus = estimator.task, estimator.model, estimator.corpus
    model.eval()
    groups = prediction_batches(corpus, estimator.settings)
    tokens = corpus.facts.dev.target_tokens + corpus.facts.dev.pairs
    batch = next(dev_batches(corpus.dev, VALIDATION_TOKENS))
    started = time.perf_counter()
    task.loss(model, batch.to(model.device), smoothing=0.0).item()
    loss = (time.perf_counter() - started) * tokens / batch.num_target_tokens
    started = time.perf_counter()
    task.predict(model, groups[len(groups) // 2])
    return loss + (time.perf_counter() - started) * len(groups)


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
