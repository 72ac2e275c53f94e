"""Compare two runs: settings that differ, and learning curves."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from headwise.metrics.score import formatted
from headwise.reports.curves import plots
from headwise.reports.formatting import columns
from headwise.reports.history import History, ValidationRecord, read_history
from headwise.reports.listing import (
    WEIGHTS_OF_BEST,
    check_run,
    describe_best,
    num_parameters,
    recipe_table,
)
from headwise.reports.page import page
from headwise.reports.plot import Plot, Series, figure
from headwise.run_folder.paths import LOG
from headwise.settings import differences
from headwise.training.state import LIVE
from headwise.wording import duration

NOT_SET = "not set"

BARS = "▁▂▃▄▅▆▇█"

SPARK_WIDTH = 48
"""Width of a curve in a terminal, in characters."""

FIRST, SECOND = 1, 2
"""Colours of the two runs."""


@dataclass(frozen=True)
class ComparedRun:
    """One of the two runs."""

    folder: Path
    recipe: dict[str, Any]
    history: History

    @classmethod
    def open(cls, folder: Path) -> ComparedRun:
        """Read a run; raise ``UsageError`` if ``folder`` is not one."""
        check_run(folder)
        return cls(folder, recipe_table(folder), read_history(folder / LOG))

    @property
    def plots(self) -> list[Plot]:
        """The plots of the run alone."""
        return plots(self.history, self.recipe.get("task", "translation"))

    @property
    def validations(self) -> dict[int, ValidationRecord]:
        """Validations of the live weights (not of averages), by step."""
        return {
            validation.step: validation
            for validation in self.history.validations
            if validation.name == LIVE
        }


def changed_settings(
    first: ComparedRun, second: ComparedRun
) -> list[tuple[str, str, str]]:
    """Return each setting that differs, with both values."""
    return [
        (path, _value(one), _value(other))
        for path, one, other in differences(first.recipe, second.recipe)
    ]


def as_lines(first: ComparedRun, second: ComparedRun) -> list[str]:
    """Return the comparison as lines for a terminal."""
    return [
        *(f"{mark}  {_summary(run)}" for mark, run in (("A", first), ("B", second))),
        "",
        *_settings(first, second),
        "",
        *_table(first, second),
        "",
        *_sparks(first, second),
    ]


def as_page(first: ComparedRun, second: ComparedRun) -> str:
    """Return the comparison as an HTML page, with both curves in each plot."""
    rows = "".join(
        f"<tr><th scope=row>{escape(path)}</th><td>{escape(one)}</td>"
        f"<td>{escape(other)}</td></tr>"
        for path, one, other in changed_settings(first, second)
    )
    names = [_name(first, second), _name(second, first)]
    heads = "".join(f"<th scope=col>{escape(name)}</th>" for name in names)
    settings = (
        '<div class="wide fit"><table class="settings"><thead><tr><td>setting</td>'
        f"{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
        if rows
        else "<p>All settings are the same.</p>"
    )
    about = "".join(
        f'<p class="lead">{escape(_summary(run))}</p>' for run in (first, second)
    )
    body = "\n".join(
        [
            f"<header><h1>{escape(names[0])} and {escape(names[1])}</h1></header>",
            about,
            '<section class="plots" aria-label="Curves">',
            *(figure(plot) for plot in overlay(first, second)),
            "</section>",
            "<h2>Settings that differ</h2>",
            settings,
        ]
    )
    return page(" and ".join(names), body, written=time.time())


def overlay(first: ComparedRun, second: ComparedRun) -> list[Plot]:
    """Return plots with the curves of both runs."""
    theirs = {plot.title: plot for plot in second.plots}
    ours = {plot.title: plot for plot in first.plots}
    figures = []
    for title, plot in {**theirs, **ours}.items():
        series: list[Series] = []
        for run, other, found, colour in (
            (first, second, ours.get(title), FIRST),
            (second, first, theirs.get(title), SECOND),
        ):
            series += _coloured(found, _name(run, other), colour)
        figures.append(replace(plot, series=series, resumes=()))
    order = list(dict.fromkeys([*ours, *theirs]))
    return sorted(figures, key=lambda plot: order.index(plot.title))


def sparkline(values: Sequence[float], low: float, high: float) -> str:
    """Return ``values`` as one bar character each."""
    reach = (high - low) or 1.0
    top = len(BARS) - 1
    return "".join(
        BARS[min(top, max(0, round((value - low) / reach * top)))] for value in values
    )


def _coloured(plot: Plot | None, name: str, colour: int) -> list[Series]:
    """Return the curves of one run in its colour; training curves are dashed."""
    if plot is None:
        return []
    several = sum(bool(each.points) for each in plot.series) > 1
    return [
        replace(
            each,
            name=f"{name}, {each.name}" if several else name,
            colour=colour,
            dashed=each.name == "training",
            spans=each.spans if each.spans_are == "bars" else [],
        )
        for each in plot.series
    ]


def _settings(first: ComparedRun, second: ComparedRun) -> list[str]:
    rows = changed_settings(first, second)
    if not rows:
        return ["all settings are the same"]
    return columns([("setting", "A", "B"), *rows])


def _table(first: ComparedRun, second: ComparedRun) -> list[str]:
    """Return losses and scores of both runs at each step that was validated."""
    names = _metrics(first, second)
    head = ["step", *(f"{name} {side}" for name in ("loss", *names) for side in "AB")]
    rows = [tuple(head)]
    for step in sorted({**first.validations, **second.validations}):
        cells = [f"{step:,}"]
        for key in (None, *names.values()):
            for run in (first, second):
                validation = run.validations.get(step)
                cells.append("–" if validation is None else _value_of(validation, key))
        rows.append(tuple(cells))
    return columns(rows) if len(rows) > 1 else ["neither run was validated yet"]


def _metrics(first: ComparedRun, second: ComparedRun) -> dict[str, str]:
    """Return the metrics of either run: names and keys."""
    return {
        found.name: key
        for run in (first, second)
        for validation in run.history.validations
        for key, found in validation.scores.items()
    }


def _value_of(validation: ValidationRecord, key: str | None) -> str:
    if key is None:
        return f"{validation.loss:.3f}"
    found = validation.scores.get(key)
    return "–" if found is None else formatted(found.value, found.higher_is_better)


def _sparks(first: ComparedRun, second: ComparedRun) -> list[str]:
    """Return sparklines of both runs on common axes."""
    lines = []
    for plot in overlay(first, second):
        curves = [each for each in plot.series if len(each.points) > 1]
        if not plot.main or not curves:
            continue
        values = [value for each in curves for _, value in each.points]
        last = max(step for each in curves for step, _ in each.points)
        low, high = min(values), max(values)
        lines.append(f"{plot.title}, {low:.4g} to {high:.4g}, up to step {last:,.0f}")
        width = max(len(each.name) for each in curves)
        lines += [
            f"    {each.name.ljust(width)}  "
            f"{sparkline(_sampled(each, last), low, high)}"
            for each in curves
        ]
    return lines


def _sampled(series: Series, last: float) -> list[float]:
    """Return the latest value at each of ``SPARK_WIDTH`` evenly spaced steps."""
    sampled = []
    points = iter(series.points)
    upcoming = next(points, None)
    value: float | None = None
    for column in range(1, SPARK_WIDTH + 1):
        step = last * column / SPARK_WIDTH
        while upcoming is not None and upcoming[0] <= step:
            value, upcoming = upcoming[1], next(points, None)
        if value is not None:
            sampled.append(value)
        if upcoming is None:
            break
    return sampled


def _summary(run: ComparedRun) -> str:
    history = run.history
    parameters = num_parameters(run.folder.joinpath(*WEIGHTS_OF_BEST))
    parts = [f"step {history.step:,}", duration(history.seconds)]
    if parameters is not None:
        parts.append(f"{parameters:,} parameters")
    if history.best is not None:
        parts.append(f"best: {describe_best(history.best)}")
    return f"{run.folder}: {', '.join(parts)}"


def _name(run: ComparedRun, other: ComparedRun) -> str:
    """Name a run by the end of its path, as long as needed to tell both apart."""
    parts, others = run.folder.resolve().parts, other.folder.resolve().parts
    for length in range(1, len(parts)):
        if parts[-length:] != others[-length:]:
            return "/".join(parts[-length:])
    return run.folder.name


def _value(value: Any) -> str:
    if value is None:
        return NOT_SET
    return str(value).lower() if isinstance(value, bool) else str(value)
