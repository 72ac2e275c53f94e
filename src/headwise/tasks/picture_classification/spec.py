"""Picture classification, without torch: a picture or video into a label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headwise.data import pair_formats
from headwise.settings import merged
from headwise.tasks.classification.spec import ClassificationSpec
from headwise.tasks.description import ModelDescription
from headwise.tasks.patch_settings import check_prepared
from headwise.tasks.picture_classification.settings import PictureSettings
from headwise.tasks.spec import Shapes
from headwise.text.vocabulary import SPECIALS

if TYPE_CHECKING:
    from headwise.tasks.picture_classification.model import PictureClassifier
    from headwise.tasks.picture_classification.task import PictureClassification
    from headwise.text.tokenizer import TokenizerPair


class PictureClassificationSpec(ClassificationSpec):
    """A picture or video into a label; see :class:`headwise.tasks.spec.TaskSpec`.

    In descriptions of models the numbers of a patch are the size of the source
    vocabulary: both are the rows of the matrix that embeds.
    """

    name = "picture_classification"
    summary = "a picture or video into a label: digits, objects, movements"
    hub_task = "image-classification"
    pair_format = pair_formats.PICTURES
    options = PictureSettings

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Settings that differ from those of presets."""
        return merged(super().defaults, {"text": {"tokenizer": "patches"}})

    def open(
        self,
        tokenizers: TokenizerPair,
        options: Any,
        *,
        deterministic: bool = False,
        max_tokens: int | None = None,
    ) -> PictureClassification:
        """Return the task, which needs torch.

        Raises ``SettingsError`` if pictures were prepared with another patch size.
        """
        from headwise.tasks.picture_classification.task import PictureClassification

        settings = options or PictureSettings()
        check_prepared(tokenizers, settings.patch_size, self.name)
        return PictureClassification(
            tokenizers=tokenizers,
            settings=settings,
            deterministic=deterministic,
            max_tokens=max_tokens,
        )

    def build(
        self, description: ModelDescription, *, seed: int = 0
    ) -> PictureClassifier:
        """Return a model with weights drawn from ``seed``."""
        from headwise.tasks.picture_classification.model import PictureClassifier

        return PictureClassifier(
            description.config,
            description.source_vocab_size,
            description.target_vocab_size,
            description.options or PictureSettings(),
            seed=seed,
        )

    def vocab_sizes(self, shapes: Shapes) -> tuple[int, int] | None:
        """Return the numbers of a patch, and the size of the target vocabulary."""
        patches = shapes.get("picture_encoder.embedding.projection.weight")
        labels = shapes.get("head.to_logits.weight")
        if patches is None or labels is None:
            return None
        return patches[1], len(SPECIALS) + labels[0]
