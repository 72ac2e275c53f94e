"""The weights of a model folder as arrays, read without torch."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load

from headwise.errors import ModelError


def read_arrays(path: Path, sha256: str) -> dict[str, NDArray[np.floating]]:
    """Return the tensors of a safetensors file by name.

    Raises ``ModelError`` for a file that cannot be read, whose SHA-256 is not that of
    the manifest, or with a dtype that NumPy does not know, such as bfloat16.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"{path} can no longer be read: {error.strerror or error}; open the "
            "model again"
        ) from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ModelError(
            f"{path} has changed since the model was opened; open the model again"
        )
    try:
        return load(content)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from None
