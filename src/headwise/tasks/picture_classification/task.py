"""The picture classification task: model, loss and labels, bound together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwise.backends.pytorch.install_fused import use_backend
from headwise.model.config import TransformerConfig
from headwise.tasks.classification.task import Classification
from headwise.tasks.picture_classification.model import PictureClassifier
from headwise.tasks.picture_inputs import PictureInputs


@dataclass(frozen=True, kw_only=True)
class PictureClassification(PictureInputs, Classification):
    """Trains and uses classifiers of pictures."""

    name = "picture_classification"

    def new_model(self, config: TransformerConfig, *, seed: int) -> PictureClassifier:
        """Make a model of this architecture for these patches and labels."""
        sizes = self.tokenizers.source.size, self.tokenizers.target.size
        model = PictureClassifier(config, *sizes, self.settings, seed=seed)
        return use_backend(model, "auto")

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return a row as long as each picture has patches; patches have no numbers."""
        return [[0] * self.cutter.num_patches if text.strip() else [] for text in texts]
