"""The regression task: model, loss, numbers and metrics, bound together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from torch import Tensor

from headwise.backends.pytorch.install_fused import use_backend
from headwise.data.ragged_batch import RaggedTokens
from headwise.decoding.settings import DecodingSettings
from headwise.metrics.registry import measure
from headwise.metrics.score import Score
from headwise.model.config import TransformerConfig
from headwise.tasks.description import ModelDescription
from headwise.tasks.encoder_batches import vectors_of_texts
from headwise.tasks.prediction import Prediction
from headwise.tasks.regression.model import TextRegressor, regression_loss
from headwise.tasks.regression.settings import RegressionSettings
from headwise.text.number_tokenizer import NumberTokenizer
from headwise.text.tokenizer import TokenizerPair


@dataclass(frozen=True)
class Regression:
    """Trains and uses models that give a text a number; models are arguments.

    A text of more than ``max_tokens`` is read in windows of about equal length, whose
    numbers are averaged; None reads any text whole.
    """

    tokenizers: TokenizerPair
    settings: RegressionSettings
    check_stop: Callable[[], None] = lambda: None
    deterministic: bool = False
    max_tokens: int | None = None

    name = "regression"
    always_measured = ("rmse",)
    loss = staticmethod(regression_loss)

    def with_check_stop(self, check_stop: Callable[[], None]) -> Regression:
        """Return this task with another ``check_stop``."""
        return replace(self, check_stop=check_stop)

    def describe(self, config: TransformerConfig) -> ModelDescription:
        """Return what a model of this architecture is built from."""
        return ModelDescription(
            task=self.name,
            config=config,
            source_vocab_size=self.tokenizers.source.size,
            target_vocab_size=self.tokenizers.target.size,
            options=self.settings,
        )

    def new_model(self, config: TransformerConfig, *, seed: int) -> TextRegressor:
        """Make a model of this architecture for these texts."""
        size = self.tokenizers.source.size
        return use_backend(
            TextRegressor(config, size, self.settings, seed=seed), "auto"
        )

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize texts, without END."""
        return [self.tokenizers.source.encode(text) for text in texts]

    def predict(self, model: TextRegressor, texts: Sequence[str]) -> list[str]:
        """Return the number of each text; nothing for a blank one."""
        return [each.output for each in self.predictions(model, texts)]

    def predictions(
        self,
        model: TextRegressor,
        texts: Sequence[str],
        decoding: DecodingSettings | None = None,
    ) -> list[Prediction]:
        """Return the number of each text; a number has no probability."""
        numbers = cast(NumberTokenizer, self.tokenizers.target)

        def run(batch: RaggedTokens) -> Tensor:
            values: Tensor = model(batch)
            return values.float()

        return [
            Prediction(
                output="" if value is None else numbers.text(value.item()),
                log_probability=None,
            )
            for value in self._by_window(model, texts, run)
        ]

    def vectors(
        self, model: TextRegressor, texts: Sequence[str]
    ) -> list[Tensor | None]:
        """Return the pooled vector [D] of each text; None for a blank one."""
        return self._by_window(model, texts, model.pool)

    def _by_window(
        self,
        model: TextRegressor,
        texts: Sequence[str],
        run: Callable[[RaggedTokens], Tensor],
    ) -> list[Tensor | None]:
        return vectors_of_texts(
            self.encode(texts),
            run,
            model,
            max_tokens=self.max_tokens,
            alone=self.deterministic,
            check_stop=self.check_stop,
        )

    def attention(self, model: TextRegressor, source: str, target: str) -> None:
        """Return None: there is no cross-attention to show."""

    def measure(
        self,
        metric: str,
        outputs: Sequence[str],
        references: Sequence[str],
        *,
        resamples: int | None = None,
    ) -> Score:
        """Compare predicted numbers with the right ones."""
        return measure(metric, outputs, references, resamples=resamples)
