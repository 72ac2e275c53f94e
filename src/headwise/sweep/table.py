"""The table of a sweep: a row for each combination of settings, best first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Literal

from headwise.metrics.paired_bootstrap import PAIRED, paired_bootstrap
from headwise.metrics.paired_difference import Difference, paired_difference
from headwise.reports.formatting import columns
from headwise.sweep.ledger import OUTPUTS, Ledger, Trial
from headwise.sweep.space import Settings, rounded, shown
from headwise.training.settings import LOWER_IS_BETTER

Baseline = Literal["best", "first"]

NONE = "–"

UNEVEN = 1.2
"""Ratio of updates in the same time from which a note says that they differ."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One combination, over its seeds."""

    settings: Settings
    trials: list[Trial]
    """One for each seed, in the order of seeds."""

    mean: float | None
    """Mean validation value of the finished trials."""

    deviation: float | None
    """Standard deviation over seeds (n - 1); None of fewer than two."""

    is_baseline: bool = False
    difference: Difference | None = None
    """Paired difference to the baseline, over the seeds that both have finished."""

    p_bootstrap: dict[int, float] | None = None
    """Seed -> p-value of sacreBLEU's paired bootstrap test against the baseline."""

    @property
    def finished(self) -> list[Trial]:
        """The trials that had their whole budget."""
        return [each for each in self.trials if each.state == "finished"]

    @property
    def is_complete(self) -> bool:
        """Whether all seeds have finished."""
        return len(self.finished) == len(self.trials)

    @property
    def states(self) -> str:
        """The states of its trials with their counts: ``2 finished, 1 failed``."""
        names = [each.state for each in self.trials]
        return ", ".join(f"{names.count(x)} {x}" for x in dict.fromkeys(names))

    def mean_of(self, name: str) -> float:
        """Return the mean of ``updates``, ``tokens`` or ``minutes``.

        It is over the trials that were started; 0 if none was.
        """
        started = [float(getattr(x, name)) for x in self.trials if x.updates]
        return mean(started) if started else 0.0


def make_table(
    ledger: Ledger, *, baseline: Baseline = "best", tests: bool = True
) -> list[Row]:
    """Return the rows, best first; those with trials left out come after the others.

    ``baseline`` is what rows are compared to: the best, or the first combination.
    ``tests``: with the bootstrap tests, which take about half a second for each pair.
    """
    measure = measure_of(ledger)
    lower = measure in LOWER_IS_BETTER
    rows = [_row(each) for each in _by_combination(ledger)]
    first = rows[0] if rows else None
    rows.sort(key=lambda row: _rank(row, lower=lower))
    reference = rows[0] if baseline == "best" and rows else first
    if reference is None or reference.mean is None:
        return rows
    return [_compared(row, reference, ledger, measure, tests) for row in rows]


def measure_of(ledger: Ledger) -> str:
    """Return the measure of all validation values."""
    measure: str = ledger.plan.recipe["training"]["measure"]
    return measure


def notes(ledger: Ledger, rows: Sequence[Row]) -> list[str]:
    """Return what a reader of the table must know."""
    found = []
    texts = {each.validation_text for each in ledger.trials if each.validation_text}
    if len(texts) > 1:
        found.append(
            "the trials were validated on different text, as the varied settings "
            "choose it: their values cannot be compared"
        )
    varies_text = any(
        each["path"].startswith(("text.", "data.")) for each in ledger.plan.varied
    )
    if varies_text and measure_of(ledger) == "loss":
        found.append(
            "a loss per token depends on tokenizer and context: values of different "
            "settings of text or data are not compared"
        )
    if any(not row.is_complete and row.finished for row in rows):
        found.append(
            "a combination with unfinished trials has a mean over fewer seeds, and is "
            "listed after the others"
        )
    if (uneven := _uneven_updates(ledger, rows)) is not None:
        few, many = uneven
        found.append(
            f"trials of one combination made {few:,} and {many:,} updates in the same "
            "time, as the machine was busy otherwise; a limit of training.steps is "
            "equal on any machine"
        )
    if len(ledger.plan.seeds) == 1:
        found.append(
            "one seed: differences may be those of seeds, of which no interval "
            "can be given"
        )
    return found


def as_tsv(ledger: Ledger, rows: Sequence[Row]) -> str:
    """Return the table as tab-separated values; what is not known is empty."""
    head = [*_paths(ledger), *_names(measure_of(ledger))]
    lines = ["\t".join(head)]
    for row in rows:
        cells = [shown(value) for value in row.settings.values()]
        cells += ["" if each is None else _exact(each) for each in _facts(row)]
        lines.append("\t".join(cells))
    return "\n".join(lines)


def as_json(ledger: Ledger, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the table as JSON, with all trials."""
    names = _names(measure_of(ledger))
    return {
        "measure": measure_of(ledger),
        "notes": notes(ledger, rows),
        "combinations": [
            {
                "settings": row.settings,
                **dict(zip(names, _facts(row), strict=True)),
                "p_bootstrap": row.p_bootstrap,
                "is_baseline": row.is_baseline,
            }
            for row in rows
        ],
        "trials": [
            {**asdict(each), "folder": str(ledger.folder / each.folder)}
            for each in ledger.trials
        ],
    }


def as_lines(ledger: Ledger, rows: Sequence[Row]) -> list[str]:
    """Return the table as aligned lines for a terminal."""
    return columns(text_cells(ledger, rows))


def text_cells(ledger: Ledger, rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Return the cells of the table, rounded for readers, with the head first."""
    measure = measure_of(ledger)
    test = "p (bootstrap, by seed)"
    head = (
        *(path.rpartition(".")[2] for path in _paths(ledger)),
        *(f"mean {measure}", "sd", "n", "difference", "95% interval", test),
        *("updates", "tokens", "minutes", "trials"),
    )
    return [head, *(_text_row(row) for row in rows)]


def _text_row(row: Row) -> tuple[str, ...]:
    difference = row.difference
    interval = NONE
    if difference is not None and difference.low is not None:
        interval = f"{difference.low:+.3g} to {difference.high:+.3g}"
    tests = row.p_bootstrap or {}
    return (
        *(rounded(value) for value in row.settings.values()),
        NONE if row.mean is None else f"{row.mean:.4g}",
        NONE if row.deviation is None else f"{row.deviation:.2g}",
        str(len(row.finished)),
        "baseline"
        if row.is_baseline
        else NONE
        if difference is None
        else f"{difference.mean:+.3g}",
        interval,
        " ".join(f"{p:.3f}" for p in tests.values()) or NONE,
        f"{row.mean_of('updates'):,.0f}",
        f"{row.mean_of('tokens'):,.0f}",
        f"{row.mean_of('minutes'):.2f}",
        row.states,
    )


def _row(trials: list[Trial]) -> Row:
    values = [
        each.value
        for each in trials
        if each.state == "finished" and each.value is not None
    ]
    return Row(
        settings=trials[0].settings,
        trials=trials,
        mean=mean(values) if values else None,
        deviation=stdev(values) if len(values) > 1 else None,
    )


def _by_combination(ledger: Ledger) -> list[list[Trial]]:
    found: dict[str, list[Trial]] = {}
    for each in ledger.trials:
        found.setdefault(each.combination, []).append(each)
    order = {seed: place for place, seed in enumerate(ledger.plan.seeds)}
    return [sorted(x, key=lambda trial: order[trial.seed]) for x in found.values()]


def _rank(row: Row, *, lower: bool) -> tuple[int, float]:
    """Return a key by which rows are sorted: complete ones first, then by value."""
    sign = 1 if lower else -1
    if row.mean is not None:
        return (0 if row.is_complete else 1), sign * row.mean
    known = [each.value for each in row.trials if each.value is not None]
    return (2, sign * mean(known)) if known else (3, 0.0)


def _compared(
    row: Row, reference: Row, ledger: Ledger, measure: str, tests: bool
) -> Row:
    if row is reference:
        return replace(row, is_baseline=True)
    theirs = {each.seed: each for each in reference.finished}
    both = [(each, theirs[each.seed]) for each in row.finished if each.seed in theirs]
    pairs = [
        (one.value, other.value)
        for one, other in both
        if one.value is not None
        and other.value is not None
        and _is_comparable(one, other, measure)
    ]
    if not pairs:
        return row
    difference = paired_difference([x for x, _ in pairs], [x for _, x in pairs])
    p_values: dict[int, float] = {}
    if tests and measure in PAIRED:
        for one, other in both:
            p = _bootstrap(ledger.folder, one, other, measure)
            if p is not None:
                p_values[one.seed] = p
    return replace(row, difference=difference, p_bootstrap=p_values or None)


def _uneven_updates(ledger: Ledger, rows: Sequence[Row]) -> tuple[int, int] | None:
    """Return the most different numbers of updates of two seeds in the same time.

    None if they differ by less than ``UNEVEN``, or if time is not limited.
    """
    if ledger.plan.recipe["training"].get("max_minutes") is None:
        return None
    found = [sorted(each.updates for each in row.finished) for row in rows]
    pairs = [(each[0], each[-1]) for each in found if len(each) > 1]
    few, many = max(pairs, key=lambda pair: pair[1] / max(1, pair[0]), default=(1, 1))
    return (few, many) if many > UNEVEN * few else None


def _is_comparable(one: Trial, other: Trial, measure: str) -> bool:
    """Return whether values are of the same text, and losses of the same tokens."""
    same_tokens = measure != "loss" or one.corpus == other.corpus
    return same_tokens and one.validation_text == other.validation_text


def _bootstrap(folder: Path, one: Trial, other: Trial, measure: str) -> float | None:
    """Return the p-value of two trials; None without their outputs for one text."""
    ours, theirs = (_outputs(folder / each.folder) for each in (one, other))
    if not ours or not theirs:
        return None
    if [x["reference"] for x in ours] != [x["reference"] for x in theirs]:
        return None
    references, baseline = ([x[key] for x in theirs] for key in ("reference", "output"))
    systems = {"ours": [x["output"] for x in ours]}
    return paired_bootstrap(measure, baseline, systems, references)["ours"]


def _outputs(folder: Path) -> list[Mapping[str, str]]:
    try:
        text = (folder / OUTPUTS).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.split("\n")[:-1]]
    except (OSError, ValueError):
        return []


def _paths(ledger: Ledger) -> list[str]:
    return [each["path"] for each in ledger.plan.varied]


def _names(measure: str) -> list[str]:
    return [
        *(f"mean_{measure}", "sd", "seeds", "difference", "low", "high", "pairs"),
        *("max_p_bootstrap", "updates", "tokens", "minutes", "trials"),
    ]


def _facts(row: Row) -> list[Any]:
    difference = row.difference
    return [
        row.mean,
        row.deviation,
        len(row.finished),
        *(
            (None, None, None, None)
            if difference is None
            else (difference.mean, difference.low, difference.high, difference.pairs)
        ),
        max(row.p_bootstrap.values()) if row.p_bootstrap else None,
        *(row.mean_of(name) for name in ("updates", "tokens", "minutes")),
        row.states,
    ]


def _exact(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
