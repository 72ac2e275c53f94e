"""``headwise score``: how probable a model finds given translations."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.checks import (
    STANDARD_INPUT,
    check_device,
    check_files,
    check_input,
    check_kernels,
    check_models,
    check_search,
)
from headwise.cli.options import (
    Deterministic,
    Device,
    Ensemble,
    SearchSettings,
    Threads,
    TrainedModel,
    chosen_device,
    say,
    search_table,
    use_threads,
)
from headwise.cli.streams import output
from headwise.cli.text_lines import lines_of
from headwise.errors import DataError, UsageError
from headwise.wording import count_of

if TYPE_CHECKING:
    from headwise.inference.translator import Candidate, Translator

PAIRS_AT_ONCE = 2000
"""Pairs that are read before any is scored, so that similar lengths meet."""

Scored = tuple[str, "Candidate"]


def score(
    folder: TrainedModel,
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Text, plain or .gz.")
    ],
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="Its translation, line by line.")
    ],
    sort: Annotated[
        bool, typer.Option("--sort", help="Print the pairs, the best score first.")
    ] = False,
    keep_best: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Print the N pairs with the best scores only.",
            show_default=False,
        ),
    ] = None,
    min_score: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Print the pairs with a score of X or more only.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON lines, with each token's ln p.")
    ] = False,
    search: SearchSettings = None,
    ensemble: Ensemble = None,
    threads: Threads = None,
    device: Device = "auto",
    deterministic: Deterministic = False,
) -> None:
    """Score each line pair: N lines in, N lines out, higher is better.

    A score is ln p of the target, END counted, divided by the model's length penalty:
    by default the mean ln p of a token. Where pairs are sorted or chosen they are
    printed with it, between tabs: score, source, target; those with a blank side come
    last. Without --sort they stay in their order; a tab inside a text becomes a space.

    \b
    headwise score en-de test.en test.de
    headwise score en-de test.en test.de --search length_penalty=none
    headwise score en-de all.en all.de --keep-best 100000 | cut -f 3 > best.de
    """
    if keep_best is not None and min_score is not None:
        raise UsageError("--keep-best and --min-score are two ways; choose one of them")
    if source == target == STANDARD_INPUT:
        raise UsageError(
            "standard input cannot be both SOURCE and TARGET; name a file for one"
        )
    if min_score is not None and math.isnan(min_score):
        raise UsageError("--min-score must be a number, such as -0.5, not nan")
    folders = [folder, *(ensemble or [])]
    check_device(device)
    check_kernels()
    check_models(*folders)
    check_files(source, target)
    check_input([source, target])
    table = {**search_table(search), "token_scores": as_json}
    check_search(folder, table, others=folders[1:])

    from headwise.inference.translator import load

    use_threads(threads)
    translator = load(
        folders,
        device=chosen_device(device),
        engine="torch",
        deterministic=deterministic,
    )
    found = _scored(translator, source, target, table)
    whole = sort or keep_best is not None or min_score is not None
    if min_score is not None:
        found = (each for each in found if each[1].score >= min_score)
    if keep_best is not None:
        found = iter(_best(list(found), keep_best))
    if sort:
        found = iter(sorted(found, key=_rank))
    for line, candidate in found:
        shown = _shown(line, candidate, as_json=as_json, whole=whole)
        output(shown, flush=False)


def _scored(
    translator: Translator, source: Path, target: Path, table: dict[str, object]
) -> Iterator[Scored]:
    from headwise.data.sameness import SameTexts

    sources, targets = lines_of([source]), lines_of([target])
    same = SameTexts()
    count = 0
    while True:
        ours = list(islice(sources, PAIRS_AT_ONCE))
        theirs = list(islice(targets, PAIRS_AT_ONCE))
        if len(ours) != len(theirs):
            shorter = source if len(ours) < len(theirs) else target
            raise DataError(
                f"{shorter} ends after "
                f"{count_of(count + min(len(ours), len(theirs)), 'line')} "
                "and the other file does not; line N of both must belong together"
            )
        if not ours:
            for note in same.notes(source, target):
                say(note)
            return
        count += len(ours)
        for pair in zip(ours, theirs, strict=True):
            same.add(*pair)
        yield from zip(ours, translator.score(ours, theirs, **table), strict=True)


def _best(found: list[Scored], count: int) -> list[Scored]:
    """Keep the best, in the order in which they stand; of equals the first."""
    order = sorted(range(len(found)), key=lambda number: _rank(found[number]))
    return [found[number] for number in sorted(order[:count])]


def _rank(scored: Scored) -> tuple[bool, float]:
    """Return what pairs are sorted by: the better first, those with a blank side last.

    That nothing becomes nothing is probable, and of no use to whoever chooses pairs.
    """
    source, candidate = scored
    return not (source.strip() and candidate.text.strip()), -candidate.score


def _shown(line: str, candidate: Candidate, *, as_json: bool, whole: bool) -> str:
    if as_json:
        table = {
            "source": line,
            "target": candidate.text,
            "score": candidate.score,
            "log_probability": candidate.log_probability,
            "tokens": [list(each) for each in candidate.tokens],
        }
        return json.dumps(table, ensure_ascii=False)
    shown = f"{candidate.score:.6f}"
    if whole:
        texts = [text.replace("\t", " ") for text in (line, candidate.text)]
        shown = "\t".join([shown, *texts])
    return shown
