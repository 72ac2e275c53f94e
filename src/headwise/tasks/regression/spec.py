"""Regression, without torch: text into a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwise.data import pair_formats
from headwise.tasks.description import ModelDescription
from headwise.tasks.encoder_spec import EncoderSpec, PoolingSettings
from headwise.tasks.spec import Shapes
from headwise.text.number_tokenizer import HALF

if TYPE_CHECKING:
    from torch import Tensor

    from headwise.tasks.regression.model import TextRegressor
    from headwise.tasks.regression.task import Regression
    from headwise.text.tokenizer import TokenizerPair


class RegressionSpec(EncoderSpec):
    """Text into a number; see :class:`headwise.tasks.spec.TaskSpec`."""

    name = "regression"
    summary = "text into a number: a grade, a similarity"
    loss_name = "half of the mean squared error of standardised numbers"
    hub_task = "text-classification"
    pair_format = pair_formats.NUMBERED_TEXT
    target_tokenizer = "numbers"
    measures = ("rmse", "pearson")
    options = PoolingSettings

    def open(
        self,
        tokenizers: TokenizerPair,
        options: Any,
        *,
        deterministic: bool = False,
        max_tokens: int | None = None,
    ) -> Regression:
        """Return the task, which needs torch."""
        from headwise.tasks.regression.task import Regression

        return Regression(
            tokenizers=tokenizers,
            settings=options or PoolingSettings(),
            deterministic=deterministic,
            max_tokens=max_tokens,
        )

    def build(self, description: ModelDescription, *, seed: int = 0) -> TextRegressor:
        """Return a model with weights drawn from ``seed``."""
        from headwise.tasks.regression.model import TextRegressor

        return TextRegressor(
            description.config,
            description.source_vocab_size,
            description.options or PoolingSettings(),
            seed=seed,
        )

    def vocab_sizes(self, shapes: Shapes) -> tuple[int, int] | None:
        """Return the sizes of both vocabularies by the shapes of a model's weights."""
        source = shapes.get("encoder_only.embedding.vectors")
        return None if source is None else (source[0], HALF)

    def loss(self) -> Callable[..., Tensor]:
        """Return the loss function of the task."""
        from headwise.tasks.regression.model import regression_loss

        return regression_loss
