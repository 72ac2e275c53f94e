"""Where the patches of a picture or video lie, and the picture itself.

Letters used for sizes: T frames (1 of a picture), H height, W width, C channels,
S patches, P values of a patch.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.text.patch_tokenizer import PatchTokenizer


@dataclass(frozen=True, slots=True)
class PatchGrid:
    """The patches of each frame, row by row from the upper left, frame by frame."""

    rows: int
    columns: int
    frames: int
    """1 of a picture."""

    first: int
    """The position of the first patch: 1 if the [class] token is before it."""

    image: str
    """The picture as a PNG in a data URL; of a video its frames, left to right."""

    @property
    def pieces(self) -> tuple[str, ...]:
        """What each patch is called; rows, columns and frames are counted from 0."""
        frames = [""]
        if self.frames > 1:
            frames = [f"frame {frame}, " for frame in range(self.frames)]
        return tuple(
            f"{frame}row {row}, column {column}"
            for frame in frames
            for row in range(self.rows)
            for column in range(self.columns)
        )


def grid_of(
    cutter: PatchTokenizer, patches: NDArray[np.uint8], *, first: int
) -> PatchGrid:
    """Return the grid of a picture that was cut into ``patches`` [S P]."""
    size, side = cutter.picture_size, cutter.patch_size
    frames = np.concatenate([*cutter.join(patches)[0]], axis=1)  # T H W C -> H TW C
    return PatchGrid(
        size.height // side, size.width // side, size.frames, first, png_url(frames)
    )


def png_url(pixels: NDArray[np.uint8]) -> str:
    """Return pixels [H W C] as a PNG in a data URL (RFC 2397)."""
    from PIL import Image

    file = io.BytesIO()
    shown = pixels[:, :, 0] if pixels.shape[2] == 1 else pixels
    Image.fromarray(shown).save(file, "PNG", optimize=True)
    written = base64.b64encode(file.getvalue()).decode("ascii")
    return f"data:image/png;base64,{written}"
