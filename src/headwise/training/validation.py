"""Validation: loss, perplexity and scores of outputs on held-out text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from headwise.data.batches import dev_batches
from headwise.data.picture_entries import shown_source
from headwise.data.prepared import PreparedCorpus
from headwise.errors import NumericsError
from headwise.evaluation_mode import evaluation_mode
from headwise.metrics.perplexity import perplexity
from headwise.metrics.score import Score
from headwise.model.sequence_model import SequenceModel
from headwise.tasks.task import Task
from headwise.training.settings import TrainingSettings

VALIDATION_TOKENS = 4096
"""Target tokens of a batch for the loss, padding included."""

NUM_SAMPLES = 3
"""Sample outputs that a validation keeps."""

BOOTSTRAP_RESAMPLES = 1000
"""Bootstrap resamples for the confidence interval of a score."""

MAX_ATTENTION_TOKENS = 24
"""Tokens per side that a heat map of attention shows; the rest is cut off."""


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Cross-attention weights: target tokens x source tokens.

    The mean over the heads of the last decoder block. The target is the reference, not
    an output, so that the rows stay the same from one validation to the next.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    """One row per target token; weights are rounded to three decimals."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A held-out pair, and the model's output for its source."""

    source: str
    reference: str
    output: str
    attention: Attention | None = None
    """Set for one sample only, the one that suits a heat map best."""


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Results of one validation; ``log.jsonl`` has the fields under their names."""

    loss: float
    """Mean -ln p of a held-out target token, END included, in nats; of regression, the
    mean of what it minimizes."""

    scores: dict[str, Score]
    """Metric name -> score of the outputs, those of greedy search if there is one."""

    num_scored: int
    """Number of held-out pairs whose outputs were scored, evenly spaced."""

    samples: tuple[Sample, ...]

    has_perplexity: bool = True
    """Whether the loss is a mean -ln p."""

    @property
    def perplexity(self) -> float | None:
        """Perplexity: exp(loss); None if the loss has none."""
        return perplexity(self.loss, 1) if self.has_perplexity else None

    def value(self, measure: str) -> float:
        """Return the loss, or the score of the metric of that name."""
        return self.loss if measure == "loss" else self.scores[measure].value


def validate(
    task: Task,
    model: SequenceModel,
    corpus: PreparedCorpus,
    settings: TrainingSettings,
) -> Validation:
    """Validate ``model`` on the held-out part of ``corpus``; no weight changes.

    Raises ``NumericsError`` if the loss is NaN or infinite.
    """
    with evaluation_mode(model):
        loss = mean_loss(task, model, corpus)
        if not math.isfinite(loss):
            raise NumericsError(
                f"the loss on held-out text is {loss}: training has broken the "
                "weights. A lower training.learning_rate, a longer "
                "training.warmup_steps or training.clip_norm = 1.0 would help, in "
                "another folder; the last checkpoint and the best model are whole"
            )
        names = {*task.always_measured, settings.measure} - {"loss"}
        # Without a metric of outputs, only those that are shown are computed.
        most = settings.validation_pairs if names else NUM_SAMPLES
        sources, references = scored_text(corpus, most)
        outputs = task.predict(model, sources)
        samples = _samples(task, model, sources, references, outputs)
    return Validation(
        loss=loss,
        scores={
            name: task.measure(name, outputs, references, resamples=BOOTSTRAP_RESAMPLES)
            for name in sorted(names)
        },
        num_scored=len(outputs) if names else 0,
        samples=samples,
        has_perplexity=task.has_perplexity,
    )


@torch.inference_mode()
def mean_loss(task: Task, model: SequenceModel, corpus: PreparedCorpus) -> float:
    """Return the mean -ln p of a held-out target token, END included, in nats."""
    total, tokens = 0.0, 0
    for batch in dev_batches(corpus.dev, VALIDATION_TOKENS):
        task.check_stop()
        total += task.loss(model, batch.to(model.device), smoothing=0.0).item()
        tokens += batch.num_target_tokens
    return total / tokens


def _samples(
    task: Task,
    model: SequenceModel,
    sources: Sequence[str],
    references: Sequence[str],
    outputs: Sequence[str],
) -> tuple[Sample, ...]:
    """Return the first outputs; the one that suits a heat map has its attention."""
    if not sources:
        return ()
    shown = [
        Sample(source=shown_source(source), reference=reference, output=output)
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
    """Return the index of the longest text that fits a heat map, or the shortest."""
    fits = [length for length in lengths if length < MAX_ATTENTION_TOKENS]
    return lengths.index(max(fits) if fits else min(lengths))


def attention_of(task: Task, model: SequenceModel, sample: Sample) -> Attention | None:
    """Return the cross-attention of ``model`` over a sample, reference forced.

    None if the task has none.
    """
    found = task.attention(model, sample.source, sample.reference)
    if found is None:
        return None
    most = MAX_ATTENTION_TOKENS
    mean = found.weights[-1].mean(dim=0)[:most, :most]
    return Attention(
        source=tuple(found.source[:most]),
        target=tuple(found.target[:most]),
        weights=tuple(tuple(round(w, 3) for w in row) for row in mean.tolist()),
    )


def scored_text(corpus: PreparedCorpus, most: int) -> tuple[list[str], list[str]]:
    """Return the held-out sources and references that a validation scores."""
    sources, references = corpus.dev_text
    chosen = scored_indices(len(sources), most)
    return [sources[each] for each in chosen], [references[each] for each in chosen]


def scored_indices(pairs: int, most: int) -> list[int]:
    """Return ``most`` of so many pairs, evenly spaced; all if they are fewer."""
    count = min(most, pairs)
    return [number * pairs // count for number in range(count)]
