"""``headwise inspect`` over a corpus: statistics of heads, their ranking, pruning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.cli.argument_checks import (
    check_files,
    check_input,
    check_new_folder,
    check_out_file,
    check_search,
    check_translates,
    check_two_files,
)
from headwise.cli.options import resolve_device, say
from headwise.cli.out_files import write_out_file
from headwise.cli.standard_streams import output
from headwise.errors import DataError, UsageError
from headwise.run_folder.paths import model_path
from headwise.wording import count_of

if TYPE_CHECKING:
    from headwise.inspection.head_ranking import HeadRanking
    from headwise.inspection.inspector import Inspector

Files = tuple[Path, Path]


def open_inspector(folder: Path, device: str) -> Inspector:
    """Open a model of any task, to look into it."""
    from headwise.inference.load import load_predictor

    return load_predictor(folder, device=device).inspector


def inspect_corpus(
    folder: Path,
    *,
    rank: Files | None,
    statistics: Files | None,
    bleu: int | None,
    prune: int | None,
    out: Path | None,
    search: dict[str, Any],
    device: str,
) -> None:
    """Print, or write as JSON, what heads do over two files of text."""
    if rank is not None and statistics is not None:
        raise UsageError("--rank-heads and --head-statistics exclude each other")
    if rank is None and (bleu is not None or prune is not None):
        raise UsageError("--bleu and --prune go with --rank-heads")
    if prune is not None and out is None:
        raise UsageError("--prune needs --out FOLDER, where the new model is written")
    if statistics is not None or bleu is not None or search:
        check_translates(folder)
        check_search(folder, search)
    files = rank or statistics
    assert files is not None, "the caller asked for one of them"
    check_files(*files)
    check_two_files(*files, remedy="take its sides apart, such as by cut -f1")
    check_input(list(files))
    if prune is not None and out is not None:
        if out.resolve().is_relative_to(model_path(folder).resolve()):
            raise UsageError(f"--out {out} is the model itself; name another folder")
        check_new_folder(out)
    elif out is not None:
        if out.suffix != ".json":
            raise UsageError(f"--out {out} must end in .json here")
        check_out_file("--out", out, inputs=[*files, folder])
    sources, targets = read_pairs(files)
    if statistics is not None:
        inspector = open_inspector(folder, resolve_device(device))
        _print_statistics(inspector, sources, targets, out)
        return
    _rank(folder, files, sources, targets, bleu, prune, out, search, device)


def read_pairs(files: Files) -> tuple[list[str], list[str]]:
    """Read lines and their translations; raise ``DataError`` if the files differ.

    Pairs with a blank side are left out, with a note.
    """
    from headwise.cli.text_lines import input_lines

    ours, theirs = (list(input_lines([path])) for path in files)
    if len(ours) != len(theirs):
        raise DataError(
            f"{files[0]} has {count_of(len(ours), 'line')} and {files[1]} has "
            f"{count_of(len(theirs), 'line')}; line N of both must belong together"
        )
    pairs = [
        (one, other)
        for one, other in zip(ours, theirs, strict=True)
        if one.strip() and other.strip()
    ]
    if len(pairs) < len(ours):
        left_out = count_of(len(ours) - len(pairs), "pair")
        say(f"note: {left_out} with a blank side left out")
    if not pairs:
        raise DataError(
            f"{files[0]} and {files[1]} have no pair with text on both sides"
        )
    return [one for one, _ in pairs], [other for _, other in pairs]


def _print_statistics(
    inspector: Inspector, sources: list[str], targets: list[str], out: Path | None
) -> None:
    found = inspector.statistics(sources, targets)
    if out is not None:
        _write_json(out, {"heads": found}, show="head-statistics")
        return
    from headwise.reports.inspection_text import statistics_text

    for line in statistics_text(found):
        output(line, flush=False)


def _rank(
    folder: Path,
    files: Files,
    sources: list[str],
    references: list[str],
    bleu: int | None,
    prune: int | None,
    out: Path | None,
    search: dict[str, Any],
    device: str,
) -> None:
    from headwise.inference.load import load_predictor
    from headwise.reports.inspection_text import interval, ranking_text

    predictor = load_predictor(folder, device=resolve_device(device))
    inspector = predictor.inspector
    say(f"one pass over {count_of(len(sources), 'pair')} for each head")
    ranking = inspector.rank_heads(sources, references)
    least = ranking.least(prune) if prune is not None else []
    scores = _bleu_of(inspector, ranking, sources, references, bleu, search)
    if out is not None and prune is None:
        _write_json(out, ranking, show="rank-heads", bleu=scores)
        return
    for line in ranking_text(ranking, scores):
        output(line, flush=False)
    if prune is None or out is None:
        return
    from headwise.inference.prune_heads import write_pruned
    from headwise.inspection.head_ranking import loss_without

    found = inspector.references(sources, references)
    together = loss_without(predictor.opened.model, found, least)
    names = ", ".join(map(str, least))
    say(
        f"without {names} together: loss {together.loss:.4f} ({interval(together)}) on "
        "the same pairs"
    )
    write_pruned(predictor.opened, out, together, measured_on=files[1].name)
    say(f"{out}: the model without {count_of(len(least), 'head')}")


def _bleu_of(
    inspector: Inspector,
    ranking: HeadRanking,
    sources: list[str],
    references: list[str],
    count: int | None,
    search: dict[str, Any],
) -> list[float | None]:
    """Return BLEU with all heads, and without each of the first ``count``."""
    if not count:
        return []
    without = [each.heads for each in ranking.heads[:count]]
    return [
        inspector.bleu_without(heads, sources, references, **search)
        for heads in ((), *without)
    ]


def _write_json(out: Path, found: Any, **more: Any) -> None:
    from headwise.inspection.json_form import json_text

    write_out_file(out, json_text(found, **more) + "\n")
    say(f"{out}: written")
