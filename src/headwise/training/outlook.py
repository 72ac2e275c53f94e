"""What training would be: its size, memory, data, time and learning rates.

Everything is computed or tried out in memory; nothing is written.
"""

from __future__ import annotations

import heapq
import statistics
import time
from dataclasses import dataclass
from itertools import islice

import torch
from torch import nn

from headwise.data.batches import TrainingOrder, dev_batches
from headwise.data.prepared import CorpusFacts, PreparedCorpus
from headwise.data.rows import RowShape
from headwise.training.data_loader import training_order
from headwise.training.epochs import counted
from headwise.training.memory import Forecast, Rehearsal, searches
from headwise.training.optimizer import make_optimizer
from headwise.training.schedule import learning_rate
from headwise.training.settings import TrainingSettings
from headwise.training.validation import VALIDATION_TOKENS

LONGEST_SHOWN = 5
DROPPED_SHOWN = 3
"""Of each reason."""

BATCHES_LOOKED_AT = 200
"""Of the first epoch, for the share of padding."""

TIMED_UPDATES = 8
MOST_SECONDS = 30.0
"""After which no further update is timed."""

PAIRS_AT_ONCE = 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class LongPair:
    """One of the pairs that decide how much memory is needed."""

    index: int
    """Its number in the prepared corpus, counted from 0."""

    source_tokens: int
    target_tokens: int
    corpus: str
    """The file that its source is from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dropped:
    """Pairs that were left out for one reason."""

    reason: str
    pairs: int
    examples: tuple[str, ...]
    """File and line of the first ones, with their tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """What training would be."""

    parameters: dict[str, int]
    """Of each part of the model."""

    memory: Forecast

    pairs: int
    updates_an_epoch: int
    updates_done: int
    updates: int
    padding: float
    """Share of the places in batches that hold no token."""

    longest: tuple[LongPair, ...]
    dropped: tuple[Dropped, ...]
    seconds_an_update: float
    validations: int
    seconds_a_validation: float
    """At most: a model that has learned ends its outputs sooner."""

    max_seconds: float | None
    """After which training is to end in any case."""

    learning_rates: tuple[tuple[int, float], ...]
    """Updates where the schedule turns, with their rates."""

    @property
    def seconds(self) -> float:
        """Time of the training that is still to come."""
        looking = self.validations * self.seconds_a_validation
        whole = (self.updates - self.updates_done) * self.seconds_an_update + looking
        return whole if self.max_seconds is None else min(whole, self.max_seconds)


def look_ahead(
    rehearsal: Rehearsal, *, seed: int, done: int = 0, until: int | None = None
) -> Outlook:
    """Find out what training would be; the model's weights do not survive it.

    ``done`` counts updates that were made before; ``until`` is the last one for now.
    """
    model, corpus = rehearsal.model, rehearsal.corpus
    settings = rehearsal.settings
    order = training_order(corpus, settings, seed=seed)
    settings = counted(settings, order)
    updates_an_epoch = max(1, order.num_batches(0) // settings.accumulate)
    forecast = rehearsal.forecast()
    last = settings.num_steps
    if until is not None:
        last = until if settings.epochs is None else min(last, until)
    left = max(0, last - done)
    return Outlook(
        parameters=parameters_by_part(model),
        memory=forecast,
        pairs=corpus.facts.train.pairs,
        updates_an_epoch=updates_an_epoch,
        updates_done=done,
        updates=last,
        padding=share_of_padding(order),
        longest=tuple(longest_pairs(corpus)),
        dropped=tuple(dropped_pairs(corpus)),
        seconds_an_update=_seconds_an_update(rehearsal, order),
        validations=-(-left // settings.validate_every),
        seconds_a_validation=_seconds_a_validation(rehearsal),
        max_seconds=None if settings.max_minutes is None else 60 * settings.max_minutes,
        learning_rates=tuple(
            (step, learning_rate(step, settings, model.config.d_model))
            for step in turning_points(settings)
        ),
    )


def parameters_by_part(model: nn.Module) -> dict[str, int]:
    """Count the parameters of each part that has any; what is shared counts once."""
    counts: dict[str, int] = {}
    for name, weight in model.named_parameters():
        part = name.split(".")[0].replace("_", " ")
        counts[part] = counts.get(part, 0) + weight.numel()
    return counts


def turning_points(settings: TrainingSettings) -> list[int]:
    """Return the first update, that at the end of the warm-up, and the last."""
    last = settings.num_steps
    return sorted({1, min(settings.warmup_steps, last), last})


def share_of_padding(order: TrainingOrder) -> float:
    """Return the share of places without a token, over the first batches."""
    tokens = places = 0
    for batch in islice(order.batches(0), BATCHES_LOOKED_AT):
        tokens += batch.num_source_tokens + batch.num_target_tokens
        if order.in_rows:
            longest = max(batch.source.shape[1], batch.target_out.shape[1])
            shape = RowShape.of(longest, order.batch_tokens)
            places += 2 * shape.rows * shape.width
        else:
            places += batch.source.numel() + batch.target_out.numel()
    return 1 - tokens / places


def longest_pairs(corpus: PreparedCorpus) -> list[LongPair]:
    """Return the longest pairs to learn from, by their longer side."""
    found: list[tuple[int, int, int, int]] = []
    for start in range(0, len(corpus.train), PAIRS_AT_ONCE):
        stop = min(start + PAIRS_AT_ONCE, len(corpus.train))
        sources, targets = corpus.train.lengths(start, stop)
        here = zip(sources.tolist(), targets.tolist(), range(start, stop), strict=True)
        rows = ((max(s, t), s + t, -index, s) for s, t, index in here)
        found = heapq.nlargest(LONGEST_SHOWN, [*found, *rows])
        corpus.train.forget()
    return [
        LongPair(
            index=-index,
            source_tokens=source,
            target_tokens=both - source,
            corpus=_corpus_of(-index, corpus.facts.corpora).source,
        )
        for _, both, index, source in found
    ]


def _corpus_of(index: int, corpora: tuple[CorpusFacts, ...]) -> CorpusFacts:
    return max(
        (each for each in corpora if each.train and each.first_pair <= index),
        key=lambda each: each.first_pair,
    )


def dropped_pairs(corpus: PreparedCorpus) -> list[Dropped]:
    """Return what was left out of all corpora, by reason, with some examples."""
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
            if counts[reason] <= DROPPED_SHOWN:
                examples[reason].append(f"{path}:{line} ({source} and {target} tokens)")
    return [
        Dropped(reason=why, pairs=counts[name], examples=tuple(examples[name]))
        for name, why in reasons.items()
        if counts[name]
    ]


def _seconds_an_update(rehearsal: Rehearsal, order: TrainingOrder) -> float:
    """Return how long the first updates take; the very first is not counted."""
    model, settings = rehearsal.model, rehearsal.settings
    optimizer = make_optimizer(model, settings)
    batches = order.batches(0)
    model.train()
    seconds: list[float] = []
    while len(seconds) <= TIMED_UPDATES and sum(seconds) < MOST_SECONDS:
        started = time.perf_counter()
        chosen = list(enumerate(islice(batches, settings.accumulate)))
        if not chosen:
            break
        divisor = sum(batch.num_target_tokens for _, batch in chosen)
        rehearsal.gradients.accumulate(chosen, step=len(seconds), divisor=divisor)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        optimizer.step()
        _wait_for(model.device)
        seconds.append(time.perf_counter() - started)
    return statistics.mean(seconds[1:] or seconds)


@torch.inference_mode()
def _seconds_a_validation(rehearsal: Rehearsal) -> float:
    """Time one batch of the loss and one of the search, and count the others alike."""
    task, model, corpus = rehearsal.task, rehearsal.model, rehearsal.corpus
    model.eval()
    groups = searches(corpus, rehearsal.settings)
    tokens = corpus.facts.dev.target_tokens + corpus.facts.dev.pairs
    batch = next(dev_batches(corpus.dev, VALIDATION_TOKENS))
    started = time.perf_counter()
    task.loss(model, batch.to(model.device), smoothing=0.0).item()
    loss = (time.perf_counter() - started) * tokens / batch.num_target_tokens
    started = time.perf_counter()
    task.translate(model, groups[len(groups) // 2])
    return loss + (time.perf_counter() - started) * len(groups)


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
