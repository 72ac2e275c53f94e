"""Looking at a model: loss and perplexity, and what it makes of held-out text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from headwise.data.batches import dev_batches
from headwise.data.prepared import PreparedCorpus
from headwise.errors import NumericsError
from headwise.tasks.for_training import Score, Transformer, Translation, perplexity
from headwise.training.settings import TrainingSettings

VALIDATION_TOKENS = 4096
"""Target tokens scored at a time, padding counted."""

NUM_SAMPLES = 3
"""Outputs that are kept to be looked at."""

BOOTSTRAP_RESAMPLES = 1000
"""Resamples of the held-out pairs that a score's confidence interval is taken from."""

MAX_ATTENTION_TOKENS = 24
"""Pieces of a side that a picture of attention shows well; the rest is cut off."""


@dataclass(frozen=True, kw_only=True)
class Attention:
    """What each piece of a reference takes from each piece of its source.

    The mean over the heads of the last decoder block. Of the reference and not of an
    output, so that its rows stay the same words while the model learns.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    """A row for each piece of the target, each weight to three decimals."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A held-out pair and what the model made of its source."""

    source: str
    reference: str
    output: str
    attention: Attention | None = None
    """Of the one sample that makes the best picture."""


@dataclass(frozen=True, kw_only=True)
class Validation:
    """What one look at the model found."""

    loss: float
    """Mean -ln p of a target token of the held-out part, END counted."""

    scores: dict[str, Score]
    """Measures of greedy outputs, under their names in settings."""

    num_scored: int
    """Held-out pairs, spread evenly, that the scores are of."""

    samples: tuple[Sample, ...]

    @property
    def perplexity(self) -> float:
        """Return e to the power of the loss."""
        return perplexity(self.loss, 1)

    def value(self, measure: str) -> float:
        """Return the loss or the score of that name."""
        return self.loss if measure == "loss" else self.scores[measure].value


def validate(
    task: Translation,
    model: Transformer,
    corpus: PreparedCorpus,
    settings: TrainingSettings,
) -> Validation:
    """Measure ``model`` on the held-out part of ``corpus``; no weight changes."""
    was_training = model.training
    model.eval()
    try:
        loss = mean_loss(task, model, corpus)
        if not math.isfinite(loss):
            raise NumericsError(
                f"the loss on held-out text is {loss}: training has broken the "
                "weights. A lower training.learning_rate, a longer "
                "training.warmup_steps or training.clip_norm = 1.0 would help, in "
                "another folder; the last checkpoint and the best model are whole"
            )
        sources, references = _evenly_spaced(corpus.dev_text, settings.validation_pairs)
        outputs = task.translate(model, sources)
        samples = _samples(task, model, sources, references, outputs)
    finally:
        model.train(was_training)
    names = {"bleu", settings.measure} - {"loss"}
    return Validation(
        loss=loss,
        scores={
            name: task.measure(name, outputs, references, resamples=BOOTSTRAP_RESAMPLES)
            for name in sorted(names)
        },
        num_scored=len(outputs),
        samples=samples,
    )


@torch.inference_mode()
def mean_loss(task: Translation, model: Transformer, corpus: PreparedCorpus) -> float:
    """Return the mean -ln p of a held-out target token, END counted."""
    total, tokens = 0.0, 0
    for batch in dev_batches(corpus.dev, VALIDATION_TOKENS):
        task.stop()
        total += task.loss(model, batch.to(model.device), smoothing=0.0).item()
        tokens += batch.num_target_tokens
    return total / tokens


def _samples(
    task: Translation,
    model: Transformer,
    sources: Sequence[str],
    references: Sequence[str],
    outputs: Sequence[str],
) -> tuple[Sample, ...]:
    """Keep the first outputs; of the best fit for a picture, the attention too."""
    shown = [
        Sample(source=source, reference=reference, output=output)
        for source, reference, output in zip(
            sources[:NUM_SAMPLES],
            references[:NUM_SAMPLES],
            outputs[:NUM_SAMPLES],
            strict=True,
        )
    ]
    place = _index_to_plot(
        [len(tokens) for tokens in task.encode(sources[:NUM_SAMPLES])]
    )
    attention = attention_of(task, model, shown[place])
    shown[place] = replace(shown[place], attention=attention)
    return tuple(shown)


def _index_to_plot(lengths: Sequence[int]) -> int:
    """Return which text to picture: the longest that fits whole, or the shortest."""
    fits = [length for length in lengths if length < MAX_ATTENTION_TOKENS]
    return lengths.index(max(fits) if fits else min(lengths))


def attention_of(task: Translation, model: Transformer, sample: Sample) -> Attention:
    """Picture how ``model`` looks at a source when it is to write the reference."""
    found = task.cross_attention(model, sample.source, sample.reference)
    most = MAX_ATTENTION_TOKENS
    mean = found.weights[-1].mean(dim=0)[:most, :most]
    return Attention(
        source=tuple(found.source[:most]),
        target=tuple(found.target[:most]),
        weights=tuple(tuple(round(w, 3) for w in row) for row in mean.tolist()),
    )


def _evenly_spaced(
    text: tuple[list[str], list[str]], most: int
) -> tuple[list[str], list[str]]:
    """Take at most ``most`` pairs, evenly spread over the text."""
    sources, references = text
    every = -(-len(sources) // most)
    return sources[::every], references[::every]
