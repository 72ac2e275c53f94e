"""Language modelling, without torch: text continued token by token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headwise.data import pair_formats
from headwise.model.config import Stack, TransformerConfig
from headwise.tasks.description import ModelDescription
from headwise.tasks.language_model.settings import LanguageModelSettings
from headwise.tasks.spec import (
    CROSS_ENTROPY,
    Shapes,
    one_vocabulary_problems,
    stack_problems,
)
from headwise.text.settings import TextSettings

if TYPE_CHECKING:
    from torch import Tensor

    from headwise.consistency import TwoPassLoss
    from headwise.model.decoder_only import DecoderOnly
    from headwise.tasks.language_model.task import LanguageModelling
    from headwise.text.tokenizer import TokenizerPair

CONTEXT = 256
"""Tokens of context where no model says how many it was trained on."""


class LanguageModelSpec:
    """Text continued; see :class:`headwise.tasks.spec.TaskSpec`."""

    name = "language_model"
    summary = "text, continued token by token"
    loss_name = CROSS_ENTROPY
    command = "generate"
    hub_task = "text-generation"
    stacks: tuple[Stack, ...] = ("decoder",)
    searches = True
    has_two_pass_loss = True
    pair_format: pair_formats.PairFormat = pair_formats.DOCUMENTS
    defaults: Mapping[str, Any] = {
        "text": {"normalization": "lossless"},
        "model": {"encoder_layers": 0, "positions": "rotary"},
        "training": {"measure": "loss", "label_smoothing": 0.0},
        "decoding": {
            "search": "sampling",
            "beam": 1,
            "max_length_factor": 0.0,
            "max_length_offset": 200,
        },
    }
    measures: tuple[str, ...] = ()
    final_measures: tuple[str, ...] = ()
    options = LanguageModelSettings

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
    ) -> LanguageModelling:
        """Return the task, which needs torch."""
        from headwise.tasks.language_model.task import LanguageModelling

        return LanguageModelling(
            tokenizers,
            options or LanguageModelSettings(),
            deterministic=deterministic,
            context=max_tokens or CONTEXT,
        )

    def build(self, description: ModelDescription, *, seed: int = 0) -> DecoderOnly:
        """Return a model with weights drawn from ``seed``."""
        from headwise.model.decoder_only import DecoderOnly

        options = description.options or LanguageModelSettings()
        return DecoderOnly(
            description.config,
            description.target_vocab_size,
            window=options.window,
            seed=seed,
        )

    def vocab_sizes(self, shapes: Shapes) -> tuple[int, int] | None:
        """Return the sizes of both vocabularies by the shapes of a model's weights."""
        vectors = shapes.get("embedding.vectors")
        return None if vectors is None else (vectors[0], vectors[0])

    def loss(self) -> Callable[..., Tensor]:
        """Return the loss function of the task."""
        from headwise.tasks.language_model.loss import language_model_loss

        return language_model_loss

    def two_pass_loss(self) -> Callable[..., TwoPassLoss] | None:
        """Return the loss of two passes of the task."""
        from headwise.tasks.language_model.loss import two_pass_language_model_loss

        return two_pass_language_model_loss
