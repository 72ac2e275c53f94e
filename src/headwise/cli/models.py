"""``headwise models``: the models that installed packages provide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.options import say
from headwise.cli.standard_streams import output

if TYPE_CHECKING:
    from pathlib import Path


def models(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the models that installed packages provide.

    Printed are name, task, languages, licence, size and title. The name of an installed
    model stands for its folder in every command that uses a model, and in
    headwise.load.

    \b
    headwise models
    headwise translate en-fr < new.en
    headwise translate --to fr "The cat sleeps."
    """
    import json

    from headwise.run_folder.installed_models import installed_models

    rows = [facts(name, folder) for name, folder in installed_models().items()]
    if as_json:
        output(json.dumps(rows, indent=2, ensure_ascii=False))
    elif rows:
        table = [[str(value) for value in as_row(row)] for row in rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for line in table:
            cells = (cell.ljust(n) for cell, n in zip(line, widths, strict=True))
            output("  ".join(cells).rstrip())
    else:
        say("no model is installed; packages of models are installed by pip")


def facts(name: str, folder: Path) -> dict[str, Any]:
    """Return what is known of an installed model without opening it."""
    from headwise.run_folder.card_fields import card_fields
    from headwise.run_folder.installed_models import CARD
    from headwise.run_folder.paths import task_of_folder

    fields = card_fields((folder / CARD).read_text(encoding="utf-8", errors="replace"))
    return {
        "name": name,
        "task": task_of_folder(folder),
        "languages": list(fields.languages),
        "license": fields.license,
        "bytes": sum(x.stat().st_size for x in folder.rglob("*") if x.is_file()),
        "title": fields.title,
        "folder": str(folder),
    }


def as_row(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of a table for people."""
    return (
        row["name"],
        row["task"],
        " to ".join(row["languages"]) or "-",
        row["license"] or "-",
        f"{row['bytes'] / 1e6:.1f} MB",
        row["title"],
    )
