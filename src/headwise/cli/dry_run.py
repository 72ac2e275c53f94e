"""``headwise train --dry-run``: what training would be, as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from headwise.cli.batch_size import rehearsal_of
from headwise.cli.streams import output
from headwise.recipe import Recipe

if TYPE_CHECKING:
    from headwise.data.prepared import PreparedCorpus
    from headwise.training.dry_run import DryRunReport


def show(
    out: Path,
    recipe: Recipe,
    corpus: PreparedCorpus,
    device: str,
    *,
    until: int | None = None,
    as_json: bool = False,
) -> None:
    """Try training out in memory and print what it would be; write nothing."""
    from headwise.run_folder.checkpoints import Checkpoints, step_of
    from headwise.run_folder.paths import CHECKPOINTS
    from headwise.run_folder.run import check_run
    from headwise.training.dry_run import dry_run_report

    check_run(out, recipe, corpus.facts.fingerprint)
    done = Checkpoints(out / CHECKPOINTS, lambda _: None).paths()
    rehearsal = rehearsal_of(recipe, corpus, device)
    outlook = dry_run_report(
        rehearsal, seed=recipe.seed, done=step_of(done[-1]) if done else 0, until=until
    )
    if as_json:
        facts = {**asdict(outlook), "seconds": outlook.seconds}
        output(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    for name, *lines in _table(outlook, recipe):
        for number, line in enumerate(lines):
            output(f"{'' if number else name:<15}{line}")


def _table(outlook: DryRunReport, recipe: Recipe) -> Iterator[list[str]]:
    from headwise.wording import count_of, duration

    training = recipe.training
    parts = outlook.parameters
    yield [
        "parameters",
        f"{sum(parts.values()):,}: "
        + ", ".join(f"{part} {count:,}" for part, count in parts.items()),
    ]
    yield ["memory", str(outlook.memory)]
    size = (
        count_of(training.batch_tokens, "target token")
        if training.batch_pairs is None
        else count_of(training.batch_pairs, "pair")
    )
    times = f", {training.accumulate} to an update" if training.accumulate > 1 else ""
    yield ["batches", f"{size} at most{times}; {outlook.padding:.1%} padding"]
    yield [
        "an epoch",
        f"{count_of(outlook.updates_an_epoch, 'update')} over "
        f"{count_of(outlook.pairs, 'pair')}",
    ]
    yield [
        "longest",
        *(
            f"pair {each.index:,}: {each.source_tokens:,} and {each.target_tokens:,} "
            f"tokens, of {each.corpus}"
            for each in outlook.longest
        ),
    ]
    if not outlook.dropped:
        yield ["left out", "no pair"]
    for number, each in enumerate(outlook.dropped):
        yield [
            "" if number else "left out",
            f"{each.pairs:,} with {each.reason}",
            *(f"    {example}" for example in each.examples),
            *(["    ..."] if each.pairs > len(each.examples) else []),
        ]
    yield [
        "learning rate",
        *(f"{rate:.2e} at update {step:,}" for step, rate in outlook.learning_rates),
    ]
    left = max(0, outlook.updates - outlook.updates_done)
    begun = (
        f" after {outlook.updates_done:,} that are done" if outlook.updates_done else ""
    )
    limit, patience = outlook.max_seconds, training.patience
    yield [
        "time",
        f"{duration(outlook.seconds)}"
        + (f", and no more than {duration(limit)}" if limit is not None else "")
        + (
            f"; less if {count_of(patience, 'validation')} bring no gain"
            if patience
            else ""
        ),
        f"    {count_of(left, 'update')}{begun}, "
        f"{outlook.seconds_an_update:.2f} s each",
        f"    {count_of(outlook.validations, 'validation')}, at most "
        f"{outlook.seconds_a_validation:.1f} s each",
    ]
