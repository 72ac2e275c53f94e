"""Cache of exports inside a model folder, renewed when the model changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from headwise import storage
from headwise.errors import ModelError, ResourceError
from headwise.interop.exports import export
from headwise.interop.provenance import export_description
from headwise.run_folder.model_folder import ModelFolder
from headwise.run_folder.paths import EXPORT

EXPORTS_FOLDER = "exports"


@dataclass(frozen=True, slots=True)
class CachedExport:
    """An export to use now, with a note for the user."""

    folder: Path

    note: str = ""
    """Empty if the export was in the cache."""


@contextmanager
def cached_export(
    opened: ModelFolder, *, target: str, quantization: str
) -> Iterator[CachedExport]:
    """Yield an export of ``opened`` to ``target``: the cached one if it is current.

    The cache is ``exports/`` in the model folder. If that is not writable, the export
    goes to a temporary folder, which is deleted when the context ends.
    """
    about = export_description(opened, target=target, quantization=quantization)
    cached = opened.location / EXPORTS_FOLDER / f"{target}-{quantization}"
    if _is_current(cached, about):
        yield CachedExport(cached)
        return
    try:
        _write(cached, opened, target=target, quantization=quantization)
    except ResourceError as error:
        refusal = error
    else:
        yield CachedExport(cached, f"exported to {cached}")
        return
    if _is_current(cached, about):  # another process was faster
        yield CachedExport(cached)
        return
    with _temporary_folder() as temporary:
        folder = temporary / cached.name
        export(folder, opened, target=target, quantization=quantization)
        yield CachedExport(folder, f"exported to a temporary folder: {refusal}")


def _is_current(folder: Path, about: dict[str, object]) -> bool:
    """Return whether an export is intact, of this model and of this version."""
    try:
        manifest = storage.verify(folder)
    except ModelError:
        return False
    return {name: manifest.get(name) for name in about} == about


def _write(
    folder: Path, opened: ModelFolder, *, target: str, quantization: str
) -> None:
    if folder.exists():
        storage.set_aside_foreign(
            folder, EXPORT
        )  # a damaged one is renamed, not replaced
    export(folder, opened, target=target, quantization=quantization)


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    try:
        temporary = TemporaryDirectory(prefix="headwise-", ignore_cleanup_errors=True)
    except OSError as error:
        raise ResourceError(
            f"no temporary folder can be created: {error.strerror or error}; set "
            "TMPDIR to another folder"
        ) from error
    with temporary:
        yield Path(temporary.name)
