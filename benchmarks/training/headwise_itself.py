"""headwise: its own ``Trainer`` on its own batches, as ``headwise train`` runs it.

Reading, clipping, reporting and the look at the largest batch are all in it; only
validation, checkpoints and reports are not. That it sees the same batches as the rivals
is checked, not assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from headwise.data.batches import TrainingOrder, make_batch
from headwise.data.prepared import PreparedCorpus
from headwise.model import TransformerConfig
from headwise.tasks.translation.task import Translation
from headwise.training.allocator import keep_freed_memory
from headwise.training.callbacks import StepMetrics
from headwise.training.settings import TrainingSettings
from headwise.training.signals import StopSignals
from headwise.training.trainer import Trainer
from training.batches import BATCH_TOKENS, CORPUS, SEED, Pairs
from training.facts import (
    ADAM_BETAS,
    ADAM_EPSILON,
    LABEL_SMOOTHING,
    WARMUP_STEPS,
    Setup,
)


class _AllDoneError(Exception):
    """The last batch was learned from."""


def settings_of(setup: Setup) -> TrainingSettings:
    """Return what a user would set: the one place for precision and backend."""
    return TrainingSettings(
        batch_tokens=BATCH_TOKENS,
        label_smoothing=LABEL_SMOOTHING,
        warmup_steps=WARMUP_STEPS,
        adam_beta1=ADAM_BETAS[0],
        adam_beta2=ADAM_BETAS[1],
        adam_epsilon=ADAM_EPSILON,
        precision=setup.precision,
        backend=setup.path,
        validate_every=10**9,
    )


def config_of(setup: Setup) -> TransformerConfig:
    """Return the architecture; dropout stands in the paper's places by itself."""
    size = setup.size
    return TransformerConfig(
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        d_model=size.d_model,
        d_ff=size.d_ff,
        num_heads=size.num_heads,
        dropout=size.dropout,
    )


class Watch:
    """Hears of updates, and ends training after the last."""

    def __init__(self, count: int, done: Callable[[float], None]) -> None:
        self.count = count
        self.done = done

    def on_step(self, update: StepMetrics, state: object) -> None:
        """Report an update."""
        self.done(update.loss)
        if update.step >= self.count:
            raise _AllDoneError

    def ignore(self, *facts: object) -> None:
        """Do nothing at what else happens."""

    on_start = on_validation = on_message = on_end = ignore


def train(
    setup: Setup, batches: Iterable[Pairs], done: Callable[[float], None]
) -> None:
    """Learn from each batch, one update after the other."""
    keep_freed_memory()
    corpus = PreparedCorpus.open(Path(setup.folder) / CORPUS)
    settings = settings_of(setup)
    count = check_same(corpus, settings, batches)
    task = Translation(corpus.tokenizers)
    model = task.new_model(config_of(setup), seed=setup.seed)
    watch: Any = Watch(count, done)
    nobody: Any = None  # nothing is kept: there is no validation and no checkpoint
    trainer = Trainer(
        task,
        model,
        corpus,
        settings,
        seed=SEED,
        checkpoint_writer=nobody,
        callbacks=[watch],
        signals=StopSignals(),
    )
    stopping_after_the_last(trainer)


def stopping_after_the_last(trainer: Trainer) -> None:
    """Train until a :class:`Watch` has seen enough."""
    try:
        trainer.run()
    except _AllDoneError:
        return
    raise AssertionError("training ended before its last batch")


def check_same(
    corpus: PreparedCorpus, settings: TrainingSettings, batches: Iterable[Pairs]
) -> int:
    """Compare ``batches`` with what headwise will feed itself; return their number."""
    order = TrainingOrder(corpus.train, seed=SEED, batch_tokens=settings.batch_tokens)
    own = (
        make_batch(corpus.train, indices)
        for epoch in range(10**9)
        for indices in order.epoch(epoch)
    )
    count = 0
    for count, (theirs, ours) in enumerate(zip(batches, own, strict=False), start=1):
        if not (
            np.array_equal(theirs.source, ours.source.padded().numpy())
            and np.array_equal(theirs.target, ours.target.padded().numpy())
        ):
            raise AssertionError(f"batch {count} differs from the one on file")
    return count
