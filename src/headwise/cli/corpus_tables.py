"""Settings of the corpora that arguments and options name, by the format of pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwise.cli.argument_checks import check_files
from headwise.data.pair_formats import (
    CAPTIONS,
    DIALOGUES,
    DOCUMENTS,
    PICTURES,
    TREES,
)
from headwise.data.settings import SUFFIXES, is_csv, layout_of
from headwise.errors import UsageError
from headwise.tasks import TASKS


def check_sources(task: str, *sources: Path | None) -> None:
    """Raise ``UsageError`` for sources that do not exist, or are no files.

    Pictures may be a folder.
    """
    may_be_folders = TASKS[task].pair_format.reads_pictures
    check_files(*(x for x in sources if x and not (may_be_folders and x.is_dir())))


def check_fields(fields: tuple[str, str] | None, *files: Path | None) -> None:
    """Raise ``UsageError`` for ``--fields`` where no single file is JSON Lines.

    ``files`` are those with both sides.
    """
    if fields is None:
        return
    for each in fields:
        if layout_of(each) == "jsonl" and Path(each).is_file():
            raise UsageError(
                "--fields takes two keys, SOURCE TARGET, such as --fields text label, "
                f"but {each} is a file; give both keys before it"
            )
    if fields[0] == fields[1]:
        raise UsageError(
            f"--fields takes two different keys, SOURCE TARGET, not {fields[0]!r} twice"
        )
    if not any(each and layout_of(each.name) == "jsonl" for each in files):
        raise UsageError(
            "--fields names keys of one JSON Lines file with both sides (.jsonl or "
            ".ndjson, .gz may follow), and no argument is one: leave it out; --columns "
            "is for TSV, and a recipe has source_field and target_field for each corpus"
        )


def check_columns(columns: tuple[int, int] | None, *files: Path | None) -> None:
    """Raise ``UsageError`` for ``--columns`` where no single file is a TSV.

    ``files`` are those with both sides. A CSV has a message of its own.
    """
    if columns is None:
        return
    if not any(
        each and (layout_of(each.name) == "tsv" or is_csv(each.name)) for each in files
    ):
        raise UsageError(
            "--columns counts those of one TSV file with both sides (.tsv or .tab, .gz "
            "may follow), and no argument is one: leave it out; --fields is for JSON "
            "Lines, and a recipe has source_column and target_column for each corpus"
        )


def table_for(
    task: str,
    source: Path,
    target: Path | None,
    *,
    columns: tuple[int, int] | None = None,
    fields: tuple[str, str] | None = None,
    remedy: str = "give TARGET too",
) -> dict[str, Any]:
    """Return the settings of a corpus of ``task`` that arguments or options name.

    Raises ``UsageError`` for one file of plain text where a task needs two sides;
    ``remedy`` says how to give the other. A CSV is left to ``CorpusSettings``.
    """
    read_as = TABLES.get(TASKS[task].pair_format.name, corpus_table)
    table = read_as(source, target, columns, fields)
    has_layout = "format" in table or layout_of(source.name) is not None
    if target is None and not has_layout and not is_csv(source.name):
        raise UsageError(
            f"{source} is plain text by its name, which is only one side of the pairs; "
            f"{remedy}, or one file with both sides whose name ends in .tsv or .jsonl "
            "(.gz may follow)"
        )
    return table


def corpus_table(
    source: Path,
    target: Path | None,
    columns: tuple[int, int] | None = None,
    fields: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Return the settings of a corpus that options name.

    ``columns`` are for a TSV, ``fields`` for JSON Lines; other files do without.
    """
    if target is not None:
        return {"source": str(source), "target": str(target)}
    table: dict[str, Any] = {"source": str(source)}
    layout = layout_of(source.name)
    if columns is not None and layout == "tsv":
        table["source_column"], table["target_column"] = columns
    if fields is not None and layout == "jsonl":
        table["source_field"], table["target_field"] = fields
    return table


def document_table(
    source: Path,
    target: Path | None,
    columns: tuple[int, int] | None = None,
    fields: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Return the settings of a corpus of text alone, such as for a language model."""
    if target is not None:
        raise UsageError(
            f"a language model learns from text alone, not from {source} and {target}; "
            "name one file, and further ones in a recipe as [[data.corpora]]"
        )
    if columns is not None:
        raise UsageError(
            "--columns is for TSV files with two sides; a language model learns from "
            "text alone: leave it out"
        )
    if fields is not None:
        raise UsageError(
            "--fields is for JSON Lines with two sides; a language model learns from "
            'text alone, the key "text": leave it out, or set source_field in a recipe'
        )
    if any(each in (".jsonl", ".ndjson") for each in source.suffixes):
        return {"source": str(source), "source_field": "text"}
    return {"source": str(source), "format": "text"}


def tree_table(
    source: Path,
    target: Path | None,
    columns: tuple[int, int] | None = None,
    fields: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Return the settings of a corpus of trees.

    It is a treebank, unless its name or the other arguments say that sentences and
    trees are two sides.
    """
    table = corpus_table(source, target, columns, fields)
    suffix = source.with_suffix("") if source.suffix == ".gz" else source
    if target is not None or suffix.suffix.lower() in SUFFIXES:
        return table
    return {**table, "format": "trees"}


def dialogue_table(
    source: Path,
    target: Path | None,
    columns: tuple[int, int] | None = None,
    fields: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Return the settings of a corpus of dialogues.

    JSON Lines have turns; other files, and JSON Lines whose ``fields`` are named, are
    questions with their answers.
    """
    table = corpus_table(source, target, columns, fields)
    if fields is None and target is None and {".jsonl", ".ndjson"} & {*source.suffixes}:
        return {**table, "format": "dialogues"}
    return table


def picture_table(
    source: Path,
    target: Path | None,
    columns: tuple[int, int] | None = None,
    fields: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Return the settings of labelled pictures: a folder, a list or a ``.npz`` file."""
    given = {str(target): target, "--columns": columns, "--fields": fields}
    surplus = [name for name, value in given.items() if value is not None]
    if surplus:
        raise UsageError(
            f"pictures and their labels come from one place, such as {source}: a "
            "folder with a sub-folder for each label, a .tsv list of paths and labels, "
            'a .jsonl list with the keys "path" and "label", or a .npz file; leave '
            f"{surplus[0]} out"
        )
    return {"source": str(source), "format": "pictures"}


TABLES = {
    DOCUMENTS.name: document_table,
    TREES.name: tree_table,
    PICTURES.name: picture_table,
    CAPTIONS.name: picture_table,
    DIALOGUES.name: dialogue_table,
}
"""How files are read for formats of pairs that are not lines with two sides."""
