"""Masked language modelling, without torch: hidden tokens of a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headwise.data import pair_formats
from headwise.model.config import Stack, TransformerConfig
from headwise.tasks.description import ModelDescription
from headwise.tasks.masked_language_model.settings import MaskingSettings
from headwise.tasks.spec import (
    CROSS_ENTROPY,
    Shapes,
    one_vocabulary_problems,
    stack_problems,
)
from headwise.text.settings import TextSettings

if TYPE_CHECKING:
    from torch import Tensor

    from headwise.tasks.masked_language_model.model import MaskedLanguageModel
    from headwise.tasks.masked_language_model.task import MaskedLanguageModelling
    from headwise.text.tokenizer import TokenizerPair

CONTEXT = 256
"""Tokens of a window where no model says how many it was trained on."""


class MaskedLanguageModelSpec:
    """Masked words found again; see :class:`headwise.tasks.spec.TaskSpec`."""

    name = "masked_language_model"
    summary = "text with masked words, filled in: to pre-train an encoder"
    loss_name = CROSS_ENTROPY
    command = "predict"
    hub_task = "fill-mask"
    stacks: tuple[Stack, ...] = ("encoder",)
    searches = False
    has_two_pass_loss = False
    pair_format = pair_formats.DOCUMENTS
    defaults: Mapping[str, Any] = {
        # From sinusoids the neighbours of a word are learned late, or never.
        "model": {"decoder_layers": 0, "positions": "rotary"},
        "training": {"measure": "loss", "label_smoothing": 0.0},
    }
    measures: tuple[str, ...] = ()
    final_measures: tuple[str, ...] = ()
    options = MaskingSettings

    def problems(self, config: TransformerConfig, text: TextSettings) -> list[str]:
        """Return the problems of settings that do not suit the task."""
        return [
            *stack_problems(config, self.stacks),
            *one_vocabulary_problems(text, self.name),
        ]

    def open(
        self,
        tokenizers: TokenizerPair,
        options: Any,
        *,
        deterministic: bool = False,
        max_tokens: int | None = None,
    ) -> MaskedLanguageModelling:
        """Return the task, which needs torch."""
        from headwise.tasks.masked_language_model.task import MaskedLanguageModelling

        return MaskedLanguageModelling(
            tokenizers=tokenizers,
            settings=options or MaskingSettings(),
            deterministic=deterministic,
            max_tokens=max_tokens or CONTEXT,
        )

    def build(
        self, description: ModelDescription, *, seed: int = 0
    ) -> MaskedLanguageModel:
        """Return a model with weights drawn from ``seed``."""
        from headwise.tasks.masked_language_model.model import MaskedLanguageModel

        return MaskedLanguageModel(
            description.config, description.source_vocab_size, seed=seed
        )

    def vocab_sizes(self, shapes: Shapes) -> tuple[int, int] | None:
        """Return the sizes of both vocabularies by the shapes of a model's weights."""
        vectors = shapes.get("encoder_only.embedding.vectors")
        if vectors is None or "head.dense.weight" not in shapes:
            return None
        return vectors[0], vectors[0]

    def loss(self) -> Callable[..., Tensor]:
        """Return the loss function of the task."""
        from headwise.tasks.masked_language_model.model import masked_token_loss

        return masked_token_loss

    def two_pass_loss(self) -> None:
        """Return None: it has no loss of two passes."""
