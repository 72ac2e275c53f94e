"""List and decode PNG files: a folder for each class, or a list of paths and labels.

Files may come from anybody. Only the PNG decoder of Pillow is used; a picture with more
pixels than its limit against decompression bombs is an error, and so is a file that
ends early, or whose checksums differ.
"""

from __future__ import annotations

import json
import struct
import warnings
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from headwise.data.corpus_reader import read_lines
from headwise.data.json_lines import is_number
from headwise.data.picture_entries import (
    Listing,
    PictureEntry,
    PictureError,
    Pixels,
)
from headwise.errors import DataError
from headwise.text.lines import Line
from headwise.text.patch_tokenizer import MODES

SIGNATURE = b"\x89PNG\r\n\x1a\n"
BIT_DEPTH = 24
"""Where a PNG file says how many bits a channel has."""

DAMAGED = (
    *(OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error),
    *(OverflowError, IndexError, KeyError, TypeError, AttributeError),
)
"""Exceptions that Pillow raises for damaged files."""


def list_files(path: Path) -> Listing:
    """List the pictures of a folder, or of a list in a ``.tsv`` or ``.jsonl`` file."""
    if path.is_dir():
        return _list_folder(path)
    parsers = {".tsv": _parse_tsv, ".jsonl": _parse_json}
    if path.suffix not in parsers:
        raise DataError(
            f"{path} is no source of pictures; give a folder with a sub-folder for "
            "each class, a list in a .tsv or .jsonl file, or arrays in a .npz file"
        )
    entries, faults = [], []
    first_lines: dict[Path, int] = {}
    for line in read_lines(path, lambda _: None):
        if not line.text.strip():
            continue
        where = f"{path}, line {line.number:,}"
        try:
            name, label = parsers[path.suffix](line)
        except PictureError as fault:
            faults.append(f"{where}: {fault}")
            continue
        file = path.parent / name
        first = first_lines.setdefault(file, line.number)
        if first != line.number:
            faults.append(f"{where}: {name} is in line {first:,} too; keep one of them")
            continue
        entries.append(PictureEntry(f"{where}: {name}", label, partial(read_png, file)))
    return entries, faults


def read_png(path: Path) -> Pixels:
    """Return the pixels of a PNG file [1 H W C]; raise ``PictureError``."""
    try:
        if not path.is_file():
            raise PictureError(
                "it is not a file"
                if path.exists()
                else f"it does not exist (looked for {path.absolute()})"
            )
        with path.open("rb") as file:
            head = file.read(BIT_DEPTH + 1)
            if not head.startswith(SIGNATURE):
                raise PictureError("not a PNG file; convert it to PNG")
            file.seek(0)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                # To load alone would not look at all checksums, nor at the end.
                Image.open(file, formats=("PNG",)).verify()
                file.seek(0)
                with Image.open(file, formats=("PNG",)) as image:
                    _check_mode(image, head[BIT_DEPTH])
                    pixels = np.asarray(image)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise PictureError(
            f"more than {Image.MAX_IMAGE_PIXELS:,} pixels, Pillow's limit against "
            "decompression bombs; make it smaller"
        ) from None
    except MemoryError:
        raise PictureError("too large for the memory; make it smaller") from None
    except (*DAMAGED, Warning) as error:
        reason = getattr(error, "strerror", None) or error
        raise PictureError(f"it cannot be read ({reason}); copy it again") from None
    return pixels.reshape(1, *pixels.shape[:2], -1)


def _check_mode(image: Image.Image, bit_depth: int) -> None:
    if getattr(image, "n_frames", 1) > 1:
        raise PictureError("it is animated; save each frame as a file")
    if bit_depth == 16:
        raise PictureError("16 bits a channel; convert it to 8 bits")
    if image.mode not in MODES.values():
        raise PictureError(
            f"its mode is {image.mode}; convert it to one of "
            f"{', '.join(MODES.values())}"
        )


def _list_folder(folder: Path) -> Listing:
    entries: list[PictureEntry] = []
    faults: list[str] = []
    try:
        for inner in _visible(folder):
            if not inner.is_dir():
                faults.append(
                    f"{inner}: it lies outside of any class; put it into a sub-folder "
                    "that is named like its class"
                )
                continue
            files = list(_visible(inner))
            faults += (
                f"{file}: a folder in a class; give the folder whose sub-folders are "
                "the classes"
                for file in files
                if file.is_dir()
            )
            pictures = [file for file in files if not file.is_dir()]
            if not pictures:
                faults.append(
                    f"{inner}: a class with no picture; add some, or remove it"
                )
            entries += (
                PictureEntry(str(file), inner.name, partial(read_png, file))
                for file in pictures
            )
    except OSError as error:
        raise DataError(
            f"{error.filename} cannot be read: {error.strerror or error}"
        ) from None
    return entries, faults


def _visible(folder: Path) -> Iterator[Path]:
    """Yield what is in a folder by name, without hidden files such as .DS_Store."""
    return (each for each in sorted(folder.iterdir()) if each.name[0] != ".")


def _parse_tsv(line: Line) -> tuple[str, str | None]:
    cells = line.text.split("\t")
    if len(cells) > 2:
        raise PictureError(
            f"{len(cells)} columns; a line is a path, one TAB, and a label"
        )
    return _path(cells[0]), cells[1] if len(cells) == 2 else None


def _parse_json(line: Line) -> tuple[str, str | None]:
    example = '{"path": "cat/1.png", "label": "cat"}'
    try:
        entry = json.loads(line.text)
    except (ValueError, RecursionError) as error:
        raise PictureError(f"not JSON ({error}); a line is {example}") from None
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
        raise PictureError(f'no "path" that is a string; a line is {example}')
    label = entry.get("label")
    if is_number(label):
        label = str(label)
    if label is not None and not isinstance(label, str):
        raise PictureError(f'"label" is {label!r}; it must be a string or a number')
    return _path(entry["path"]), label


def _path(name: str) -> str:
    if not name.strip() or "\0" in name:
        raise PictureError("the path is empty or has a zero byte")
    return name
