"""Patches of pictures or videos in the place of tokens: their sizes, kept with a model.

Nothing is learned: a picture is cut into squares, which the model reads as it reads the
tokens of a text. As a line of text, a picture is a data URL of its pixels:
:mod:`headwise.text.pixels`.

Letters used for sizes: T frames (1 of a picture), H height, W width, C channels,
S patches, P values of a patch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headwise.errors import DataError, ModelError, SettingsError
from headwise.settings import read
from headwise.storage import read_json, write_json
from headwise.text.pixels import data_url, pixels_of_url
from headwise.text.settings import TextSettings

if TYPE_CHECKING:
    from headwise.text.pixels import Patches, Pixels

MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Channels -> how Pillow calls such pictures."""

MAX_SIDE = 10**6


@dataclass(frozen=True, slots=True)
class PictureSize:
    """The size of each picture of a data set: they all have the same."""

    frames: int
    height: int
    width: int
    channels: int

    def __str__(self) -> str:
        frames = f"{self.frames} frames of " if self.frames > 1 else ""
        return f"{frames}{self.width} x {self.height} pixels, {MODES[self.channels]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PatchSizes:
    """What the file of a :class:`PatchTokenizer` says."""

    frames: int
    height: int
    width: int
    channels: int
    patch_size: int

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be from 1 to {MAX_SIDE:,}, not {value:,}"
            for name, value in asdict(self).items()
            if not 1 <= value <= MAX_SIDE
        ]
        if self.channels not in MODES:
            problems.append(f"channels must be 1, 3 or 4, not {self.channels}")
        if not problems and (
            self.height % self.patch_size or self.width % self.patch_size
        ):
            problems.append(
                f"{self.width} x {self.height} pixels cannot be cut into patches of "
                f"{self.patch_size} x {self.patch_size}"
            )
        if problems:
            raise SettingsError(problems)


class PatchTokenizer:
    """Cuts pictures of one size into patches; see :class:`Tokenizer`.

    A token would be one number, and a patch is P of them: ``encode`` returns S*P.
    """

    notes: tuple[str, ...] = ()

    def __init__(self, size: PictureSize, patch_size: int) -> None:
        self.picture_size = size
        self.patch_size = patch_size

    @classmethod
    def train(
        cls, lines: Iterable[str], *, vocab_size: int, settings: TextSettings
    ) -> PatchTokenizer:
        """Raise ``SettingsError``: sizes are found as pictures are prepared."""
        raise SettingsError(
            ["text.tokenizer = 'patches' is for pictures: choose another for text"]
        )

    @classmethod
    def open(cls, file: Path, settings: TextSettings) -> PatchTokenizer:
        """Read what ``save`` wrote; raise ``ModelError`` if it is damaged."""
        table = read_json(file)
        try:
            sizes = read(PatchSizes, table if isinstance(table, dict) else {})
        except SettingsError as error:
            raise ModelError(f"{file} cannot be used:\n{error}") from None
        picture = sizes.frames, sizes.height, sizes.width, sizes.channels
        return cls(PictureSize(*picture), sizes.patch_size)

    @property
    def size(self) -> int:
        """Numbers of a patch (P): rows of the matrix that embeds it."""
        return self.patch_size**2 * self.picture_size.channels

    @property
    def num_patches(self) -> int:
        """Patches of a picture (S)."""
        rows, columns = self._grid
        return self.picture_size.frames * rows * columns

    def patches(self, pixels: Pixels) -> Patches:
        """Cut a picture [T H W C] into its patches [S P].

        Raises ``DataError`` for one of another size: pictures are not resized.
        """
        found = PictureSize(*pixels.shape)
        if found != self.picture_size:
            raise DataError(
                f"the model was trained on pictures of {self.picture_size}, not "
                f"{found}; convert the picture to that size and mode"
            )
        return self.cut(pixels[None])

    def cut(self, pictures: Pixels) -> Patches:
        """Cut pictures [B T H W C] into the patches [B*S P] of all."""
        rows, columns, side = *self._grid, self.patch_size
        frames, channels = self.picture_size.frames, self.picture_size.channels
        grid = (-1, frames, rows, side, columns, side, channels)
        return pictures.reshape(grid).swapaxes(3, 4).reshape(-1, self.size)

    def join(self, patches: Patches) -> Pixels:
        """Return the pictures [B T H W C] that were cut into ``patches`` [B*S P]."""
        rows, columns, side = *self._grid, self.patch_size
        size = self.picture_size
        grid = (-1, size.frames, rows, columns, side, side, size.channels)
        shape = (-1, size.frames, size.height, size.width, size.channels)
        return patches.reshape(grid).swapaxes(3, 4).reshape(shape)

    @property
    def _grid(self) -> tuple[int, int]:
        """Patches of a frame, down and across."""
        size, side = self.picture_size, self.patch_size
        return size.height // side, size.width // side

    def encode(self, text: str) -> list[int]:
        """Return the values [S*P] of a picture that is written as a data URL."""
        values: list[int] = self.patches(pixels_of_url(text)).reshape(-1).tolist()
        return values

    def decode(self, ids: Sequence[int]) -> str:
        """Return the data URL of a picture by its values [S*P]."""
        import numpy as np

        return self.url_of_patches(np.asarray(ids, dtype=np.uint8))

    def url_of_patches(self, patches: Patches) -> str:
        """Return the data URL of a picture that was cut into ``patches``."""
        return data_url(self.join(patches)[0])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return each value in digits."""
        return [str(value) for value in ids]

    def save(self, file: Path) -> None:
        """Write the sizes as JSON."""
        write_json(file, {**asdict(self.picture_size), "patch_size": self.patch_size})
