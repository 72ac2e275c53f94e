"""Steps of ``back-translate`` and ``forward-translate``: real text and its output."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.argument_checks import (
    check_device,
    check_environment,
    check_files,
    check_models,
    check_out_file,
    check_search,
    check_translates,
    check_whole_lines,
    is_standard_input,
)
from headwise.cli.options import (
    parse_search,
    resolve_device,
    say,
    say_engines,
    say_ignored_settings,
    use_threads,
)
from headwise.cli.text_lines import InputLines, silent_lines
from headwise.errors import DataError, UsageError
from headwise.inference.engines.engine_names import check_engine
from headwise.wording import count_of

if TYPE_CHECKING:
    from headwise.inference.resumable_pairs import ResumablePairs
    from headwise.inference.translator import Translator

SECONDS_BETWEEN_MESSAGES = 20.0

SUFFIXES = (".tsv", ".tab")
"""Suffixes by which a recipe knows a file of pairs."""

Tag = Annotated[
    str | None,
    typer.Option(
        metavar="SYMBOL",
        help="Symbol to put before each source, such as <BT>, by which a model tells "
        "these pairs from others; list it in text.symbols of the recipe.",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Direction:
    """Which side of the pairs is made, and by which search if none is asked for."""

    command: str
    """The name of the command."""

    language: str
    """The language of the text, for messages: source or target."""

    makes_source: bool
    default_search: str | None
    """Value of the setting ``search``; None: that of the model."""

    key: str
    """What the digests of the text are called in the progress of a file of pairs."""

    def pair(self, line: str, output: str, tag: str | None) -> tuple[str, str]:
        """Return source and target of a line and its translation."""
        source, target = (output, line) if self.makes_source else (line, output)
        return (f"{tag} {source}" if tag else source), target


BACK = Direction(
    command="back-translate",
    language="target",
    makes_source=True,
    default_search="sampling",
    key="text",
)
FORWARD = Direction(
    command="forward-translate",
    language="source",
    makes_source=False,
    default_search=None,
    key="source text",
)


def write_synthetic_pairs(
    direction: Direction,
    folder: Path,
    files: list[Path],
    *,
    out: Path,
    tag: str | None,
    beam: int | None,
    search: list[str] | None,
    ensemble: list[Path] | None,
    engine: str,
    backend: str,
    precision: str,
    threads: int | None,
    device: str,
    deterministic: bool,
    references: list[Path] | None = None,
) -> None:
    """Translate ``files`` with the model in ``folder``; write the pairs, or resume.

    With ``references``, a file for each of ``files``, a line's output is the nearest
    to one of its references, of as many as the search has candidates.
    """
    folders = [folder, *(ensemble or [])]
    check_engine(engine, precision, backend, models=len(folders))
    check_device(device)
    check_environment()
    _check_out(out)
    _check_tag(tag)
    check_models(*folders)
    check_translates(*folders)
    texts = [*files, *(references or [])]
    if any(map(is_standard_input, texts)):
        raise UsageError(
            "standard input cannot be read again to resume after an interruption; "
            "write it to a file first, and name that"
        )
    check_files(*texts)
    check_whole_lines(direction.command, *texts, piped=False)
    check_out_file("--out", out, inputs=[*folders, *texts])
    of_lines = _read_references(files, references) if references else None
    overrides = parse_search(search)
    table: dict[str, Any] = {} if beam is None else {"beam": beam}
    is_chosen = beam is not None or {"search", "beam"} & overrides.keys()
    if direction.default_search is not None and not is_chosen:
        table["search"] = direction.default_search
    table |= {**overrides, "scores": False}
    chosen = check_search(folder, table, others=folders[1:])
    if chosen.num_best > 1:
        raise UsageError(
            f"num_best must be 1, not {chosen.num_best}: one output of each line is "
            "written; to write several, run the command with several seeds"
        )
    if references:
        if chosen.num_candidates < 2:
            more = "--search samples=" if chosen.search == "sampling" else "--beam "
            raise UsageError(
                "--references chooses among several outputs of a line, and this search "
                f"has one; {more}5 would work"
            )
        table["num_best"] = chosen.num_candidates
    say_ignored_settings([*overrides, *([] if beam is None else ["beam"])], chosen)

    from headwise.inference.resumable_pairs import ResumablePairs
    from headwise.inference.translator import load
    from headwise.settings import as_table

    use_threads(threads)
    translator = load(
        folders,
        device=resolve_device(device),
        engine=engine,
        backend=backend,
        precision=precision,
        deterministic=deterministic,
        threads=threads,
    )
    identity = {
        "model": [_digest(each) for each in translator.folders],
        direction.key: _digests_of(files),
        **({"references": _digests_of(references)} if references else {}),
        "search": as_table(chosen),
        "tag": tag,
        "precision": precision,
    }
    with ResumablePairs(out, identity) as pairs:
        if pairs.is_complete:
            say(f"{out} is complete already: same model, text and settings")
        else:
            _write(direction, translator, pairs, files, table, tag, of_lines)
            say_engines(translator.engine.used, engine)
        _say_counts(pairs)


def _write(
    direction: Direction,
    translator: Translator,
    pairs: ResumablePairs,
    files: list[Path],
    table: dict[str, Any],
    tag: str | None,
    references: dict[str, list[str]] | None,
) -> None:
    """Translate block by block, from where an earlier process was."""
    from headwise.inference.synthetic_pairs import blocks_of, make_pairs

    if pairs.num_lines:
        say(f"resuming after {count_of(pairs.num_lines, 'line')}")
    lines = InputLines(files, refuse_old_mac=False)
    texts = _texts(lines)
    for done in islice(texts, pairs.num_lines):
        if references is not None:
            references.pop(done, None)
    said = time.monotonic()
    for block in blocks_of(texts):
        kept, left_out = [], []
        found = make_pairs(translator, block, table, references)
        for number, each in enumerate(found, start=pairs.num_lines + 1):
            if each.reason:
                where = lines.where(number)
                left_out.append((where, each.reason, each.line, each.output))
            else:
                kept.append(direction.pair(each.line, each.output, tag))
        pairs.append(kept, left_out, num_lines=len(block))
        if time.monotonic() - said >= SECONDS_BETWEEN_MESSAGES:
            said = time.monotonic()
            say(f"lines: {pairs.num_lines:,}, pairs: {pairs.num_pairs:,}")
    if not pairs.num_lines:
        raise DataError(
            f"{', '.join(map(str, files))}: no line of text; give text of the "
            f"{direction.language} language, one sentence a line"
        )
    if not pairs.num_pairs:
        say(f"note: no pair was written: {pairs.left_out} says why for each line")
    pairs.finish()


def _texts(lines: InputLines) -> Iterator[str]:
    return (each for each in lines if isinstance(each, str))


def _say_counts(pairs: ResumablePairs) -> None:
    from headwise.inference.synthetic_pairs import REASONS

    say(
        f"{count_of(pairs.num_lines, 'line')} read, "
        f"{count_of(pairs.num_pairs, 'pair')} in {pairs.out}"
    )
    if not pairs.reasons:
        return
    say(f"{count_of(pairs.reasons.total(), 'line')} left out ({pairs.left_out}):")
    for reason, count in pairs.reasons.most_common():
        say(f"  {count:,} {reason}: {REASONS[reason]}")


def _check_out(out: Path) -> None:
    if out.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"--out {out} must end in {' or '.join(SUFFIXES)}, by which a recipe knows "
            "a file of pairs"
        )


def _read_references(files: list[Path], references: list[Path]) -> dict[str, list[str]]:
    """Return the references of each line of ``files`` that are not blank.

    Raises an error unless each line has its own line of ``references``.
    """
    if len(references) != len(files):
        raise UsageError(
            f"{count_of(len(files), 'FILE')} and {len(references)} --references; give "
            "a file of references for each, in the same order"
        )
    found: dict[str, list[str]] = {}
    for file, reference in zip(files, references, strict=True):
        ours, theirs = silent_lines(file), silent_lines(reference)
        if len(ours) != len(theirs):
            raise DataError(
                f"{file} has {count_of(len(ours), 'line')} and {reference} "
                f"{len(theirs):,}; line N of {reference} must translate line N of "
                f"{file}"
            )
        for line, text in zip(ours, theirs, strict=True):
            found.setdefault(line, []).extend([text] if text.strip() else [])
    return found


def _check_tag(tag: str | None) -> None:
    if tag is None:
        return
    if not tag or not tag.isprintable() or any(map(str.isspace, tag)):
        raise UsageError(
            f"--tag must be one printable symbol without white space, such as <BT>, "
            f"not {tag!r}"
        )


def _digest(opened: Any) -> str:
    """Return what identifies a model folder: the SHA-256 of its weights."""
    files = opened.manifest["files"]
    return str(files["model.safetensors"]["sha256"])


def _digests_of(files: list[Path]) -> list[str]:
    from headwise import storage

    try:
        return [storage.sha256(each) for each in files]
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from None
