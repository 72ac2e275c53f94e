"""Classification, without torch: text into one of several labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwise.data import pair_formats
from headwise.tasks.description import ModelDescription
from headwise.tasks.encoder_spec import EncoderSpec, PoolingSettings
from headwise.tasks.spec import Shapes
from headwise.text.vocabulary import SPECIALS

if TYPE_CHECKING:
    from torch import Tensor

    from headwise.consistency import TwoPassLoss
    from headwise.tasks.classification.model import Classifier
    from headwise.tasks.classification.task import Classification
    from headwise.text.tokenizer import TokenizerPair


class ClassificationSpec(EncoderSpec):
    """Text into a label; see :class:`headwise.tasks.spec.TaskSpec`."""

    name = "classification"
    summary = "text into a label: sentiment, topic, language"
    hub_task = "text-classification"
    pair_format = pair_formats.LABELLED_TEXT
    target_tokenizer = "labels"
    measures = ("accuracy", "macro-f1")
    options: type = PoolingSettings
    has_two_pass_loss = True

    def open(
        self,
        tokenizers: TokenizerPair,
        options: Any,
        *,
        deterministic: bool = False,
        max_tokens: int | None = None,
    ) -> Classification:
        """Return the task, which needs torch."""
        from headwise.tasks.classification.task import Classification

        return Classification(
            tokenizers=tokenizers,
            settings=options or PoolingSettings(),
            deterministic=deterministic,
            max_tokens=max_tokens,
        )

    def build(self, description: ModelDescription, *, seed: int = 0) -> Classifier:
        """Return a model with weights drawn from ``seed``."""
        from headwise.tasks.classification.model import TextClassifier

        return TextClassifier(
            description.config,
            description.source_vocab_size,
            description.target_vocab_size,
            description.options or PoolingSettings(),
            seed=seed,
        )

    def vocab_sizes(self, shapes: Shapes) -> tuple[int, int] | None:
        """Return the sizes of both vocabularies by the shapes of a model's weights."""
        source = shapes.get("encoder_only.embedding.vectors")
        labels = shapes.get("head.to_logits.weight")
        if source is None or labels is None:
            return None
        return source[0], len(SPECIALS) + labels[0]

    def loss(self) -> Callable[..., Tensor]:
        """Return the loss function of the task."""
        from headwise.tasks.classification.model import classification_loss

        return classification_loss

    def two_pass_loss(self) -> Callable[..., TwoPassLoss] | None:
        """Return the loss of two passes of the task."""
        from headwise.tasks.classification.model import two_pass_classification_loss

        return two_pass_classification_loss
