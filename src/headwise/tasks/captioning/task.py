"""The captioning task: translation whose sources are the patches of pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from headwise.backends.pytorch.install_fused import use_backend
from headwise.data.ragged_batch import RaggedTokens
from headwise.decoding.settings import DecodingSettings, greedy
from headwise.model.captioner import Captioner
from headwise.model.config import TransformerConfig
from headwise.model.encoder_decoder import EncoderDecoder
from headwise.tasks.captioning.settings import CaptioningSettings
from headwise.tasks.description import ModelDescription
from headwise.tasks.encoder_batches import mean_vectors
from headwise.tasks.picture_inputs import PictureInputs
from headwise.tasks.translation.task import Translation

GREEDY = replace(greedy(), max_length_factor=0.0, max_length_offset=100)
"""Greedy search for captions: a picture's size says nothing of their length."""


@dataclass(frozen=True)
class Captioning(PictureInputs, Translation):
    """Trains and uses models that describe pictures.

    The source of a pair is an array [S P] in the place of S tokens.
    """

    default_search: DecodingSettings = GREEDY
    settings: CaptioningSettings = field(default_factory=CaptioningSettings)

    name = "captioning"

    def describe(self, config: TransformerConfig) -> ModelDescription:
        """Return what a model of this architecture is built from."""
        return replace(super().describe(config), options=self.settings)

    def new_model(self, config: TransformerConfig, *, seed: int) -> Captioner:
        """Make a model of this architecture for these patches and this vocabulary."""
        sizes = self.tokenizers.source.size, self.tokenizers.target.size
        return use_backend(Captioner(config, *sizes, seed=seed), "auto")

    def encode(self, texts: Sequence[str]) -> list[Any]:
        """Return the patches [S P] of each picture; none of a blank line."""
        return [self.patches(texts, index) for index in range(len(texts))]

    def vectors(
        self, model: EncoderDecoder, texts: Sequence[str]
    ) -> list[Tensor | None]:
        """Return the mean of the encoder's output [D] for each picture."""

        def run(batch: RaggedTokens) -> Tensor:
            is_real = batch.is_real
            return mean_vectors(model.encode_source(batch.padded(), is_real), is_real)

        return self.rows_of_texts(model, texts, run)

    def attention(self, model: EncoderDecoder, source: str, target: str) -> None:
        """Return None: a heat map has room for fewer sources than there are patches."""
