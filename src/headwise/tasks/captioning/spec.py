"""Captioning, without torch: a picture or video into a text that describes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headwise.data import pair_formats
from headwise.model.config import ModelKind, TransformerConfig
from headwise.tasks.captioning.settings import CaptioningSettings
from headwise.tasks.description import ModelDescription
from headwise.tasks.patch_settings import check_prepared
from headwise.tasks.spec import Shapes
from headwise.tasks.translation.spec import TranslationSpec
from headwise.text.settings import TextSettings

if TYPE_CHECKING:
    from headwise.model.captioner import Captioner
    from headwise.tasks.captioning.task import Captioning
    from headwise.text.tokenizer import TokenizerPair


class CaptioningSpec(TranslationSpec):
    """A picture into a text, by the model of translation and with its loss.

    See :class:`headwise.tasks.spec.TaskSpec`. In descriptions of models the numbers of
    a patch are the size of the source vocabulary.
    """

    name = "captioning"
    summary = "a picture or video into a text that describes it"
    command = "predict"
    hub_task = "image-to-text"
    kinds: tuple[ModelKind, ...] = ("transformer",)
    pair_format: pair_formats.PairFormat = pair_formats.CAPTIONS
    defaults: Mapping[str, Any] = {
        "text": {"tokenizer": "patches", "target_tokenizer": "bpe", "joint": False},
        "model": {"tie_embeddings": "output"},
        "training": {"measure": "bleu"},
        "decoding": {"max_length_factor": 0.0, "max_length_offset": 100},
    }
    options: type | None = CaptioningSettings

    def problems(self, config: TransformerConfig, text: TextSettings) -> list[str]:
        """Return the problems of settings that do not suit the task."""
        problems = super().problems(config, text)
        if text.joint:
            problems.append(
                "text.joint must be false for task = 'captioning': pictures have no "
                "vocabulary"
            )
        return problems

    def open(
        self,
        tokenizers: TokenizerPair,
        options: Any,
        *,
        deterministic: bool = False,
        max_tokens: int | None = None,
    ) -> Captioning:
        """Return the task, which needs torch.

        Raises ``SettingsError`` if pictures were prepared with another patch size.
        """
        from headwise.tasks.captioning.task import Captioning

        settings = options or CaptioningSettings()
        check_prepared(tokenizers, settings.patch_size, self.name)
        return Captioning(tokenizers, deterministic=deterministic, settings=settings)

    def build(self, description: ModelDescription, *, seed: int = 0) -> Captioner:
        """Return a model with weights drawn from ``seed``."""
        from headwise.model.captioner import Captioner

        sizes = description.source_vocab_size, description.target_vocab_size
        return Captioner(description.config, *sizes, seed=seed)

    def vocab_sizes(self, shapes: Shapes) -> tuple[int, int] | None:
        """Return the numbers of a patch, and the size of the target vocabulary."""
        patches = shapes.get("embeddings.source.projection.weight")
        target = shapes.get("embeddings.target.vectors")
        if patches is None or target is None:
            return None
        return patches[1], target[0]
