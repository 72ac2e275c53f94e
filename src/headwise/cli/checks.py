"""What can be known to be wrong before torch is imported, which takes seconds.

What the command line itself gets wrong is a ``UsageError``: a file or folder it names
that is not there, or an assignment that is none.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import BufferedReader, UnsupportedOperation
from pathlib import Path
from typing import Any

from headwise import storage
from headwise.backends.native.compiler import requested
from headwise.cli.streams import why
from headwise.decoding.settings import DecodingSettings
from headwise.errors import DataError, ModelError, SettingsError, UsageError
from headwise.model.config import TransformerConfig
from headwise.run_folder.paths import CONFIG, GENERATION, check_is_model, model_path
from headwise.settings import as_table, merged, read

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


def check_input(files: Sequence[Path]) -> None:
    """Refuse to wait for standard input, if that is what is read, where it is closed.

    Raises ``DataError``.
    """
    if files and STANDARD_INPUT not in files:
        return
    try:
        os.read(sys.stdin.fileno(), 0)
    except UnsupportedOperation:
        return  # no file but what a program put in its place
    except OSError as error:
        raise input_error(error) from None


def input_error(error: OSError) -> DataError:
    """Say that standard input cannot be read."""
    return DataError(
        f"standard input cannot be read: {why(error)}; name a FILE, or send text into "
        "it (< FILE, or a pipe)"
    )


def check_prefixes(path: Path | None, files: Sequence[Path]) -> None:
    """Refuse an empty file of prefixes for text that is not empty.

    Where that is to come from a pipe, its first line is waited for, and not taken.
    """
    if path == STANDARD_INPUT and (not files or STANDARD_INPUT in files):
        raise UsageError(
            "standard input cannot be both the text and --prefix-file -; name a file "
            "for one of them"
        )
    if path is None or path == STANDARD_INPUT or not _is_empty(path):
        return
    if any(_holds_text(each) for each in files or [STANDARD_INPUT]):
        raise UsageError(
            f"--prefix-file {path} is empty, and each line of the text needs a line of "
            "its own there, blank where nothing is asked for; leave --prefix-file out "
            "to ask for nothing at all"
        )


def _is_empty(path: Path) -> bool:
    about = path.stat()
    if stat.S_ISREG(about.st_mode):
        return about.st_size == 0
    return about.st_rdev == Path(os.devnull).stat().st_rdev


def _holds_text(path: Path) -> bool:
    if path != STANDARD_INPUT:
        return path.is_file() and path.stat().st_size > 0
    buffer = sys.stdin.buffer
    return isinstance(buffer, BufferedReader) and bool(buffer.peek(1))


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

    That is a folder, a device or a pipe, which a new file would replace, one of
    ``inputs`` or a file inside one of them, and what lies in no folder. A folder or
    disk that takes no file is a ``ResourceError``.
    """
    if path is None:
        return
    if not path.parent.is_dir():
        raise UsageError(
            f"{option} {path} cannot be written: {path.parent} is no folder (looked "
            f"for at {path.parent.absolute()}); make it, or name another"
        )
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
    storage.check_writable(path)


def check_models(*folders: Path) -> None:
    """Refuse folders that are not there, or hold no model."""
    check_folders(*folders)
    for folder in folders:
        path = model_path(folder)
        check_is_model(path, storage.read_manifest(path))


def check_search(
    folder: Path, table: dict[str, Any], *, others: Sequence[Path] = ()
) -> DecodingSettings:
    """Return how the model in ``folder`` searches with ``table`` on top of its own.

    ``others`` are models that search with it.
    """
    path = model_path(folder) / GENERATION
    try:
        usual = read(DecodingSettings, storage.read_json(path))
    except (SettingsError, TypeError) as error:
        raise ModelError(f"{path} cannot be used:\n{error}") from None
    settings = read(DecodingSettings, merged(as_table(usual), table))
    for each in (folder, *others):
        if config := _architecture(each):
            settings.check_head(config.decoder_layers, config.num_heads)
    return settings


def _architecture(folder: Path) -> TransformerConfig | None:
    """Read the sizes of a model; what is wrong with them, opening it says."""
    described = storage.read_json(model_path(folder) / CONFIG)
    with suppress(SettingsError, TypeError, KeyError):
        return read(TransformerConfig, described["architecture"])
    return None


def check_device(name: str) -> None:
    """Refuse what is no name of a device; whether it is there, only torch knows."""
    kind, colon, number = name.partition(":")
    if kind not in DEVICES or (colon and not number.isdigit()):
        raise UsageError(
            f"--device {name} is no device; name cpu, cuda, or one of several as "
            "cuda:1, or auto: a GPU where there is one"
        )


def check_kernels() -> None:
    """Refuse a ``HEADWISE_KERNELS`` that says nothing of the kernels in C."""
    requested()


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
