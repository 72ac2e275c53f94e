"""What listings of pictures are made of: see ``pictures.py``.

Letters used for sizes: T frames (1 of a picture), H height, W width, C channels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwise.text.patch_tokenizer import PictureSize
from headwise.text.pixels import DATA_URL

Pixels = NDArray[np.uint8]
"""Values of pixels, [T H W C]."""


class PictureError(Exception):
    """What is wrong with one picture or array, and what would work."""


class PictureEntry(NamedTuple):
    """A picture that was listed, but not read so far."""

    name: str
    """What messages call it: a path, or a place in an array."""

    label: str | None
    """None if a list has no label for it."""

    read: Callable[[], Pixels]
    """Returns the pixels [T H W C]; raises ``PictureError``."""


def shown_source(text: str) -> str:
    """Return a line for people to read: the size of a picture, in place of its pixels.

    Any other text is returned as it is.
    """
    if not text.startswith("data:") or (match := DATA_URL.fullmatch(text)) is None:
        return text
    frames, height, width, channels = map(int, match.groups()[:4])
    return f"[{PictureSize(frames, height, width, channels)}]"


Listing = tuple[list[PictureEntry], list[str]]
"""The pictures that were found, and faults that belong to none of them."""
