"""Two runs side by side: the settings that differ, and both curves."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from headwise.reports.curves import plots
from headwise.reports.formatting import columns
from headwise.reports.history import NOW, History, Look, read_history
from headwise.reports.listing import (
    LOG,
    WEIGHTS,
    best_in_words,
    check_run,
    num_parameters,
    recipe_table,
)
from headwise.reports.page import page
from headwise.reports.plot import Plot, Series, figure
from headwise.wording import duration

NOT_SET = "not set"

BARS = "▁▂▃▄▅▆▇█"

SPARK_WIDTH = 48
"""Letters of a curve in a terminal."""

FIRST, SECOND = 1, 2
"""Colours of the two runs."""


@dataclass(frozen=True)
class Compared:
    """One of the two."""

    folder: Path
    recipe: dict[str, Any]
    history: History

    @classmethod
    def open(cls, folder: Path) -> Compared:
        """Read a run; anything else is a ``UsageError``."""
        check_run(folder)
        return cls(folder, recipe_table(folder), read_history(folder / LOG))

    @property
    def looks(self) -> dict[int, Look]:
        """Looks at the weights themselves, by their steps."""
        return {look.step: look for look in self.history.looks if look.name == NOW}


def differences(first: Compared, second: Compared) -> list[tuple[str, str, str]]:
    """Return each setting that differs, with both values."""
    one, other = dict(_flat(first.recipe)), dict(_flat(second.recipe))
    return [
        (path, _value(one.get(path)), _value(other.get(path)))
        for path in {**one, **other}
        if one.get(path) != other.get(path)
    ]


def as_lines(first: Compared, second: Compared) -> list[str]:
    """Write the comparison for a terminal."""
    return [
        *(f"{mark}  {_summary(run)}" for mark, run in (("A", first), ("B", second))),
        "",
        *_settings(first, second),
        "",
        *_table(first, second),
        "",
        *_sparks(first, second),
    ]


def as_page(first: Compared, second: Compared) -> str:
    """Draw the comparison, each curve over the other."""
    rows = "".join(
        f"<tr><th scope=row>{escape(path)}</th><td>{escape(one)}</td>"
        f"<td>{escape(other)}</td></tr>"
        for path, one, other in differences(first, second)
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
            *(figure(plot) for plot in overlaid(first, second)),
            "</section>",
            "<h2>Settings that differ</h2>",
            settings,
        ]
    )
    return page(" and ".join(names), body, written=time.time())


def overlaid(first: Compared, second: Compared) -> list[Plot]:
    """Put the curves of both runs into one set of figures."""
    theirs = {plot.title: plot for plot in plots(second.history)}
    ours = {plot.title: plot for plot in plots(first.history)}
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
    """Draw values as bars of one letter each."""
    reach = (high - low) or 1.0
    top = len(BARS) - 1
    return "".join(
        BARS[min(top, max(0, round((value - low) / reach * top)))] for value in values
    )


def _coloured(plot: Plot | None, name: str, colour: int) -> list[Series]:
    """Return the curves of one run in its colour; training's is drawn dashed."""
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


def _settings(first: Compared, second: Compared) -> list[str]:
    rows = differences(first, second)
    if not rows:
        return ["all settings are the same"]
    return columns([("setting", "A", "B"), *rows])


def _table(first: Compared, second: Compared) -> list[str]:
    """Write what both found at each step that one of them was looked at."""
    names = _measures(first, second)
    head = ["step", *(f"{name} {side}" for name in ("loss", *names) for side in "AB")]
    rows = [tuple(head)]
    for step in sorted({**first.looks, **second.looks}):
        cells = [f"{step:,}"]
        for key in (None, *names.values()):
            for run in (first, second):
                look = run.looks.get(step)
                cells.append("–" if look is None else _measured(look, key))
        rows.append(tuple(cells))
    return columns(rows) if len(rows) > 1 else ["neither run was validated yet"]


def _measures(first: Compared, second: Compared) -> dict[str, str]:
    """Return the measures of either run: names and keys."""
    return {
        found.name: key
        for run in (first, second)
        for look in run.history.looks
        for key, found in look.scores.items()
    }


def _measured(look: Look, key: str | None) -> str:
    if key is None:
        return f"{look.loss:.3f}"
    found = look.scores.get(key)
    return "–" if found is None else f"{found.value:.1f}"


def _sparks(first: Compared, second: Compared) -> list[str]:
    """Draw the curves of both runs on common axes."""
    lines = []
    for plot in overlaid(first, second):
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
    """Take the value known at each of so many even steps, as far as the curve goes."""
    sampled = []
    points = iter(series.points)
    upcoming = next(points, None)
    value: float | None = None
    for place in range(1, SPARK_WIDTH + 1):
        step = last * place / SPARK_WIDTH
        while upcoming is not None and upcoming[0] <= step:
            value, upcoming = upcoming[1], next(points, None)
        if value is not None:
            sampled.append(value)
        if upcoming is None:
            break
    return sampled


def _summary(run: Compared) -> str:
    history = run.history
    parameters = num_parameters(run.folder.joinpath(*WEIGHTS))
    parts = [f"step {history.step:,}", duration(history.seconds)]
    if parameters is not None:
        parts.append(f"{parameters:,} parameters")
    if history.best is not None:
        parts.append(f"best: {best_in_words(history.best)}")
    return f"{run.folder}: {', '.join(parts)}"


def _name(run: Compared, other: Compared) -> str:
    """Call a run by its folder, with as much of the path as tells the two apart."""
    parts, others = run.folder.resolve().parts, other.folder.resolve().parts
    for length in range(1, len(parts)):
        if parts[-length:] != others[-length:]:
            return "/".join(parts[-length:])
    return run.folder.name


def _flat(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{name}.")
        elif isinstance(value, list) and any(isinstance(v, Mapping) for v in value):
            numbered = {str(number): each for number, each in enumerate(value)}
            yield from _flat(numbered, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _value(value: Any) -> str:
    if value is None:
        return NOT_SET
    return str(value).lower() if isinstance(value, bool) else str(value)
