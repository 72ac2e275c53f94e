"""Checks of arguments before torch is imported, which takes seconds.

A mistake of the command line itself is a ``UsageError``: a file or folder that does not
exist, or text that is not NAME=VALUE.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
import zlib
from collections.abc import Sequence
from contextlib import suppress
from io import BufferedReader, UnsupportedOperation
from itertools import islice
from pathlib import Path
from typing import Any

from headwise import storage
from headwise.backends.native.library import requested
from headwise.cli.standard_streams import error_reason
from headwise.data.settings import Layout, csv_as_tsv, is_csv, layout_of
from headwise.decoding.settings import DecodingSettings
from headwise.errors import DataError, SettingsError, UsageError
from headwise.model.config import TransformerConfig
from headwise.run_folder.default_decoding import read_default_decoding
from headwise.run_folder.installed_models import find_installed, installed_models
from headwise.run_folder.paths import CONFIG, check_is_model, model_path, task_of_folder
from headwise.settings import changed_by, read
from headwise.tasks import find_task
from headwise.text.encodings import open_text

STANDARD_INPUT = Path("-")

STANDARD_INPUTS = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
"""Names of standard input, which can be read once only."""

DEVICES = ("auto", "cpu", "cuda", "mps", "xpu")
"""Device types of torch; an index may follow, as in cuda:1."""


def check_files(*paths: Path | None) -> None:
    """Raise ``UsageError`` for files that do not exist; ``-`` is standard input."""
    for path in paths:
        if path is None or path == STANDARD_INPUT:
            continue
        if path.is_dir():
            raise UsageError(f"{path} is a folder; give a file")
        if not path.exists():
            remedy = "check the name"
            if " " in str(path):
                remedy += f", or give a text by a pipe: echo {shlex.quote(str(path))} |"
            raise UsageError(
                f"{path} does not exist (looked for {path.absolute()}); {remedy}"
            )


TABLES: dict[Layout, bytes] = {
    "tsv": rb"\t",
    "jsonl": rb"^\s*\{",
    "trees": rb"^\s*\(",
}
"""Formats of tables and treebanks -> a pattern that their lines have."""

FIRST_LINES = 10
"""Lines that are searched for such a pattern."""


def check_whole_lines(command: str, *paths: Path, piped: bool = True) -> None:
    """Raise ``UsageError`` for a table, of which a whole line would be the text.

    A CSV is known by its name alone: the commas of texts look like those of a table.
    ``piped``: the command reads standard input too.
    """
    goes_to = f"| headwise {command} FOLDER" if piped else "> texts.txt"
    for path in paths:
        if is_csv(path.name):
            raise UsageError(
                f"{path} is a CSV by its name, but {command} reads each line as one "
                "text; rename it to .txt if that is meant, or else give one column, "
                f"for example with {csv_as_tsv(str(path))}; "
                f"cut -f1 data.tsv {goes_to}"
            )
        layout = _table_layout(path)
        if layout is None:
            continue
        remedy = "give texts alone, one a line"
        if layout == "tsv" and path.suffix.lower() != ".gz":
            remedy += f": cut -f1 {shlex.quote(str(path))} {goes_to}"
        raise UsageError(
            f"{path} is a table or a treebank, but {command} reads each line as one "
            f"text; {remedy} (headwise evaluate reads tables)"
        )


def check_new_folder(out: Path) -> None:
    """Raise ``UsageError`` unless a folder can be made here, or is empty."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError(f"{out} exists; choose a folder that is new or empty")


def check_two_files(
    source: Path, target: Path | None, *, remedy: str = "give it alone"
) -> None:
    """Raise ``UsageError`` for a table or a treebank that is one of two files.

    Its whole lines would be the text of one side. A single file may be one.
    """
    for path, other in ((source, target), (target, source)):
        if path is None or other is None:
            continue
        if is_csv(path.name):
            raise UsageError(
                f"{path} is a CSV by its name, but beside {other} each of its lines "
                f"would be one text; rename it to .txt if that is meant, or else "
                f"{remedy}, after making a TSV of it: {csv_as_tsv(str(path))}"
            )
        if _table_layout(path) is None:
            continue
        raise UsageError(
            f"{path} is a table or a treebank, which has both sides, but beside "
            f"{other} each of its lines would be one text; {remedy}, or give two files "
            "of plain text"
        )


def _table_layout(path: Path) -> Layout | None:
    """Return the format of a table or treebank; None for a file that is not one.

    Both the name and one of the first lines must say so: one column is plain text.
    """
    layout = layout_of(path.name)
    if layout is None or not path.is_file():
        return None
    with suppress(OSError, EOFError, zlib.error), path.open("rb") as file:
        lines = islice(open_text(file, str(path)), FIRST_LINES)
        if any(re.search(TABLES[layout], line) for line in lines):
            return layout
    return None


def is_standard_input(path: Path | None) -> bool:
    """Return whether this is ``-`` or another name of standard input."""
    return str(path) in STANDARD_INPUTS


def check_input(files: Sequence[Path]) -> None:
    """Raise ``DataError`` if standard input is to be read, but is closed.

    Named twice it is a ``UsageError``: the second time, nothing would be left of it.
    """
    if sum(map(is_standard_input, files)) > 1:
        raise UsageError(
            "standard input is named twice and can be read once; name a file for one "
            "of them"
        )
    if files and STANDARD_INPUT not in files:
        return
    try:
        os.read(sys.stdin.fileno(), 0)
    except UnsupportedOperation:
        return  # not a file: a program replaced sys.stdin
    except OSError as error:
        raise input_error(error) from None


def input_error(error: OSError) -> DataError:
    """Return the error for a standard input that cannot be read."""
    return DataError(
        f"standard input cannot be read: {error_reason(error)}; name a FILE, or "
        "redirect text to it (< FILE, or a pipe)"
    )


def check_prefixes(path: Path | None, files: Sequence[Path]) -> None:
    """Raise ``UsageError`` for an empty file of prefixes beside text that is not empty.

    Of text from a pipe, this waits for the first line, but does not consume it.
    """
    if is_standard_input(path) and (not files or any(map(is_standard_input, files))):
        raise UsageError(
            "standard input cannot be both the text and --prefix-file; name a file "
            "for one of them"
        )
    if path is None or is_standard_input(path) or not _is_empty(path):
        return
    if any(_holds_text(each) for each in files or [STANDARD_INPUT]):
        raise UsageError(
            f"--prefix-file {path} is empty, but needs one line for each line of the "
            "text, blank where no prefix is wanted; to translate without prefixes, "
            "leave --prefix-file out"
        )


def _is_empty(path: Path) -> bool:
    status = path.stat()
    if stat.S_ISREG(status.st_mode):
        return status.st_size == 0
    return status.st_rdev == Path(os.devnull).stat().st_rdev


def _holds_text(path: Path) -> bool:
    if path != STANDARD_INPUT:
        return path.is_file() and path.stat().st_size > 0
    buffer = sys.stdin.buffer
    return isinstance(buffer, BufferedReader) and bool(buffer.peek(1))


def check_folders(*paths: Path) -> None:
    """Raise ``UsageError`` for folders that do not exist."""
    for path in paths:
        if not path.exists() and path.parent.is_dir():
            with suppress(OSError):  # a writer may have been killed between two renames
                storage.restore_replaced(path)
        if not path.exists():
            raise UsageError(
                f"{path} does not exist (looked for {path.absolute()}); check the name"
            )
        if not path.is_dir():
            raise UsageError(f"{path} is a file; give a folder")


def check_out_file(
    option: str, path: Path | None, *, inputs: Sequence[Path | None]
) -> None:
    """Raise ``UsageError`` if no file can or should be written at ``path``.

    That is a folder, a device or a pipe (a new file would replace it), one of
    ``inputs`` or a path inside one of them, or a path in a folder that does not exist.
    A folder that cannot be written to is a ``ResourceError``.
    """
    if path is None:
        return
    if not path.parent.is_dir():
        raise UsageError(
            f"{option} {path} cannot be written: {path.parent} is not a folder (looked "
            f"for {path.parent.absolute()}); create it, or name another"
        )
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder; name a file")
    if path.exists() and not path.is_file():
        raise UsageError(
            f"{option} {path} is a device or a pipe, which the new file would replace; "
            "name a file"
        )
    whole = path.resolve()
    for each in inputs:
        if each is not None and whole.is_relative_to(each.resolve()):
            raise UsageError(
                f"{option} {path} would overwrite the input {each}; name another file"
            )
    storage.check_writable(path)


def check_dry_run_json(as_json: bool, dry_run: bool) -> None:
    """Raise ``UsageError`` for JSON of what is not a dry run."""
    if as_json and not dry_run:
        raise UsageError("--json works only with --dry-run; add that")


def check_models(*folders: Path) -> None:
    """Raise for folders that do not exist, or hold no model.

    A name may also be that of an installed model.
    """
    try:
        check_folders(*(each for each in folders if not find_installed(each)))
    except UsageError as error:
        installed = ", ".join(sorted(installed_models()))
        hint = f"; installed models: {installed}" if installed else ""
        raise UsageError(f"{error}{hint}") from None
    for folder in folders:
        path = model_path(folder)
        check_is_model(path, storage.read_manifest(path))


def check_translates(*folders: Path, remedy: str | None = None) -> None:
    """Raise ``UsageError`` for a model of another task than translation.

    By default the remedy is the command that runs the model.
    """
    for folder in folders:
        task = task_of_folder(model_path(folder))
        if task != "translation":
            raise UsageError(
                f"{folder} is a model of {task}, not of translation; "
                f"{remedy or f'use headwise {use_command(task)}'}"
            )


def use_command(task: str) -> str:
    """Return the command that runs a model of ``task``."""
    return find_task(task).command


def check_search(
    folder: Path, table: dict[str, Any], *, others: Sequence[Path] = ()
) -> DecodingSettings:
    """Return the model's decoding settings, with those in ``table`` on top.

    ``others`` are the other models of an ensemble, for which they must fit too.
    """
    default = read_default_decoding(model_path(folder))
    settings = changed_by(default, table)
    for each in (folder, *others):
        if config := _architecture(each):
            settings.check_head(*config.cross_attention_shape)
    return settings


def _architecture(folder: Path) -> TransformerConfig | None:
    """Read the architecture; None if it is invalid, which opening the model reports."""
    described = storage.read_json(model_path(folder) / CONFIG)
    with suppress(SettingsError, TypeError, KeyError):
        return read(TransformerConfig, described["architecture"])
    return None


def check_device(name: str) -> None:
    """Raise ``UsageError`` for a malformed name; only torch knows what is present."""
    kind, colon, number = name.partition(":")
    if kind not in DEVICES or (colon and not number.isdigit()):
        raise UsageError(
            f"--device {name} is not a device; use cpu, cuda, cuda:1 for the second "
            "GPU, or auto"
        )


def check_environment() -> None:
    """Raise for a value of ``HEADWISE_NATIVE`` that is not known."""
    requested()


def check_assignments(
    option: str, example: str, assignments: Sequence[str] | None
) -> None:
    """Raise ``UsageError`` for an assignment without a name or an equals sign."""
    for each in assignments or []:
        path, equals, _ = each.partition("=")
        if not equals or not all(name.strip() for name in path.split(".")):
            raise UsageError(
                f"{option} takes NAME=VALUE, such as {example}, not {each!r}"
            )


def check_set(assignments: Sequence[str] | None) -> None:
    """Raise ``UsageError`` for a ``--set`` that is not NAME=VALUE."""
    check_assignments("--set", "training.steps=60", assignments)
