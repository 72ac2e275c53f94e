"""Labelled pictures or videos, cut into patches: from PNG files or ``.npz`` arrays.

    pictures = open_pictures(Path("digits"), patch_size=4)
    for name, pixels, label in pictures: ...

Everything is checked before the first picture is handed out, and all faults are
reported together. Files are taken for hostile: see ``picture_files.py`` and
``picture_arrays.py``.

Letters used for sizes: T frames (1 of a picture), H height, W width, C channels,
S patches, P values of a patch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwise.data.picture_arrays import list_arrays
from headwise.data.picture_entries import PictureEntry, PictureError, Pixels
from headwise.data.picture_files import list_files, read_png
from headwise.errors import DataError, SettingsError
from headwise.text.patch_tokenizer import PictureSize
from headwise.text.pixels import data_url, pixels_of_url, to_patches
from headwise.wording import count_of, without_surrogates

MOST_FAULTS = 20
"""Faults that a message lists; of more it says how many."""


class PatchedPicture(NamedTuple):
    """A picture as a sequence of patches."""

    name: str
    pixels: NDArray[np.uint8]
    """[S*P]: patch after patch, frame by frame and from the upper left, row by row; in
    a patch pixel after pixel, row by row; of a pixel all channels."""

    label: str


class PictureDataset:
    """Checked pictures of one size; iterate over it to get ``PatchedPicture``.

    Each iteration reads the files anew, in the same order, and raises ``DataError`` if
    one has changed so that it cannot be used any more.
    """

    def __init__(
        self,
        path: Path,
        entries: Sequence[PictureEntry],
        size: PictureSize,
        patch_size: tuple[int, int],
    ) -> None:
        self.path = path
        self.size = size
        self.patch_size = patch_size
        self.classes = sorted({entry.label for entry in entries if entry.label})
        """The labels that occur, in alphabetical order."""

        self._entries = entries

    @property
    def num_patches(self) -> int:
        """Patches of a picture (S)."""
        height, width = self.patch_size
        rows, columns = self.size.height // height, self.size.width // width
        return self.size.frames * rows * columns

    @property
    def patch_values(self) -> int:
        """Numbers of a patch (P)."""
        height, width = self.patch_size
        return height * width * self.size.channels

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[PatchedPicture]:
        for entry in self._entries:
            try:
                pixels = entry.read()
                if (found := size_of(pixels)) != self.size:
                    raise PictureError(f"{found}; it was {self.size} when checked")
            except PictureError as fault:
                raise DataError(f"{entry.name}: {fault}") from None
            assert entry.label is not None
            patches = to_patches(pixels, self.patch_size)
            yield PatchedPicture(entry.name, patches, entry.label)


def open_pictures(
    path: Path, patch_size: int | tuple[int, int], *, maximum: float | None = None
) -> PictureDataset:
    """Open and check labelled pictures, to be cut into patches of ``patch_size``.

    ``path`` is one of:

    - a folder with a sub-folder of PNG files for each class;
    - a list: ``.tsv`` (path TAB label) or ``.jsonl`` ({"path": ..., "label": ...}),
      with paths of PNG files that start at the list's own folder;
    - ``.npz`` with ``labels`` [N] and ``images`` [N H W] or [N H W C], or ``videos``
      [N T H W] or [N T H W C]. ``maximum`` is the value of white: 255 if the numbers
      are uint8, and to be given for others, unless the file has an array ``maximum``.

    ``patch_size`` is a number of pixels, or (height, width). Raises ``DataError`` with
    all faults of the data, ``SettingsError`` for a patch size that does not fit.
    """
    height, width = (
        (patch_size, patch_size) if isinstance(patch_size, int) else patch_size
    )
    if height < 1 or width < 1:
        raise SettingsError([f"patch_size must be 1 or more, not {patch_size}"])
    if not path.exists():
        raise DataError(
            f"{path} does not exist (looked for {path.absolute()}); check the name"
        )
    if path.suffix == ".npz":
        entries, faults = list_arrays(path, maximum)
    elif maximum is not None:
        raise SettingsError(
            [
                f"maximum = {maximum} has a meaning only for .npz files: the values of "
                "PNG files are from 0 to 255"
            ]
        )
    else:
        entries, faults = list_files(path)
    size = _check(path, entries, faults)
    _check_patch_size(size, (height, width))
    return PictureDataset(path, entries, size, (height, width))


def read_labelled_pictures(path: Path) -> tuple[list[str], list[str]]:
    """Return each picture of ``path`` as a data URL, and the labels.

    ``path`` is as for :func:`open_pictures`.
    """
    dataset = open_pictures(path, 1)
    size = dataset.size
    shape = size.frames, size.height, size.width, size.channels
    pictures = [(data_url(each.pixels.reshape(shape)), each.label) for each in dataset]
    return [url for url, _ in pictures], [label for _, label in pictures]


def read_pictures(path: Path) -> Iterator[str]:
    """Yield each picture or video of a ``.npz`` file as a data URL, without a label.

    Raises ``DataError`` if one cannot be used. Its size is left to who reads it.
    """
    entries, faults = list_arrays(path, None, are_labelled=False)
    if faults:
        raise _cannot_be_used(path, faults)
    for entry in entries:
        try:
            yield data_url(entry.read())
        except PictureError as fault:
            raise DataError(f"{entry.name}: {fault}") from None


def read_picture(text: str) -> Pixels:
    """Return the pixels [T H W C] of a PNG file by its path, or of a data URL.

    Raises ``DataError`` if it cannot be used.
    """
    if text.startswith("data:"):
        return pixels_of_url(text)
    try:
        return read_png(Path(text))
    except PictureError as fault:
        raise DataError(f"{text}: {fault}") from None


def size_of(pixels: Pixels) -> PictureSize:
    """Return the size of an array [T H W C]."""
    return PictureSize(*pixels.shape)


def _check(
    path: Path, entries: Sequence[PictureEntry], faults: list[str]
) -> PictureSize:
    """Read all pictures once; return their size, or raise ``DataError``."""
    first: tuple[str, PictureSize] | None = None
    faults = list(faults)
    for name, label, read in entries:
        found = []
        if label is None or not label.strip():
            found.append("it has no label; give it one, or leave it out")
        elif not label.isprintable():
            found.append(f"its label {label!r} is not one line of text")
        try:
            size = size_of(read())
        except PictureError as fault:
            found.append(str(fault))
        else:
            first = first or (name, size)
            if size != first[1]:
                found.append(
                    f"{size}, but {first[0]} has {first[1]}; all pictures must have "
                    "one size and mode"
                )
        faults += (f"{name}: {each}" for each in found)
    if not entries and not faults:
        faults.append(f"{path}: no picture in it")
    if faults:
        raise _cannot_be_used(path, faults)
    assert first is not None
    return first[1]


def _cannot_be_used(path: Path, faults: Sequence[str]) -> DataError:
    shown = [without_surrogates(fault) for fault in faults[:MOST_FAULTS]]
    if len(faults) > MOST_FAULTS:
        shown.append(f"and {len(faults) - MOST_FAULTS:,} more")
    return DataError(
        f"{without_surrogates(str(path))} cannot be used "
        f"({count_of(len(faults), 'fault')}):\n"
        + "\n".join(f"- {each}" for each in shown)
    )


def _check_patch_size(size: PictureSize, patch_size: tuple[int, int]) -> None:
    height, width = patch_size
    if size.height % height == 0 and size.width % width == 0:
        return
    common = gcd(size.height, size.width)
    fitting = [str(n) for n in range(1, common + 1) if common % n == 0]
    rows = max(1, size.height // height) * height
    columns = max(1, size.width // width) * width
    raise SettingsError(
        [
            f"patch_size: pictures of {size.width} x {size.height} pixels (width x "
            f"height) cannot be cut into patches of {width} x {height}; patch sizes "
            f"{', '.join(fitting)} would work, or pictures of {columns} x {rows} pixels"
        ]
    )
