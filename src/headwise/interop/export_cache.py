"""Exports that are kept beside a model, and made again when it changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from headwise import storage
from headwise.errors import ModelError, ResourceError
from headwise.interop.exports import export
from headwise.interop.provenance import described
from headwise.run_folder.model_folder import ModelFolder
from headwise.run_folder.paths import EXPORT

EXPORTS_FOLDER = "exports"


@dataclass(frozen=True, slots=True)
class KeptExport:
    """A folder to be read now, and what its user should know of it."""

    folder: Path

    note: str = ""
    """Empty where an export was there already."""


@contextmanager
def kept_export(
    opened: ModelFolder, *, target: str, quantization: str
) -> Iterator[KeptExport]:
    """Give a folder with ``opened`` for ``target``; an older one if it still holds.

    It stands in the ``exports/`` of the model folder. Where nothing may be written, one
    is made among what is temporary, and goes when the block ends.
    """
    about = described(opened, target=target, quantization=quantization)
    kept = opened.path / EXPORTS_FOLDER / f"{target}-{quantization}"
    if _holds(kept, about):
        yield KeptExport(kept)
        return
    try:
        _write(kept, opened, target=target, quantization=quantization)
    except ResourceError as error:
        refusal = error
    else:
        yield KeptExport(kept, f"its export is kept in {kept}")
        return
    if _holds(kept, about):  # another process was quicker
        yield KeptExport(kept)
        return
    with _for_now() as place:
        folder = place / kept.name
        export(folder, opened, target=target, quantization=quantization)
        yield KeptExport(folder, f"its export was made for this time only: {refusal}")


def _holds(folder: Path, about: dict[str, object]) -> bool:
    """Tell whether an export is whole, of this model and by this version."""
    try:
        manifest = storage.verify(folder)
    except ModelError:
        return False
    return {name: manifest.get(name) for name in about} == about


def _write(
    folder: Path, opened: ModelFolder, *, target: str, quantization: str
) -> None:
    if folder.exists():
        storage.make_way(folder, EXPORT)  # a damaged one is set aside, not replaced
    export(folder, opened, target=target, quantization=quantization)


@contextmanager
def _for_now() -> Iterator[Path]:
    try:
        place = TemporaryDirectory(prefix="headwise-", ignore_cleanup_errors=True)
    except OSError as error:
        raise ResourceError(
            f"no folder can be made for what is temporary: {error.strerror or error}; "
            "TMPDIR may name another"
        ) from error
    with place:
        yield Path(place.name)
