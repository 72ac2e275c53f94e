"""Pictures as the inputs of a task: their patches, in batches.

Letters used for sizes: S patches of a picture, P values of a patch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.data.pictures import read_picture
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.data.token_budget import BATCH_TOKENS
from headwise.errors import DataError
from headwise.evaluation_mode import evaluation_mode
from headwise.tasks.prediction import InputError
from headwise.tasks.random_shift import shift_pictures
from headwise.text.patch_tokenizer import PatchTokenizer
from headwise.text.tokenizer import TokenizerPair


class PatchSettings(Protocol):
    """What the settings of these tasks have in common."""

    @property
    def max_shift(self) -> int:
        """Pixels by which pictures are shifted at random in training, at most."""
        ...


class PictureInputs:
    """Mixin of tasks whose inputs are pictures.

    An input is the path of a PNG file, or a data URL (:mod:`headwise.text.pixels`); a
    blank one is no picture. Pictures are neither resized nor cropped.
    """

    tokenizers: TokenizerPair
    deterministic: bool
    check_stop: Callable[[], None]

    settings: PatchSettings

    def training_batch(self, batch: Batch, random: np.random.PCG64) -> Batch:
        """Return ``batch`` with its pictures shifted, if the settings say so."""
        most = self.settings.max_shift
        if not most:
            return batch
        return shift_pictures(batch, random, cutter=self.cutter, most=most)

    @property
    def cutter(self) -> PatchTokenizer:
        """What cuts pictures into patches."""
        assert isinstance(self.tokenizers.source, PatchTokenizer)
        return self.tokenizers.source

    def patches(self, texts: Sequence[str], index: int) -> NDArray[np.uint8]:
        """Return the patches [S P] of input ``index``, none of a blank one.

        Raises ``InputError`` for a picture that cannot be used.
        """
        text = texts[index].strip()
        if not text:
            return np.zeros((0, self.cutter.size), np.uint8)
        try:
            pixels = read_picture(text)
            try:
                return self.cutter.patches(pixels)
            except DataError as error:
                name = "the picture" if text.startswith("data:") else text
                raise DataError(f"{name}: {error}") from None
        except DataError as error:
            raise InputError(index, str(error)) from None

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
        with evaluation_mode(model):
            for start in range(0, len(given), step):
                self.check_stop()
                batch = given[start : start + step]
                patches = np.concatenate([self.patches(texts, i) for i in batch])
                lengths = torch.full((len(batch),), self.cutter.num_patches)
                pictures = RaggedTokens.from_lengths(
                    torch.from_numpy(patches).to(model.device), lengths.to(model.device)
                )
                found.update(zip(batch, run(pictures).cpu(), strict=True))
        return [found.get(index) for index in range(len(texts))]
