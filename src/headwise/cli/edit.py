"""``headwise edit``: change the card or the decoding settings of a trained model."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.argument_checks import check_files, check_models, check_search
from headwise.cli.options import (
    parse_path,
    parse_search,
    say,
    say_ignored_settings,
)
from headwise.errors import DataError, UsageError
from headwise.run_folder.installed_models import find_installed
from headwise.run_folder.paths import model_path, task_of_folder
from headwise.tasks import find_task

if TYPE_CHECKING:
    from headwise.run_folder.editing import EditResult

MAX_NOTES_BYTES = 1_000_000
"""Largest file of notes that is read."""


def edit(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="A run folder or a model folder.",
            parser=parse_path,
        ),
    ],
    search: Annotated[
        list[str] | None,
        typer.Option(
            "--search",
            metavar="NAME=VALUE",
            help="Change one default decoding setting, such as beam=5. May be "
            "repeated; docs/decoding.md lists them.",
            show_default=False,
        ),
    ] = None,
    languages: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="SOURCE TARGET",
            help="Languages to name in the card, such as en pt-BR; en en for one.",
            show_default=False,
        ),
    ] = None,
    license: Annotated[
        str | None,
        typer.Option(
            help="Licence to name in the card: an SPDX identifier, such as "
            "cc-by-4.0, or other.",
            show_default=False,
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="Title of the card.", show_default=False)
    ] = None,
    notes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Markdown to append to the card, in place of earlier notes; an "
            "empty file removes those.",
            show_default=False,
        ),
    ] = None,
    half: Annotated[
        bool,
        typer.Option(
            "--float16",
            help="Store the weights as float16: half the size. Computing stays in "
            "float32.",
        ),
    ] = False,
) -> None:
    """Change the card, the decoding settings or the size of a model.

    Tokenizers, and weights without --float16, stay byte for byte the same. If
    translations may change, the golden translations are made again. The folder is
    verified, rewritten with a new manifest, and replaced in one step. Exports inside it
    have the old card and settings, and are deleted, with a message.

    \b
    headwise edit en-de --license cc-by-4.0 --languages en de
    headwise edit en-de --search beam=5 --search alpha=0.8
    headwise edit en-de --float16
    headwise edit en-de --title "Captions, English to German" --notes notes.md
    """
    table = parse_search(search)
    of_card = languages, license, title, notes
    if not table and not half and all(each is None for each in of_card):
        raise UsageError(
            "nothing to change; give --search, --languages, --license, --title, "
            "--notes or --float16"
        )
    check_models(folder)
    if installed := find_installed(folder):
        raise UsageError(
            f"{folder} is an installed model, which stays as pip installed it; copy "
            f"{installed} and edit the copy"
        )
    check_files(notes)
    if find_task(task_of_folder(model_path(folder))).searches:
        say_ignored_settings(table, check_search(folder, table))
    from headwise.run_folder.card_edit import COMMON_LICENSES, CardChanges
    from headwise.run_folder.editing import edit_model

    changes = CardChanges(
        languages=languages or (),
        license=license,
        title=title,
        notes=None if notes is None else _text(notes),
    )
    done = edit_model(folder, search=table, card=changes, half=half)
    for line in _summary(done, folder):
        say(line)
    known = COMMON_LICENSES.split()
    if license is not None and license.lower() not in known:
        close = get_close_matches(license.lower(), known, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        say(f"note: {license.lower()} is not a licence that model hubs list{hint}")


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:  # it may be a device that never ends
            data = file.read(MAX_NOTES_BYTES + 1)
        if len(data) > MAX_NOTES_BYTES:
            raise DataError(
                f"{path} has more than the {MAX_NOTES_BYTES:,} bytes that notes may "
                "have; shorten it"
            )
        return data.decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: byte {error.start} is not UTF-8; save it as UTF-8"
        ) from None


def _summary(done: EditResult, folder: Path) -> Iterator[str]:
    """Yield what was changed, and what is left to do."""
    is_written = bool(done.search) or done.card_changed or done.weights_changed
    if not is_written:
        yield f"{done.path} has these settings already; nothing was written"
    for name, (old, new) in done.search.items():
        yield f"{name}: {old} → {new}"
    if done.weights_changed:
        yield "weights: float16"
    if done.golden:
        yield f"golden translations made again: {done.golden}"
    if is_written:
        yield f"{done.path}: written, with a new manifest"
    if done.recipe is not None:
        yield f"{done.recipe}: changed as well, for later checkpoints of this run"
    for export in done.stale:
        target, _, numbers = Path(export).name.partition("-")
        again = (
            f"headwise export {shlex.quote(str(folder))} --to {target} "
            f"--quantization {numbers or 'float32'} --out ..."
        )
        yield f"{export} had the old settings and was deleted; to export again: {again}"
    if done.search_changed or done.weights_changed:
        yield "exports elsewhere still have the old settings; export them again"
