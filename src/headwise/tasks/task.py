"""What training knows of a task: model, loss, predictions, metrics, attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, Self

from torch import Tensor

from headwise.data.ragged_batch import Batch
from headwise.metrics.score import Score
from headwise.model.config import TransformerConfig
from headwise.model.transformer import Transformer
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
    """Binds data, model, loss, search and metrics for one use of the model."""

    @property
    def tokenizers(self) -> TokenizerPair:
        """What turns text into tokens and back."""
        ...

    @property
    def check_stop(self) -> Callable[[], None]:
        """Called before each batch of a search or validation; may raise to end it."""
        ...

    def with_check_stop(self, check_stop: Callable[[], None]) -> Self:
        """Return this task with another ``check_stop``."""
        ...

    def new_model(self, config: TransformerConfig, *, seed: int) -> Transformer:
        """Make a model with weights drawn from ``seed``."""
        ...

    def loss(self, model: Transformer, batch: Batch, *, smoothing: float) -> Tensor:
        """Return the loss, summed over the target tokens, in nats."""
        ...

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Turn inputs into tokens."""
        ...

    def predict(self, model: Transformer, texts: Sequence[str]) -> list[str]:
        """Return the model's output for each input, as validation compares it."""
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

    def attention(self, model: Transformer, source: str, target: str) -> Attention:
        """Return the attention of ``model`` as it writes ``target``."""
        ...
