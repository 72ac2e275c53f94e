"""``headwise score``: log-probabilities of given translations (forced decoding)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.argument_checks import (
    check_device,
    check_environment,
    check_files,
    check_input,
    check_models,
    check_search,
    check_translates,
    check_two_files,
    is_standard_input,
)
from headwise.cli.options import (
    Deterministic,
    Device,
    Ensemble,
    SearchSettings,
    Threads,
    TrainedModel,
    parse_search,
    resolve_device,
    say,
    use_threads,
)
from headwise.cli.standard_streams import output
from headwise.cli.text_lines import input_lines
from headwise.errors import DataError, UsageError
from headwise.wording import count_of

if TYPE_CHECKING:
    from headwise.inference.translator import Candidate, Translator

PAIRS_AT_ONCE = 2000
"""Pairs read at a time, so that pairs of similar length share batches."""

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
        bool, typer.Option("--sort", help="Print the pairs, best score first.")
    ] = False,
    keep_best: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Print only the N pairs with the best scores.",
            show_default=False,
        ),
    ] = None,
    min_score: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Print only the pairs with a score of at least X.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON Lines with token scores.")
    ] = False,
    search: SearchSettings = None,
    ensemble: Ensemble = None,
    threads: Threads = None,
    device: Device = "auto",
    deterministic: Deterministic = False,
) -> None:
    """Score given translations: N pairs in, N scores out.

    A score is the log-probability of the target, end of sentence included, divided by
    the model's length penalty: by default the mean per token. Higher is better. --sort,
    --keep-best and --min-score print score, source and target separated by tabs (a tab
    inside a text becomes a space), and rank pairs with a blank side last. Without
    --sort the order of the lines is kept.

    \b
    headwise score en-de test.en test.de
    headwise score en-de test.en test.de --search length_penalty=none
    headwise score en-de all.en all.de --keep-best 100000 | cut -f 3 > best.de
    """
    if keep_best is not None and min_score is not None:
        raise UsageError(
            "--keep-best and --min-score exclude each other; give one of them"
        )
    if is_standard_input(source) and is_standard_input(target):
        raise UsageError(
            "standard input cannot be both SOURCE and TARGET; name a file for one"
        )
    if min_score is not None and not math.isfinite(min_score):
        raise UsageError(
            f"--min-score must be a number, such as -0.5, not {min_score:g}"
        )
    folders = [folder, *(ensemble or [])]
    check_device(device)
    check_environment()
    check_models(*folders)
    check_translates(*folders)
    check_files(source, target)
    check_input([source, target])
    check_two_files(source, target, remedy="take its sides apart, such as by cut -f1")
    table = {**parse_search(search), "token_scores": as_json}
    check_search(folder, table, others=folders[1:])

    from headwise.inference.translator import load

    use_threads(threads)
    translator = load(
        folders,
        device=resolve_device(device),
        engine="torch",
        deterministic=deterministic,
    )
    found = _scored(translator, source, target, table)
    with_text = sort or keep_best is not None or min_score is not None
    if min_score is not None:
        found = (each for each in found if each[1].score >= min_score)
    if keep_best is not None:
        found = iter(_best(list(found), keep_best))
    if sort:
        found = iter(sorted(found, key=_rank))
    for line, candidate in found:
        row = _format(line, candidate, as_json=as_json, with_text=with_text)
        output(row, flush=False)


def _scored(
    translator: Translator, source: Path, target: Path, table: dict[str, object]
) -> Iterator[Scored]:
    from headwise.data.identical_sides import IdenticalSides

    sources, targets = input_lines([source]), input_lines([target])
    same = IdenticalSides()
    count = 0
    while True:
        ours = list(islice(sources, PAIRS_AT_ONCE))
        theirs = list(islice(targets, PAIRS_AT_ONCE))
        if len(ours) != len(theirs):
            shorter = source if len(ours) < len(theirs) else target
            raise DataError(
                f"{shorter} ends after "
                f"{count_of(count + min(len(ours), len(theirs)), 'line')} "
                "and the other file is longer; line N of TARGET must translate line N "
                "of SOURCE"
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
    """Return the ``count`` best in their original order; ties go to the first."""
    order = sorted(range(len(found)), key=lambda number: _rank(found[number]))
    return [found[number] for number in sorted(order[:count])]


def _rank(scored: Scored) -> tuple[bool, float]:
    """Return the sort key of a pair: best score first, pairs with a blank side last.

    An empty translation of an empty line is probable, but useless as training data.
    """
    source, candidate = scored
    return not (source.strip() and candidate.text.strip()), -candidate.score


def _format(line: str, candidate: Candidate, *, as_json: bool, with_text: bool) -> str:
    if as_json:
        table = {
            "source": line,
            "target": candidate.text,
            "score": candidate.score,
            "log_probability": candidate.log_probability,
            "tokens": [list(each) for each in candidate.tokens],
        }
        return json.dumps(table, ensure_ascii=False)
    row = f"{candidate.score:.6f}"
    if with_text:
        texts = [text.replace("\t", " ") for text in (line, candidate.text)]
        row = "\t".join([row, *texts])
    return row
