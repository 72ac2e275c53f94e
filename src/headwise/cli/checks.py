"""What can be known to be wrong before torch is imported, which takes seconds.

What the command line itself gets wrong is a ``UsageError``: a file or folder it names
that is not there, or an assignment that is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from headwise import storage
from headwise.decoding.settings import DecodingSettings
from headwise.errors import ModelError, SettingsError, UsageError
from headwise.run_folder.paths import GENERATION, check_is_model, model_path
from headwise.settings import as_table, read

STANDARD_INPUT = Path("-")

DEVICES = ("auto", "cpu", "cuda", "mps", "xpu")
"""Kinds of devices that torch may have; a number may follow, as in cuda:1."""


def check_files(*paths: Path | None) -> None:
    """Refuse files that are not there; ``-`` stands for standard input."""
    for path in paths:
        if path is None or path == STANDARD_INPUT:
            continue
        if path.is_dir():
            raise UsageError(f"{path} is a folder, and a file is wanted; name one")
        if not path.exists():
            raise UsageError(
                f"{path} is not there (looked for at {path.absolute()}); check the name"
            )


def check_folders(*paths: Path) -> None:
    """Refuse folders that are not there."""
    for path in paths:
        if not path.exists() and path.parent.is_dir():
            with suppress(OSError):  # a writer may have been killed between two names
                storage.bring_back(path)
        if not path.exists():
            raise UsageError(
                f"{path} is not there (looked for at {path.absolute()}); check the name"
            )
        if not path.is_dir():
            raise UsageError(f"{path} is a file, and a folder is wanted; name one")


def check_out_file(
    option: str, path: Path | None, *, inputs: Sequence[Path | None]
) -> None:
    """Refuse to write where no file of its own may stand.

    That is a folder, a device or a pipe, which a new file would replace, and one of
    ``inputs`` or a file inside one of them.
    """
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder; name a file to be written")
    if path.exists() and not path.is_file():
        raise UsageError(
            f"{option} {path} is a device or a pipe, and a file is written beside it "
            "first; name a file"
        )
    whole = path.resolve()
    for each in inputs:
        if each is not None and whole.is_relative_to(each.resolve()):
            raise UsageError(
                f"{option} {path} would be written over what is read, {each}; name "
                "another file"
            )


def check_models(*folders: Path) -> None:
    """Refuse folders that are not there, or hold no model."""
    check_folders(*folders)
    for folder in folders:
        path = model_path(folder)
        check_is_model(path, storage.read_manifest(path))


def check_search(folder: Path, table: dict[str, Any]) -> DecodingSettings:
    """Return how the model in ``folder`` searches with ``table`` on top of its own."""
    path = model_path(folder) / GENERATION
    try:
        usual = read(DecodingSettings, storage.read_json(path))
    except (SettingsError, TypeError) as error:
        raise ModelError(f"{path} cannot be used:\n{error}") from None
    return read(DecodingSettings, {**as_table(usual), **table})


def check_device(name: str) -> None:
    """Refuse what is no name of a device; whether it is there, only torch knows."""
    kind, colon, number = name.partition(":")
    if kind not in DEVICES or (colon and not number.isdigit()):
        raise UsageError(
            f"--device {name} is no device; name cpu, cuda, or one of several as "
            "cuda:1, or auto: a GPU where there is one"
        )


def check_assignments(
    option: str, example: str, assignments: Sequence[str] | None
) -> None:
    """Refuse assignments without a name or an equals sign."""
    for each in assignments or []:
        path, equals, _ = each.partition("=")
        if not equals or not all(name.strip() for name in path.split(".")):
            raise UsageError(
                f"{option} wants NAME=VALUE, such as {example}; {each!r} is not of "
                "that form"
            )


def check_set(assignments: Sequence[str] | None) -> None:
    """Refuse what ``--set`` cannot take apart."""
    check_assignments("--set", "training.steps=60", assignments)
