"""Translation, without torch: any text into any text, by encoder and decoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, get_args

from headwise.data import pair_formats
from headwise.model.config import ModelKind, Stack, TransformerConfig
from headwise.tasks.description import ModelDescription
from headwise.tasks.spec import CROSS_ENTROPY, Shapes, stack_problems
from headwise.text.settings import TARGET_ONLY, TextSettings

if TYPE_CHECKING:
    from torch import Tensor

    from headwise.consistency import TwoPassLoss
    from headwise.model.encoder_decoder import EncoderDecoder
    from headwise.tasks.translation.task import Translation
    from headwise.text.tokenizer import TokenizerPair


class TranslationSpec:
    """Text into text; see :class:`headwise.tasks.spec.TaskSpec`."""

    name = "translation"
    summary = "text into text: another language, phones, a summary"
    loss_name = CROSS_ENTROPY
    command = "translate"
    hub_task = "translation"
    stacks: tuple[Stack, ...] = ("encoder", "decoder")
    kinds: tuple[ModelKind, ...] = get_args(ModelKind)
    searches = True
    has_two_pass_loss = True
    pair_format: pair_formats.PairFormat = pair_formats.TRANSLATION
    defaults: Mapping[str, Any] = {}
    measures: tuple[str, ...] = (
        *("bleu", "chrf", "ter"),
        *("exact-match", "word-error-rate", "token-error-rate"),
    )
    final_measures: tuple[str, ...] = ("bleu", "chrf")
    options: type | None = None

    def problems(self, config: TransformerConfig, text: TextSettings) -> list[str]:
        """Return the problems of settings that do not suit the task."""
        problems = stack_problems(config, self.stacks, self.kinds)
        if text.target_kind in TARGET_ONLY:
            problems.append(
                f"text.target_tokenizer = {text.target_kind!r} is for other tasks; "
                "text is written piece by piece"
            )
        if not text.joint and config.tie_embeddings == "all":
            problems.append(
                "model.tie_embeddings = 'all' needs one vocabulary for both sides, "
                "but text.joint is false: set it to 'output' or 'none'"
            )
        return problems

    def open(
        self,
        tokenizers: TokenizerPair,
        options: Any,
        *,
        deterministic: bool = False,
        max_tokens: int | None = None,
    ) -> Translation:
        """Return the task, which needs torch."""
        from headwise.tasks.translation.task import Translation

        return Translation(tokenizers, deterministic=deterministic)

    def build(self, description: ModelDescription, *, seed: int = 0) -> EncoderDecoder:
        """Return a model with weights drawn from ``seed``."""
        from headwise.model.kinds import new_encoder_decoder

        sizes = description.source_vocab_size, description.target_vocab_size
        return new_encoder_decoder(description.config, *sizes, seed=seed)

    def vocab_sizes(self, shapes: Shapes) -> tuple[int, int] | None:
        """Return the sizes of both vocabularies by the shapes of a model's weights."""
        target = shapes.get("embeddings.target.vectors")
        if target is None:
            return None
        return shapes.get("embeddings.source.vectors", target)[0], target[0]

    def loss(self) -> Callable[..., Tensor]:
        """Return the loss function of the task."""
        from headwise.backends.select_training import cross_entropy_of

        return cross_entropy_of

    def two_pass_loss(self) -> Callable[..., TwoPassLoss] | None:
        """Return the loss of two passes of the task."""
        from headwise.backends.select_training import two_pass_loss_of

        return two_pass_loss_of
