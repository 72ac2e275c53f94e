"""List pictures or videos of a ``.npz`` file: arrays, without pickles.

Files may come from anybody. What an array claims to be is read from its header before
any memory is allocated for it, so that an array of objects, or one that was compressed
to a bomb, is an error.
"""

from __future__ import annotations

import zipfile
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from headwise.data.picture_entries import (
    Listing,
    PictureEntry,
    PictureError,
    Pixels,
)
from headwise.errors import DataError
from headwise.text.patch_tokenizer import MODES
from headwise.wording import count_of

Array = NDArray[Any]

AXES = {"images": 3, "videos": 4}
"""Name of an array -> its axes without channels."""

BOMB_BYTES = 1 << 30
BOMB_RATIO = 100
"""A member that is larger than both, unpacked and for its packed size, is refused."""


def list_arrays(
    path: Path, maximum: float | None, *, are_labelled: bool = True
) -> Listing:
    """List the pictures of a ``.npz`` file; ``maximum`` is the value of white.

    Labels are read, and have to be there, if the pictures ``are_labelled``.
    """
    faults: list[str] = []
    try:
        with zipfile.ZipFile(path) as file:
            names = {name.removesuffix(".npy") for name in file.namelist()}
            found = sorted(names & AXES.keys())
            if len(found) != 1:
                raise DataError(
                    f"{path} must have one of the arrays {' and '.join(AXES)}; it has "
                    f"{_listed(names)}"
                )
            arrays: dict[str, Array] = {}
            labels_wanted = ["labels"] if are_labelled else []
            for name in (found[0], *labels_wanted, *({"maximum"} & names)):
                try:
                    arrays[name] = _read_array(path, file, name)
                except PictureError as fault:
                    faults.append(f"{path}: {name}: {fault}")
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path} is not a .npz file, or a damaged one ({error}); write it with "
            "numpy.savez_compressed"
        ) from None
    pictures = arrays.get(found[0])
    labels = arrays.get("labels")
    count = len(pictures) if pictures is not None and pictures.ndim else None
    if pictures is not None:
        faults += (f"{path}: {each}" for each in _axes_faults(found[0], pictures))
    if labels is not None:
        faults += (f"{path}: labels: {each}" for each in _label_faults(labels, count))
    white, range_faults = _white(pictures, maximum, arrays.get("maximum"))
    faults += (f"{path}: {each}" for each in range_faults)
    if range_faults and count and pictures is not None and pictures.dtype.kind == "f":
        for index, picture in enumerate(pictures):  # which are not read any more
            if reason := _finite_fault(picture):
                faults.append(f"{path.name}, {found[0]}[{index}]: {reason}")
    if faults or pictures is None:
        return [], faults
    label_names = [None] * len(pictures) if labels is None else labels.tolist()
    axes = AXES[found[0]]
    pictures = pictures if pictures.ndim > axes else pictures[..., None]
    if found[0] == "images":
        pictures = pictures[:, None]  # N H W C -> N 1 H W C
    entries = [
        PictureEntry(
            f"{path.name}, {found[0]}[{index}]",
            None if label is None else str(label),
            partial(_to_pixels, pictures, index, white),
        )
        for index, label in enumerate(label_names)
    ]
    return entries, []


def _read_array(path: Path, file: zipfile.ZipFile, name: str) -> Array:
    """Return an array after a look at its header; raise ``PictureError``."""
    try:
        member = file.getinfo(f"{name}.npy")
    except KeyError:
        raise PictureError("there is no such array; add it") from None
    packed = max(1, member.compress_size)
    if member.file_size > BOMB_BYTES and member.file_size > BOMB_RATIO * packed:
        raise PictureError(
            f"{packed:,} bytes that unpack to {member.file_size:,}, as of a "
            "decompression bomb; save it uncompressed (numpy.savez)"
        )
    try:
        with file.open(member) as stream:
            version = npy.read_magic(stream)
            read = {
                (1, 0): npy.read_array_header_1_0,
                (2, 0): npy.read_array_header_2_0,
            }.get(version)
            if read is None:
                raise PictureError(f"version {version} of .npy is not supported")
            shape, _, dtype = read(stream)
            if dtype.hasobject:
                raise PictureError(
                    "an array of objects, which would need pickle; save numbers, and "
                    "labels as numbers or as strings (dtype str)"
                )
            # Python's integers, since numpy's would overflow.
            size = dtype.itemsize
            for length in shape:
                size *= int(length)
            if size > member.file_size:
                raise PictureError(
                    f"shape {shape} of {dtype}, but only {member.file_size:,} bytes"
                )
        with np.load(path, allow_pickle=False) as arrays:
            array: Array = arrays[name]
    except MemoryError:
        raise PictureError("too large for the memory; split the file") from None
    except (OSError, ValueError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise PictureError(f"damaged ({error}); write the file again") from None
    except (NotImplementedError, RuntimeError) as error:
        raise PictureError(f"it cannot be unpacked ({error})") from None
    return array


def _axes_faults(name: str, pictures: Array) -> list[str]:
    axes = AXES[name]
    letters = {"images": "N H W", "videos": "N T H W"}[name]
    faults = []
    if pictures.ndim not in (axes, axes + 1):
        faults.append(
            f"{name} has the shape {pictures.shape}; it must be [{letters}] or "
            f"[{letters} C]"
        )
    elif pictures.ndim > axes and pictures.shape[-1] not in MODES:
        faults.append(
            f"{name} has {pictures.shape[-1]} channels (its last axis); "
            f"{', '.join(map(str, MODES))} would work"
        )
    if not pictures.size:
        faults.append(f"{name} is empty: its shape is {pictures.shape}")
    if pictures.dtype.kind not in "uif":
        faults.append(f"{name} is of {pictures.dtype}; save numbers, such as uint8")
    return faults


def _label_faults(labels: Array, count: int | None) -> list[str]:
    faults = []
    if labels.ndim != 1:
        faults.append(
            f"the shape is {labels.shape}; one label a picture [N] would work"
        )
    elif count is not None and len(labels) != count:
        faults.append(
            f"{count_of(len(labels), 'label')} of {count_of(count, 'picture')}; each "
            "picture needs one"
        )
    if labels.dtype.kind not in "uiU":
        faults.append(
            f"they are of {labels.dtype}; save whole numbers, or strings (dtype str)"
        )
    return faults


def _white(
    pictures: Array | None, given: float | None, stored: Array | None
) -> tuple[float, list[str]]:
    """Return the value of white, and faults."""
    stated = given
    if given is None and stored is not None:
        if stored.size != 1 or stored.dtype.kind not in "uif":
            return 1.0, ["maximum must be one number"]
        stated = float(stored.reshape(-1)[0])
    if stated is None:
        if pictures is None or pictures.dtype == np.uint8:
            return 255.0, []
        return 1.0, [
            f"the pixels are of {pictures.dtype}, so the value of white must be said: "
            "save an array maximum with them, such as numpy.savez(..., maximum=1.0), "
            "or 16, or 255"
        ]
    if not 0 < stated < float("inf"):
        return 1.0, [f"maximum must be a number above 0, not {stated}"]
    return stated, []


def _to_pixels(pictures: Array, index: int, white: float) -> Pixels:
    """Return one picture [T H W C] with values from 0 to 255."""
    picture: Array = pictures[index]
    if picture.dtype == np.uint8 and white == 255:
        return picture
    values = picture.astype(np.float64)
    if fault := _finite_fault(values):
        raise PictureError(fault)
    low, high = values.min(), values.max()
    if low < 0 or high > white:
        raise PictureError(
            f"its values are from {low:g} to {high:g}, but must be from 0 to "
            f"{white:g}; is the maximum another?"
        )
    scaled: Pixels = np.rint(values / white * 255).astype(np.uint8)
    return scaled


def _finite_fault(picture: Array) -> str:
    """Tell how many pixels are no number; "" if all are."""
    bad = int((~np.isfinite(picture)).sum())
    if not bad:
        return ""
    return f"{count_of(bad, 'pixel')} NaN or infinite; repair it, or leave it out"


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)[:10]) or "none"
