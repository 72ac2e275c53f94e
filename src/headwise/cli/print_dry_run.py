"""``headwise train --dry-run``: size, memory and time, as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from headwise.cli.batch_size import new_memory_estimator
from headwise.cli.standard_streams import output
from headwise.recipe import Recipe
from headwise.tasks import TASKS

if TYPE_CHECKING:
    from headwise.data.prepared import PreparedCorpus
    from headwise.training.dry_run_estimate import DryRunReport


def print_dry_run(
    out: Path,
    recipe: Recipe,
    corpus: PreparedCorpus,
    device: str,
    *,
    until: int | None = None,
    as_json: bool = False,
) -> None:
    """Measure a few updates in memory and print the report; write nothing."""
    from headwise.run_folder.checkpoints import Checkpoints
    from headwise.run_folder.paths import CHECKPOINTS
    from headwise.run_folder.run import check_run
    from headwise.training.dry_run_estimate import dry_run_report

    check_run(out, recipe, corpus.facts.fingerprint)
    state = Checkpoints(out / CHECKPOINTS, lambda _: None).newest_state()
    report = dry_run_report(
        new_memory_estimator(recipe, corpus, device),
        seed=recipe.seed,
        done=state.step if state else 0,
        seconds_done=state.seconds if state else 0.0,
        until=until,
    )
    if as_json:
        facts = asdict(report) | {
            "seconds": report.seconds,
            "share_in_time": report.share_in_time,
        }
        output(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    for name, *lines in _table(report, recipe):
        for number, line in enumerate(lines):
            output(f"{'' if number else name:<15}{line}")


def _table(report: DryRunReport, recipe: Recipe) -> Iterator[list[str]]:
    from headwise.wording import count_of

    training = recipe.training
    noun = TASKS[recipe.task].pair_format.example_noun
    parts = report.parameters
    yield [
        "parameters",
        f"{sum(parts.values()):,}: "
        + ", ".join(f"{part} {count:,}" for part, count in parts.items()),
    ]
    yield ["memory", str(report.memory)]
    size = (
        count_of(training.batch_tokens, "target token")
        if training.batch_pairs is None
        else count_of(training.batch_pairs, noun)
    )
    twice = ", each example twice" if training.num_passes > 1 else ""
    times = f", {training.accumulate} per update" if training.accumulate > 1 else ""
    yield ["batches", f"at most {size}{twice}{times}; {report.padding:.1%} padding"]
    are_cut = report.parts > report.pairs
    yield [
        "an epoch",
        f"{count_of(report.updates_an_epoch, 'update')} over "
        f"{count_of(report.pairs, noun)}"
        + (f", cut into {report.parts:,} parts" if are_cut else ""),
    ]
    yield [
        "longest",
        *(
            f"{noun} {each.index:,}: {each.source_tokens:,} and {each.target_tokens:,} "
            f"tokens, of {each.corpus}"
            for each in report.longest
        ),
    ]
    if not report.dropped:
        yield ["left out", f"no {noun}"]
    for number, each in enumerate(report.dropped):
        yield [
            "" if number else "left out",
            f"{each.pairs:,} with {each.reason}",
            *(f"    {example}" for example in each.examples),
            *(["    ..."] if each.pairs > len(each.examples) else []),
        ]
    yield [
        "learning rate",
        *(f"{rate:.2e} at update {step:,}" for step, rate in report.learning_rates),
    ]
    yield ["time", *_time(report, training.patience)]


def _time(report: DryRunReport, patience: int | None) -> Iterator[str]:
    """Yield the time that is left, and the updates and validations that fit into it."""
    from headwise.wording import count_of, duration

    whole = updates = max(0, report.updates - report.updates_done)
    validations = report.validations
    limit = about = without = ""
    if report.share_in_time < 1:
        # One update and one validation are made in any case.
        updates = max(1, round(report.share_in_time * updates))
        validations = max(1, round(report.share_in_time * validations))
        limit, about = ", the time limit", "about "
        without = f"; without the limit {whole:,}"
    elif report.seconds_left is not None:
        limit = f", within the limit of {duration(report.seconds_left)}"
    early = ""
    if patience is not None and validations > patience:
        early = f"; less if {count_of(patience, 'validation')} bring no improvement"
    resumed = f" after {report.updates_done:,} done" if report.updates_done else ""
    yield duration(report.seconds) + limit + early
    yield (
        f"    {about}{count_of(updates, 'update')}{resumed}, "
        f"{report.seconds_an_update:.2f} s each{without}"
    )
    yield (
        f"    {about}{count_of(validations, 'validation')}, at most "
        f"{report.seconds_a_validation:.1f} s each"
    )
