"""The picture classification task: model, loss and labels, bound together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.backends.pytorch.install_fused import use_backend
from headwise.data.pictures import read_picture
from headwise.data.ragged_batch import RaggedTokens
from headwise.errors import DataError
from headwise.model.config import TransformerConfig
from headwise.tasks.classification.task import Classification
from headwise.tasks.picture_classification.model import PictureClassifier
from headwise.tasks.prediction import InputError
from headwise.tasks.task import BATCH_TOKENS
from headwise.text.patch_tokenizer import PatchTokenizer


@dataclass(frozen=True, kw_only=True)
class PictureClassification(Classification):
    """Trains and uses classifiers of pictures.

    An input is the path of a PNG file, or a data URL (:mod:`headwise.text.pixels`).
    Raises ``InputError`` for one that cannot be used: pictures are
    neither resized nor cut.
    """

    name = "picture_classification"

    def new_model(self, config: TransformerConfig, *, seed: int) -> PictureClassifier:
        """Make a model of this architecture for these patches and labels."""
        sizes = self.tokenizers.source.size, self.tokenizers.target.size
        model = PictureClassifier(config, *sizes, self.settings, seed=seed)
        return use_backend(model, "auto")

    @property
    def cutter(self) -> PatchTokenizer:
        """What cuts pictures into patches."""
        assert isinstance(self.tokenizers.source, PatchTokenizer)
        return self.tokenizers.source

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return a row as long as each picture has patches; patches have no numbers."""
        return [[0] * self.cutter.num_patches if text.strip() else [] for text in texts]

    @torch.inference_mode()
    def rows_of_texts(
        self,
        model: Any,
        texts: Sequence[str],
        run: Callable[[RaggedTokens], Tensor],
    ) -> list[Tensor | None]:
        """Return the row of ``run`` of each picture, None for a blank line."""
        given = [index for index, text in enumerate(texts) if text.strip()]
        most = max(1, BATCH_TOKENS // (self.cutter.num_patches + 1))
        step = 1 if self.deterministic else most
        found: dict[int, Tensor] = {}
        was_training = model.training
        model.eval()
        try:
            for start in range(0, len(given), step):
                self.check_stop()
                batch = given[start : start + step]
                patches = np.concatenate([self._patches(texts, i) for i in batch])
                lengths = torch.full((len(batch),), self.cutter.num_patches)
                pictures = RaggedTokens.from_lengths(
                    torch.from_numpy(patches).to(model.device), lengths.to(model.device)
                )
                found.update(zip(batch, run(pictures).cpu(), strict=True))
        finally:
            model.train(was_training)
        return [found.get(index) for index in range(len(texts))]

    def _patches(self, texts: Sequence[str], index: int) -> NDArray[np.uint8]:
        """Return the patches [S P] of input ``index``; raise ``InputError``."""
        text = texts[index].strip()
        try:
            pixels = read_picture(text)
            try:
                return self.cutter.patches(pixels)
            except DataError as error:
                name = "the picture" if text.startswith("data:") else text
                raise DataError(f"{name}: {error}") from None
        except DataError as error:
            raise InputError(index, str(error)) from None
