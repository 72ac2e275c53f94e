"""Tagging, without torch: a tag for each word of a text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwise.data import pair_formats
from headwise.tasks.description import ModelDescription
from headwise.tasks.encoder_spec import EncoderSpec
from headwise.tasks.spec import Shapes
from headwise.text.vocabulary import UNKNOWN

if TYPE_CHECKING:
    from torch import Tensor

    from headwise.consistency import TwoPassLoss
    from headwise.tasks.tagging.model import Tagger
    from headwise.tasks.tagging.task import Tagging
    from headwise.text.tokenizer import TokenizerPair


class TaggingSpec(EncoderSpec):
    """Words into tags; see :class:`headwise.tasks.spec.TaskSpec`."""

    name = "tagging"
    summary = "words into a tag each: parts of speech, names"
    hub_task = "token-classification"
    pair_format = pair_formats.TAGGED_WORDS
    target_tokenizer = "spaces"
    measures = ("tag-accuracy", "exact-match")
    options: type | None = None
    has_two_pass_loss = True

    def open(
        self,
        tokenizers: TokenizerPair,
        options: Any,
        *,
        deterministic: bool = False,
        max_tokens: int | None = None,
    ) -> Tagging:
        """Return the task, which needs torch."""
        from headwise.tasks.tagging.task import Tagging

        return Tagging(
            tokenizers=tokenizers, deterministic=deterministic, max_tokens=max_tokens
        )

    def build(self, description: ModelDescription, *, seed: int = 0) -> Tagger:
        """Return a model with weights drawn from ``seed``."""
        from headwise.tasks.tagging.model import Tagger

        sizes = description.source_vocab_size, description.target_vocab_size
        return Tagger(description.config, *sizes, seed=seed)

    def vocab_sizes(self, shapes: Shapes) -> tuple[int, int] | None:
        """Return the sizes of both vocabularies by the shapes of a model's weights."""
        source = shapes.get("encoder_only.embedding.vectors")
        tags = shapes.get("head.to_logits.weight")
        if source is None or tags is None:
            return None
        return source[0], UNKNOWN + tags[0]

    def loss(self) -> Callable[..., Tensor]:
        """Return the loss function of the task."""
        from headwise.tasks.tagging.model import tagging_loss

        return tagging_loss

    def two_pass_loss(self) -> Callable[..., TwoPassLoss] | None:
        """Return the loss of two passes of the task."""
        from headwise.tasks.tagging.model import two_pass_tagging_loss

        return two_pass_tagging_loss
