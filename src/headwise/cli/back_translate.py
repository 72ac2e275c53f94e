"""``headwise back-translate``: synthetic pairs from text of the target language."""

from __future__ import annotations

import time
from collections.abc import Iterator
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
    is_standard_input,
)
from headwise.cli.options import (
    BackendName,
    Beam,
    Deterministic,
    Device,
    EngineName,
    Ensemble,
    Precision,
    SearchSettings,
    Threads,
    TrainedModel,
    parse_path,
    parse_search,
    resolve_device,
    say,
    say_engines,
    say_ignored_settings,
    use_threads,
)
from headwise.cli.text_lines import InputLines
from headwise.errors import DataError, UsageError
from headwise.inference.engines.engine_names import check_engine
from headwise.wording import count_of

if TYPE_CHECKING:
    from headwise.inference.resumable_pairs import ResumablePairs
    from headwise.inference.translator import Translator

SECONDS_BETWEEN_MESSAGES = 20.0

SUFFIXES = (".tsv", ".tab")
"""Suffixes by which a recipe knows a file of pairs."""


def back_translate(
    folder: TrainedModel,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Text of the target language, one sentence a line, plain or .gz.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE.tsv",
            help="Pairs to write: synthetic source, TAB, real target.",
            parser=parse_path,
        ),
    ],
    tag: Annotated[
        str | None,
        typer.Option(
            metavar="SYMBOL",
            help="Symbol to put before each synthetic source, such as <BT>; list it in "
            "text.symbols of the recipe.",
            show_default=False,
        ),
    ] = None,
    beam: Beam = None,
    search: SearchSettings = None,
    ensemble: Ensemble = None,
    engine: EngineName = "auto",
    backend: BackendName = "auto",
    precision: Precision = "float32",
    threads: Threads = None,
    device: Device = "auto",
    deterministic: Deterministic = False,
) -> None:
    """Translate text of the target language back, into pairs to train on.

    FOLDER is a model of the reverse direction: for more pairs of English and German, to
    train English to German, a model of German to English. Its outputs are drawn at
    random (search=sampling), which teaches more than a beam; --beam 4 and --search
    search=sampling --search top_k=10 are other ways. The same seed (--search seed=7)
    gives the same pairs.

    Blank and overlong lines are left out, and so are outputs that are empty, repeat
    themselves, reach their length limit, are far longer or shorter than the line, or
    copy it. FILE.tsv.left-out.tsv names each of them, with the reason. The
    same command resumes after a stop.

    \b
    headwise back-translate de-en news.de --out bt.tsv
    headwise back-translate de-en news.de.gz --beam 4 --tag '<BT>' --out bt.tsv
    """
    folders = [folder, *(ensemble or [])]
    check_engine(engine, precision, backend, models=len(folders))
    check_device(device)
    check_environment()
    _check_out(out)
    _check_tag(tag)
    check_models(*folders)
    check_translates(*folders)
    if any(map(is_standard_input, files)):
        raise UsageError(
            "standard input cannot be read again to resume after an interruption; "
            "write it to a file first, and name that"
        )
    check_files(*files)
    check_out_file("--out", out, inputs=[*folders, *files])
    overrides = parse_search(search)
    table: dict[str, Any] = {} if beam is None else {"beam": beam}
    if beam is None and "search" not in overrides and "beam" not in overrides:
        table["search"] = "sampling"
    table |= {**overrides, "scores": False}
    chosen = check_search(folder, table, others=folders[1:])
    if chosen.num_best > 1:
        raise UsageError(
            f"num_best must be 1, not {chosen.num_best}: one output of each line is "
            "written; to write several, run the command with several seeds"
        )
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
        "text": _digests_of(files),
        "search": as_table(chosen),
        "tag": tag,
        "precision": precision,
    }
    with ResumablePairs(out, identity) as pairs:
        if pairs.is_complete:
            say(f"{out} is complete already: same model, text and settings")
        else:
            _write(translator, pairs, files, table, tag)
            say_engines(translator.engine.used, engine)
        _say_counts(pairs)


def _write(
    translator: Translator,
    pairs: ResumablePairs,
    files: list[Path],
    table: dict[str, Any],
    tag: str | None,
) -> None:
    """Translate block by block, from where an earlier process was."""
    from headwise.inference.back_translation import back_translate as translate_block
    from headwise.inference.back_translation import blocks_of

    if pairs.num_lines:
        say(f"resuming after {count_of(pairs.num_lines, 'line')}")
    lines = InputLines(files, refuse_old_mac=False)
    texts: Iterator[str] = (each for each in lines if isinstance(each, str))
    said = time.monotonic()
    for block in blocks_of(islice(texts, pairs.num_lines, None)):
        kept, left_out = [], []
        found = translate_block(translator, block, table)
        for number, each in enumerate(found, start=pairs.num_lines + 1):
            if each.reason:
                where = lines.where(number)
                left_out.append((where, each.reason, each.target, each.source))
            else:
                source = f"{tag} {each.source}" if tag else each.source
                kept.append((source, each.target))
        pairs.append(kept, left_out, num_lines=len(block))
        if time.monotonic() - said >= SECONDS_BETWEEN_MESSAGES:
            said = time.monotonic()
            say(f"lines: {pairs.num_lines:,}, pairs: {pairs.num_pairs:,}")
    if not pairs.num_lines:
        raise DataError(
            f"{', '.join(map(str, files))}: no line of text; give text of the target "
            "language, one sentence a line"
        )
    pairs.finish()


def _say_counts(pairs: ResumablePairs) -> None:
    from headwise.inference.back_translation import REASONS

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
