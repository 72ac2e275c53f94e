"""What the tasks with an encoder alone share, such as how long texts are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from headwise.data.ragged_batch import RaggedTokens
from headwise.decoding.settings import DecodingSettings
from headwise.metrics.registry import measure
from headwise.metrics.score import Score
from headwise.model.config import TransformerConfig
from headwise.tasks.description import ModelDescription
from headwise.tasks.encoder_batches import vectors_of_texts
from headwise.tasks.prediction import Prediction
from headwise.tasks.task_defaults import TaskDefaults
from headwise.text.tokenizer import TokenizerPair


@dataclass(frozen=True, kw_only=True)
class EncoderTask(TaskDefaults, ABC):
    """Base class of the tasks with an encoder alone; models are arguments.

    A text of more than ``max_tokens`` is read in parts; None reads any text whole. With
    ``deterministic`` each text is computed by itself. ``check_stop`` is called before
    each batch, and may raise.
    """

    tokenizers: TokenizerPair
    settings: Any = None
    """Those of the task itself: an instance of its ``TaskSpec.options``."""

    check_stop: Callable[[], None] = lambda: None
    deterministic: bool = False
    max_tokens: int | None = None

    name: ClassVar[str]
    always_measured: ClassVar[tuple[str, ...]]

    def describe(self, config: TransformerConfig) -> ModelDescription:
        """Return what a model of this architecture is built from."""
        return ModelDescription(
            task=self.name,
            config=config,
            source_vocab_size=self.tokenizers.source.size,
            target_vocab_size=self.tokenizers.target.size,
            options=self.settings,
        )

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize texts, without END."""
        return [self.tokenizers.source.encode(text) for text in texts]

    def predict(self, model: Any, texts: Sequence[str]) -> list[str]:
        """Return the output for each text; none for a blank one."""
        return [each.output for each in self.predictions(model, texts)]

    @abstractmethod
    def predictions(
        self,
        model: Any,
        texts: Sequence[str],
        decoding: DecodingSettings | None = None,
    ) -> list[Prediction]:
        """Return the output for each text, with probabilities if there are any."""

    def rows_of_texts(
        self,
        model: Any,
        texts: Sequence[str],
        run: Callable[[RaggedTokens], Tensor],
    ) -> list[Tensor | None]:
        """Return the row of ``run`` of each text, the mean over its parts."""
        return vectors_of_texts(
            self.encode(texts),
            run,
            model,
            max_tokens=self.max_tokens,
            alone=self.deterministic,
            check_stop=self.check_stop,
        )

    def attention(self, model: Any, source: str, target: str) -> None:
        """Return None: there is no cross-attention to show."""
        return

    def measure(
        self,
        metric: str,
        outputs: Sequence[str],
        references: Sequence[str],
        *,
        resamples: int | None = None,
    ) -> Score:
        """Compare outputs with references."""
        return measure(metric, outputs, references, resamples=resamples)
