"""``headwise edit``: a trained model with another card or another default search."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.checks import check_files, check_models, check_search
from headwise.cli.options import (
    TrainedModel,
    say,
    say_without_effect,
    search_table,
)
from headwise.errors import DataError, UsageError

if TYPE_CHECKING:
    from headwise.run_folder.editing import Edited

MOST_NOTES = 1_000_000
"""Bytes of a file of notes."""


def edit(
    folder: TrainedModel,
    search: Annotated[
        list[str] | None,
        typer.Option(
            "--search",
            metavar="NAME=VALUE",
            help="Change one setting of the model's search, such as beam=5. May be "
            "repeated; docs/decoding.md has them all.",
            show_default=False,
        ),
    ] = None,
    languages: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="SOURCE TARGET",
            help="Languages that the card names, such as en pt-BR.",
            show_default=False,
        ),
    ] = None,
    license: Annotated[
        str | None,
        typer.Option(
            help="Licence that the card names, by its SPDX identifier, such as "
            "cc-by-4.0; other for one that has none.",
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
            help="Text in Markdown for the end of the card; an empty file takes away "
            "what stood there.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Change a model's card, or the search that it uses unless told otherwise.

    Weights and tokenizers stay the same bytes. With another search the golden
    translations are made again; thresholds of warnings change none. The folder is
    checked first, written anew beside itself, sealed, and put in its own place in one
    step. Exports in it, which carry card and search as they were, are taken away and
    named.

    \b
    headwise edit en-de --license cc-by-4.0 --languages en de
    headwise edit en-de --search beam=5 --search alpha=0.8
    headwise edit en-de --title "Captions, English to German" --notes notes.md
    """
    table = search_table(search)
    if not table and all(each is None for each in (languages, license, title, notes)):
        raise UsageError(
            "nothing to change is named; --search, --languages, --license, --title "
            "and --notes do"
        )
    check_models(folder)
    check_files(notes)
    say_without_effect(table, check_search(folder, table))
    from headwise.run_folder.card_edit import COMMON_LICENSES, CardChanges
    from headwise.run_folder.editing import edit_model

    changes = CardChanges(
        languages=languages or (),
        license=license,
        title=title,
        notes=None if notes is None else _text(notes),
    )
    done = edit_model(folder, search=table, card=changes)
    for line in _told(done, folder):
        say(line)
    known = COMMON_LICENSES.split()
    if license is not None and license.lower() not in known:
        close = get_close_matches(license.lower(), known, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        say(f"note: model hubs do not list the licence {license.lower()}{hint}")


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:  # it may be a device without an end
            data = file.read(MOST_NOTES + 1)
        if len(data) > MOST_NOTES:
            raise DataError(
                f"{path} has more than the {MOST_NOTES:,} bytes that notes may have; "
                "name a shorter file"
            )
        return data.decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: byte {error.start} is not UTF-8; save it as UTF-8"
        ) from None


def _told(done: Edited, folder: Path) -> Iterator[str]:
    """Say what was changed, and what that leaves to be done."""
    if not done.search and not done.card_changed:
        yield f"{done.path} has all that already; nothing was written"
    for name, (old, new) in done.search.items():
        yield f"{name}: {old} → {new}"
    if done.searches_otherwise:
        yield f"golden translations made again: {done.golden}"
    if done.search or done.card_changed:
        yield f"{done.path}: written and sealed"
    if done.recipe is not None:
        yield f"{done.recipe}: changed likewise, for better models of this run"
    for export in done.stale:
        target, _, numbers = Path(export).name.partition("-")
        again = (
            f"headwise export {shlex.quote(str(folder))} --to {target} "
            f"--quantization {numbers or 'float32'} --out ..."
        )
        yield f"{export} was made of the folder as it was, and is gone; again: {again}"
    if done.searches_otherwise:
        yield "exports elsewhere still search as before; export them again"
