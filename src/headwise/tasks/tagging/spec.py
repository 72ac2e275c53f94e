"""Tagging, without torch: a tag for each word of a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headwise.data import pair_formats
from headwise.model.config import Stack, TransformerConfig
from headwise.tasks.description import ModelDescription
from headwise.tasks.spec import Shapes, stack_problems
from headwise.text.settings import TextSettings
from headwise.text.vocabulary import UNKNOWN

if TYPE_CHECKING:
    from torch import Tensor

    from headwise.tasks.tagging.model import Tagger
    from headwise.tasks.tagging.task import Tagging
    from headwise.text.tokenizer import TokenizerPair


class TaggingSpec:
    """Words into tags; see :class:`headwise.tasks.spec.TaskSpec`."""

    name = "tagging"
    summary = "words into a tag each: parts of speech, names"
    hub_task = "token-classification"
    stacks: tuple[Stack, ...] = ("encoder",)
    searches = False
    pair_format = pair_formats.TAGGED_WORDS
    defaults: Mapping[str, Any] = {
        "text": {"joint": False, "target_tokenizer": "spaces"},
        "model": {"decoder_layers": 0},
        "training": {"measure": "tag-accuracy"},
    }
    measures = ("tag-accuracy", "exact-match")
    final_measures = ("tag-accuracy", "exact-match")
    options: type | None = None

    def problems(self, config: TransformerConfig, text: TextSettings) -> list[str]:
        """Return the problems of settings that do not suit the task."""
        problems = stack_problems(config, self.stacks)
        if text.joint or text.target_kind != "spaces":
            problems.append(
                "task = 'tagging' needs text.joint = false and text.target_tokenizer = "
                "'spaces', which are its defaults: leave both out"
            )
        return problems

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

        return Tagging(tokenizers, deterministic=deterministic, max_tokens=max_tokens)

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
