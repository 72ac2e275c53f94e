"""What training and inference know of a task that was opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

import numpy as np
from torch import Tensor

from headwise.consistency import Consistency, TwoPassLoss
from headwise.data.ragged_batch import Batch
from headwise.decoding.settings import DecodingSettings
from headwise.metrics.score import Score
from headwise.model.config import TransformerConfig
from headwise.model.sequence_model import SequenceModel
from headwise.tasks.description import ModelDescription
from headwise.tasks.prediction import Prediction
from headwise.text.tokenizer import TokenizerPair


class Attention(Protocol):
    """Attention weights over one example, for a heat map."""

    @property
    def source(self) -> Sequence[str]:
        """S pieces that are attended to."""
        ...

    @property
    def target(self) -> Sequence[str]:
        """T pieces that attend."""
        ...

    @property
    def weights(self) -> Tensor:
        """[N H T S] of N blocks and H heads; each row is a distribution."""
        ...


class Task(Protocol):
    """Binds data, model, loss, search and metrics for one use of the model.

    A model that is an argument is one that :meth:`new_model` made.
    """

    @property
    def name(self) -> str:
        """Name in ``TASKS``."""
        ...

    @property
    def tokenizers(self) -> TokenizerPair:
        """What turns text into tokens and back."""
        ...

    @property
    def has_perplexity(self) -> bool:
        """Whether the loss is a mean -ln p, and e^loss a perplexity."""
        ...

    @property
    def always_measured(self) -> tuple[str, ...]:
        """Metrics that every validation reports."""
        ...

    @property
    def check_stop(self) -> Callable[[], None]:
        """Called before each batch of a search or validation; may raise to end it."""
        ...

    def with_check_stop(self, check_stop: Callable[[], None]) -> Self:
        """Return this task with another ``check_stop``."""
        ...

    def with_length_limits(self, decoding: DecodingSettings) -> Self:
        """Return this task with the length limits of ``decoding`` for validation."""
        ...

    def describe(self, config: TransformerConfig) -> ModelDescription:
        """Return what a model of this architecture is built from."""
        ...

    def new_model(self, config: TransformerConfig, *, seed: int) -> SequenceModel:
        """Make a model with weights drawn from ``seed``."""
        ...

    def training_batch(self, batch: Batch, random: np.random.PCG64) -> Batch:
        """Return a batch as training needs it, such as with masks that were drawn.

        Validation takes batches as they are.
        """
        ...

    def loss(self, model: Any, batch: Batch, *, smoothing: float) -> Tensor:
        """Return the loss, summed over the target tokens, in nats."""
        ...

    def two_pass_loss(
        self, model: Any, batch: Batch, *, smoothing: float, consistency: Consistency
    ) -> TwoPassLoss:
        """Return the loss of both passes of a doubled batch, summed as in :meth:`loss`.

        The sums are over the target tokens of one pass. Raises ``SettingsError`` if the
        task has no such loss (``TaskSpec.has_two_pass_loss``).
        """
        ...

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Turn inputs into tokens."""
        ...

    def predict(self, model: Any, texts: Sequence[str]) -> list[str]:
        """Return the model's output for each input, as validation compares it."""
        ...

    def predictions(
        self,
        model: Any,
        texts: Sequence[str],
        decoding: DecodingSettings | None = None,
    ) -> list[Prediction]:
        """Return outputs with probabilities; ``decoding`` is for tasks that search."""
        ...

    def vectors(self, model: Any, texts: Sequence[str]) -> list[Tensor | None]:
        """Return what the encoder makes of each text [D]; None for a blank one."""
        ...

    def measure(
        self,
        metric: str,
        outputs: Sequence[str],
        references: Sequence[str],
        *,
        resamples: int | None = None,
    ) -> Score:
        """Compare outputs with references; ``resamples`` for a bootstrap interval."""
        ...

    def attention(self, model: Any, source: str, target: str) -> Attention | None:
        """Return the attention of ``model`` as it writes ``target``, if it does."""
        ...
