"""The classification task: model, loss and labels, bound together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from headwise.backends.pytorch.install_fused import use_backend
from headwise.data.ragged_batch import RaggedTokens
from headwise.decoding.settings import DecodingSettings
from headwise.model.config import TransformerConfig
from headwise.tasks.classification.model import (
    Classifier,
    TextClassifier,
    classification_loss,
    two_pass_classification_loss,
)
from headwise.tasks.encoder_task import EncoderTask
from headwise.tasks.prediction import Prediction
from headwise.text.vocabulary import SPECIALS


@dataclass(frozen=True, kw_only=True)
class Classification(EncoderTask):
    """Trains and uses classifiers of text.

    The log-probabilities of the parts of a long text are averaged.
    """

    name = "classification"
    always_measured = ("accuracy",)
    loss = staticmethod(classification_loss)
    two_pass_loss = staticmethod(two_pass_classification_loss)

    def new_model(self, config: TransformerConfig, *, seed: int) -> Classifier:
        """Make a model of this architecture for these texts and labels."""
        sizes = self.tokenizers.source.size, self.tokenizers.target.size
        model = TextClassifier(config, *sizes, self.settings, seed=seed)
        return use_backend(model, "auto")

    @property
    def labels(self) -> list[str]:
        """All labels, in the order of the logits."""
        target = self.tokenizers.target
        return target.pieces(range(len(SPECIALS), target.size))

    def predictions(
        self,
        model: Classifier,
        texts: Sequence[str],
        decoding: DecodingSettings | None = None,
    ) -> list[Prediction]:
        """Return the labels of each text with their probabilities, best first."""
        labels = self.labels
        return [_ranked(labels, row) for row in self.log_probabilities(model, texts)]

    def log_probabilities(
        self, model: Classifier, texts: Sequence[str]
    ) -> list[Tensor | None]:
        """Return ln p of all labels [K] for each text; None for a blank one."""

        def run(batch: RaggedTokens) -> Tensor:
            logits: Tensor = model(batch)
            return logits.float().log_softmax(dim=1)

        return self.rows_of_texts(model, texts, run)

    def vectors(self, model: Classifier, texts: Sequence[str]) -> list[Tensor | None]:
        """Return the pooled vector [D] of each text; None for a blank one."""
        return self.rows_of_texts(model, texts, model.pool)


def _ranked(labels: Sequence[str], row: Tensor | None) -> Prediction:
    """Return the prediction of log-probabilities [K]; None is that of a blank line."""
    if row is None:
        return Prediction(output="", log_probability=0.0)
    order = row.argsort(descending=True, stable=True).tolist()
    ranked = [(labels[index], math.exp(row[index])) for index in order]
    best = row[order[0]].item()
    return Prediction(output=ranked[0][0], log_probability=best, ranked=ranked)
