"""Looking at a model: loss and perplexity, and what it makes of held-out text."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from headwise.data.batches import dev_batches
from headwise.data.prepared import PreparedCorpus
from headwise.errors import NumericsError
from headwise.tasks import Score, Transformer, Translation, perplexity
from headwise.training.settings import TrainingSettings

VALIDATION_TOKENS = 4096
"""Target tokens scored at a time, padding counted."""

SAMPLES = 3
"""Outputs that are kept to be looked at."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A held-out pair and what the model made of its source."""

    source: str
    reference: str
    output: str


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
        sources, references = _spread(corpus.dev_text, settings.validation_pairs)
        outputs = task.translate(model, sources)
    finally:
        model.train(was_training)
    names = {"bleu", settings.measure} - {"loss"}
    shown = zip(sources, references, outputs, strict=True)
    return Validation(
        loss=loss,
        scores={
            name: task.measure(name, outputs, references) for name in sorted(names)
        },
        num_scored=len(outputs),
        samples=tuple(
            Sample(source=source, reference=reference, output=output)
            for source, reference, output in list(shown)[:SAMPLES]
        ),
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


def _spread(
    text: tuple[list[str], list[str]], most: int
) -> tuple[list[str], list[str]]:
    """Take at most ``most`` pairs, evenly spread over the text."""
    sources, references = text
    every = -(-len(sources) // most)
    return sources[::every], references[::every]
