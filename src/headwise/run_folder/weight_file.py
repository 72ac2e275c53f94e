"""The file of the weights of a model folder, checked and read without torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load

from headwise import storage
from headwise.errors import ModelError


def check_unchanged(path: Path, sha256: str) -> None:
    """Raise ``ModelError`` if the weights changed since their folder was opened.

    Training may have written a newer model since.
    """
    try:
        found = storage.sha256(path)
    except OSError as error:
        raise ModelError(
            f"{path} can no longer be read: {error.strerror or error}; open the "
            "model again"
        ) from None
    if found != sha256:
        raise ModelError(
            f"{path} has changed since the model was opened; open the model again"
        )


def read_arrays(path: Path, sha256: str) -> dict[str, NDArray[np.floating]]:
    """Return the tensors of a safetensors file by name.

    Raises ``ModelError`` for a file that cannot be read, whose SHA-256 is not that of
    the manifest, or with a dtype that NumPy does not know, such as bfloat16.
    """
    check_unchanged(path, sha256)
    try:
        return load(path.read_bytes())
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from None
