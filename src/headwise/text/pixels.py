"""Pixels of a picture as patches, and as one line of text: a data URL (RFC 2397).

Letters used for sizes: T frames (1 of a picture), H height, W width, C channels,
S patches, P values of a patch.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from headwise.errors import DataError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]
    """Values of pixels, [T H W C]."""

    Patches = NDArray[np.uint8]
    """The same values in another order, [S P] or [S*P]."""

DATA_URL = re.compile(
    r"data:application/octet-stream;shape=([1-9][0-9]{0,5})x([1-9][0-9]{0,5})"
    r"x([1-9][0-9]{0,5})x([134]);base64,([A-Za-z0-9+/]*={0,2})"
)
"""The values [T H W C] of all pixels, and this shape."""


def to_patches(pixels: Pixels, patch_size: tuple[int, int]) -> Patches:
    """Return the pixels of a picture [T H W C] as values of its patches [S*P].

    Patch after patch, frame by frame and from the upper left, row by row; in a patch
    pixel after pixel, row by row; of a pixel all channels.
    """
    frames, rows, columns, channels = pixels.shape
    height, width = patch_size
    grid = (frames, rows // height, height, columns // width, width, channels)
    return pixels.reshape(grid).swapaxes(2, 3).reshape(-1)


def data_url(pixels: Pixels) -> str:
    """Return a picture or video [T H W C] as one line of text.

    Raises ``UsageError`` for an array of another form or dtype.
    """
    import numpy as np

    if not isinstance(pixels, np.ndarray):
        raise UsageError(
            "pixels must be a NumPy array [frames, height, width, channels] of uint8, "
            f"not {type(pixels).__name__}"
        )
    if pixels.ndim != 4 or pixels.dtype != np.uint8:
        raise UsageError(
            "pixels must be an array [frames, height, width, channels] of uint8, not "
            f"{list(pixels.shape)} of {pixels.dtype}; a picture has one frame"
        )
    if not pixels.size or pixels.shape[-1] not in (1, 3, 4):
        raise UsageError(
            "pixels must have a frame, a row and a column at least, and 1, 3 or 4 "
            f"channels: their shape is {list(pixels.shape)}"
        )
    shape = "x".join(map(str, pixels.shape))
    written = base64.b64encode(np.ascontiguousarray(pixels).tobytes()).decode("ascii")
    return f"data:application/octet-stream;shape={shape};base64,{written}"


def pixels_of_url(url: str) -> Pixels:
    """Return the pixels [T H W C] of what :func:`data_url` wrote.

    Raises ``DataError`` for another text.
    """
    import numpy as np

    match = DATA_URL.fullmatch(url.strip())
    if match is None:
        raise DataError(
            "not the data URL of a picture, which is data:application/octet-stream;"
            "shape=1xHEIGHTxWIDTHxCHANNELS;base64,..."
        )
    *sizes, written = match.groups()
    shape = tuple(map(int, sizes))
    try:
        values = base64.b64decode(written, validate=True)
    except binascii.Error as error:
        raise DataError(f"its base64 is damaged: {error}; copy it again") from None
    wanted = int(np.prod(shape, dtype=object))
    if len(values) != wanted:
        raise DataError(
            f"{len(values):,} values, but its shape is {'x'.join(sizes)}; copy it again"
        )
    return np.frombuffer(values, np.uint8).reshape(shape)
