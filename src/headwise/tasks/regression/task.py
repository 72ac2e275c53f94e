"""The regression task: model, loss and numbers, bound together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from torch import Tensor

from headwise.backends.pytorch.install_fused import use_backend
from headwise.data.ragged_batch import RaggedTokens
from headwise.decoding.settings import DecodingSettings
from headwise.model.config import TransformerConfig
from headwise.tasks.encoder_task import EncoderTask
from headwise.tasks.prediction import Prediction
from headwise.tasks.regression.model import TextRegressor, regression_loss
from headwise.text.number_tokenizer import NumberTokenizer


@dataclass(frozen=True, kw_only=True)
class Regression(EncoderTask):
    """Trains and uses models that give a text a number.

    The numbers of the parts of a long text are averaged.
    """

    name = "regression"
    has_perplexity = False
    always_measured = ("rmse",)
    loss = staticmethod(regression_loss)

    def new_model(self, config: TransformerConfig, *, seed: int) -> TextRegressor:
        """Make a model of this architecture for these texts."""
        size = self.tokenizers.source.size
        model = TextRegressor(config, size, self.settings, seed=seed)
        return use_backend(model, "auto")

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

        results = []
        for value in self.rows_of_texts(model, texts, run):
            text = "" if value is None else numbers.text(value.item())
            number = float(text) if text else None
            results.append(Prediction(output=text, log_probability=None, number=number))
        return results

    def vectors(
        self, model: TextRegressor, texts: Sequence[str]
    ) -> list[Tensor | None]:
        """Return the pooled vector [D] of each text; None for a blank one."""
        return self.rows_of_texts(model, texts, model.pool)
