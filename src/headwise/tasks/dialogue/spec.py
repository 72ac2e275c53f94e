"""Dialogues, without torch: turns answered by a language model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headwise.data import pair_formats
from headwise.model.config import TransformerConfig
from headwise.tasks.language_model.settings import LanguageModelSettings
from headwise.tasks.language_model.spec import CONTEXT, LanguageModelSpec
from headwise.text.dialogue import SYMBOLS
from headwise.text.settings import TextSettings

if TYPE_CHECKING:
    from torch import Tensor

    from headwise.consistency import TwoPassLoss
    from headwise.tasks.dialogue.task import Answering
    from headwise.text.tokenizer import TokenizerPair


class DialogueSpec(LanguageModelSpec):
    """Turns answered, by the model of language modelling.

    See :class:`headwise.tasks.spec.TaskSpec`.
    """

    name = "dialogue"
    summary = "the turns of a dialogue, answered"
    command = "chat"
    pair_format: pair_formats.PairFormat = pair_formats.DIALOGUES
    defaults: Mapping[str, Any] = {
        "text": {"normalization": "lossless", "symbols": SYMBOLS},
        "model": {"encoder_layers": 0, "positions": "rotary"},
        "training": {"measure": "loss", "label_smoothing": 0.0},
        "decoding": {"beam": 1, "max_length_factor": 0.0, "max_length_offset": 200},
    }
    measures: tuple[str, ...] = ("exact-match", "bleu", "chrf")
    final_measures: tuple[str, ...] = ("exact-match",)

    def problems(self, config: TransformerConfig, text: TextSettings) -> list[str]:
        """Return the problems of settings that do not suit the task."""
        problems = super().problems(config, text)
        missing = [each for each in SYMBOLS if each not in text.symbols]
        if missing:
            problems.append(
                f"text.symbols must have {', '.join(missing)} for task = 'dialogue', "
                "which separate turns; train a language model to start from with "
                f"text.symbols = {[*SYMBOLS]}"
            )
        return problems

    def open(
        self,
        tokenizers: TokenizerPair,
        options: Any,
        *,
        deterministic: bool = False,
        max_tokens: int | None = None,
    ) -> Answering:
        """Return the task, which needs torch.

        Both the turns up to an answer and the answer may have ``max_tokens``.
        """
        from headwise.tasks.dialogue.task import Answering

        return Answering(
            tokenizers,
            options or LanguageModelSettings(),
            deterministic=deterministic,
            context=2 * (max_tokens or CONTEXT),
        )

    def loss(self) -> Callable[..., Tensor]:
        """Return the loss function of the task."""
        from headwise.tasks.dialogue.loss import answer_loss

        return answer_loss

    def two_pass_loss(self) -> Callable[..., TwoPassLoss] | None:
        """Return the loss of two passes of the task."""
        from headwise.tasks.dialogue.loss import two_pass_answer_loss

        return two_pass_answer_loss
