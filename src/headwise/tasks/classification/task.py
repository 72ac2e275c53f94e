"""The classification task: model, loss and labels, bound together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from headwise.backends.pytorch.install_fused import use_backend
from headwise.data.ragged_batch import RaggedTokens
from headwise.decoding.settings import DecodingSettings
from headwise.model.config import TransformerConfig
from headwise.tasks.classification.model import TextClassifier, classification_loss
from headwise.tasks.classification.ranked_labels import labels_of, ranked_labels
from headwise.tasks.encoder_task import EncoderTask
from headwise.tasks.prediction import Prediction


@dataclass(frozen=True, kw_only=True)
class Classification(EncoderTask):
    """Trains and uses classifiers of text.

    The log-probabilities of the parts of a long text are averaged.
    """

    name = "classification"
    always_measured = ("accuracy",)
    loss = staticmethod(classification_loss)

    def new_model(self, config: TransformerConfig, *, seed: int) -> TextClassifier:
        """Make a model of this architecture for these texts and labels."""
        sizes = self.tokenizers.source.size, self.tokenizers.target.size
        model = TextClassifier(config, *sizes, self.settings, seed=seed)
        return use_backend(model, "auto")

    @property
    def labels(self) -> list[str]:
        """All labels, in the order of the logits."""
        return labels_of(self.tokenizers)

    def predictions(
        self,
        model: TextClassifier,
        texts: Sequence[str],
        decoding: DecodingSettings | None = None,
    ) -> list[Prediction]:
        """Return the labels of each text with their probabilities, best first."""
        labels = self.labels

        def run(batch: RaggedTokens) -> Tensor:
            logits: Tensor = model(batch)
            return logits.float().log_softmax(dim=1)

        return [
            ranked_labels(labels, row) for row in self.rows_of_texts(model, texts, run)
        ]

    def vectors(
        self, model: TextClassifier, texts: Sequence[str]
    ) -> list[Tensor | None]:
        """Return the pooled vector [D] of each text; None for a blank one."""
        return self.rows_of_texts(model, texts, model.pool)
