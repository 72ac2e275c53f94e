"""Captioners: the patches of a picture or video, and a text about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headwise.errors import DataError
from headwise.inspection.inspected.encoder_decoder import InspectedEncoderDecoder
from headwise.inspection.patch_grid import grid_of
from headwise.inspection.token_pair import TokenPair, make_pair, with_patches
from headwise.tasks.prediction import InputError


def read_patches(task: Any, text: str) -> NDArray[np.uint8]:
    """Return the patches [S P] of a picture by its path or data URL.

    Raises ``DataError`` for a picture that the model cannot read.
    """
    try:
        patches: NDArray[np.uint8] = task.patches([text], 0)
    except InputError as error:
        raise DataError(error.reason) from None
    return patches


class InspectedCaptioner(InspectedEncoderDecoder):
    """A model of captioning."""

    refusals: ClassVar = {
        "patch": "it is about two sentences that differ in a word, and its inputs are "
        "pictures"
    }

    def source(self, text: str) -> NDArray[np.uint8]:
        """Return the patches of the picture."""
        return read_patches(self.task, text)

    def make_pair(self, text: str, source: Any, target: Sequence[int]) -> TokenPair:
        """Return a picture and its caption."""
        pair = make_pair(self.task.tokenizers, None, target)
        cutter = self.task.cutter  # type: ignore[attr-defined]
        return with_patches(pair, grid_of(cutter, source, first=0), source)
