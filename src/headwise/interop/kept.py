"""Exports that are kept beside a model, and made again when it changes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from headwise import storage
from headwise.errors import ModelError, ResourceError
from headwise.interop.exports import export
from headwise.interop.provenance import described
from headwise.run_folder.model_folder import ModelFolder

EXPORTS_FOLDER = "exports"


def kept_export(opened: ModelFolder, *, target: str, quantization: str) -> Path:
    """Return a folder with ``opened`` for ``target``; an older one if it still holds.

    It stands in the ``exports/`` of the model folder or, where nothing may be written
    there, in the system's folder for what is temporary.
    """
    about = described(opened, target=target, quantization=quantization)
    name = f"{target}-{quantization}"
    kept = opened.path / EXPORTS_FOLDER / name
    if _holds(kept, about):
        return kept
    try:
        _write(kept, opened, target=target, quantization=quantization)
    except ResourceError:
        kept = Path(tempfile.mkdtemp(prefix="headwise-")) / name
        _write(kept, opened, target=target, quantization=quantization)
    return kept


def _holds(folder: Path, about: dict[str, object]) -> bool:
    """Tell whether an export is whole, and of these weights by this version."""
    try:
        manifest = storage.verify(folder)
    except ModelError:
        return False
    return {name: manifest.get(name) for name in about} == about


def _write(
    folder: Path, opened: ModelFolder, *, target: str, quantization: str
) -> None:
    if folder.exists():
        storage.make_way(folder)  # a damaged one is set aside, not replaced
    export(folder, opened, target=target, quantization=quantization)
