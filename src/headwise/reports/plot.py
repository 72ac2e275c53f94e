"""Plots as HTML and SVG: curves scale with the page, text does not.

Plots are complete without JavaScript; page.js only adds values under the pointer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from headwise.reports.scales import Scale, format_value, scale_for

INNER = 1000
"""Width and height of the drawing area, in units of its SVG."""

MAX_ROWS = 25
"""Most rows of the table of numbers below each plot."""

Point = tuple[float, float]
Span = tuple[float, float, float]
"""A step, with the lowest and the highest value there."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """One curve."""

    name: str
    points: list[Point]
    colour: int
    """1 to 4, distinguishable by colour-blind readers, in light and dark mode; 5 is
    grey."""

    spans: list[Span] = field(default_factory=list)
    """Range of the values around each point."""

    spans_are: Literal["band", "bars"] = "band"
    marked: bool = False
    """Draw a mark at each point."""

    dashed: bool = False
    is_listed: bool = True
    """Name it above the plot, with its latest value; those that are not come last."""


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A plot: curves over the steps of a run."""

    title: str
    about: str
    """Caption."""

    series: list[Series]
    shade: str = ""
    """Meaning of the bands, if there are any."""

    main: bool = False
    """Draw it larger than the others."""
    log: bool = False
    from_zero: bool = False
    within: tuple[float, float] = (-math.inf, math.inf)
    """Smallest and largest possible value."""
    last: float = 0.0
    """Last step of the axis, the same in all plots of a run."""
    resumes: Sequence[int] = ()
    """Steps at which the run was resumed, drawn as vertical lines."""


def figure(plot: Plot) -> str:
    """Return ``plot`` as HTML; empty if there is no point."""
    series = [each for each in plot.series if each.points]
    if not series:
        return ""
    reach = [v for s in series for _, *values in (*s.points, *s.spans) for v in values]
    y = scale_for(reach, log=plot.log, from_zero=plot.from_zero, within=plot.within)
    x = Scale(0.0, max(plot.last, *(each.points[-1][0] for each in series), 1.0))
    return "\n".join(
        [
            f'<figure class="plot{" main" if plot.main else ""}">',
            f"<figcaption><h3>{escape(plot.title)}</h3>",
            f'<p class="about">{escape(_about(plot, y))}</p>',
            f'<p class="keys"><span class="at">latest</span>{_keys(series)}</p>',
            "</figcaption>",
            '<div class="frame">',
            _side(y),
            _area(plot, series, x, y),
            "</div>",
            _data(series, x, y),
            _table(series),
            "</figure>",
        ]
    )


def _about(plot: Plot, y: Scale) -> str:
    parts = [plot.about]
    if plot.shade and any(each.spans for each in plot.series):
        parts.append(f"Shade: {plot.shade}.")
    if y.log:
        parts.append("Logarithmic scale.")
    return " ".join(parts)


def _keys(series: Sequence[Series]) -> str:
    return "".join(
        f'<span class="key c{each.colour}{" dashed" if each.dashed else ""}">'
        f"<i></i>{escape(each.name)} <b>{format_value(each.points[-1][1])}</b></span>"
        for each in series
        if each.is_listed
    )


def _side(y: Scale) -> str:
    """Return the tick labels of the y axis."""
    texts = "".join(
        f'<text x="100%" y="{y.down(tick)}" dx="-8" dy="4">{format_value(tick)}</text>'
        for tick in y.ticks()
    )
    step = '<text x="100%" y="100%" dx="-8" dy="18">step</text>'
    return f'<svg class="side" aria-hidden="true">{texts}{step}</svg>'


def _area(plot: Plot, series: Sequence[Series], x: Scale, y: Scale) -> str:
    lines = [
        f'<line class="grid" x1="0" x2="100%" y1="{y.down(tick)}" y2="{y.down(tick)}"/>'
        for tick in y.ticks()
    ]
    lines += [
        f'<text class="x {_anchor(x.position(tick))}" x="{x.across(tick)}" y="100%" '
        f'dy="18">{format_value(tick)}</text>'
        for tick in x.ticks()
    ]
    lines += [
        f'<line class="resume" x1="{x.across(step)}" x2="{x.across(step)}" y1="0" '
        f'y2="100%"><title>resumed from step {step:,}</title></line>'
        for step in plot.resumes
        if x.low <= step <= x.high
    ]
    lines.append(
        f'<svg viewBox="0 0 {INNER} {INNER}" preserveAspectRatio="none" '
        'width="100%" height="100%">'
    )
    lines += [_path(each, x, y) for each in series]
    lines.append("</svg>")
    lines += [mark for each in series for mark in _marks(each, x, y)]
    lines.append('<line class="cross" y1="0" y2="100%"/>')
    return (
        f'<svg class="area" role="img" tabindex="0" '
        f'aria-label="{escape(_description(plot, series))}">{"".join(lines)}</svg>'
    )


def _path(series: Series, x: Scale, y: Scale) -> str:
    drawn = []
    if series.spans and len(series.spans) > 1:
        upper = [_inner(x, y, step, high) for step, _, high in series.spans]
        lower = [_inner(x, y, step, low) for step, low, _ in reversed(series.spans)]
        band = "L".join([*upper, *lower])
        drawn.append(f'<path class="band c{series.colour}" d="M{band}Z"/>')
    line = "L".join(_inner(x, y, step, value) for step, value in series.points)
    dashed = " dashed" if series.dashed else ""
    if len(series.points) > 1:
        drawn.append(f'<path class="line c{series.colour}{dashed}" d="M{line}"/>')
    return "".join(drawn)


def _marks(series: Series, x: Scale, y: Scale) -> list[str]:
    marks = []
    if series.spans_are == "bars":
        marks += [
            f'<line class="bar c{series.colour}" x1="{x.across(step)}" '
            f'x2="{x.across(step)}" y1="{y.down(low)}" y2="{y.down(high)}"/>'
            for step, low, high in series.spans
        ]
    if series.marked or len(series.points) == 1:
        marks += [
            f'<circle class="mark c{series.colour}" cx="{x.across(step)}" '
            f'cy="{y.down(value)}" r="3.5"/>'
            for step, value in series.points
        ]
    return marks


def _inner(x: Scale, y: Scale, step: float, value: float) -> str:
    return f"{INNER * x.position(step):.1f} {INNER * (1 - y.position(value)):.1f}"


def _anchor(position: float) -> str:
    return "first" if position < 0.04 else "last" if position > 0.96 else ""


def _description(plot: Plot, series: Sequence[Series]) -> str:
    """Return the first and last value of each curve, for screen readers."""
    ends = [
        ", ".join(
            f"{format_value(value)} at step {step:,.0f}"
            for step, value in (each.points[0], each.points[-1])
        )
        for each in series
    ]
    curves = (f"{each.name}: {end}" for each, end in zip(series, ends, strict=True))
    return f"{plot.title}. {'; '.join(curves)}."


def _data(series: Sequence[Series], x: Scale, y: Scale) -> str:
    """Return the numbers as JSON, for page.js."""
    table = {
        "x": [x.low, x.high],
        "series": [
            {
                "x": [round(step, 1) for step, _ in each.points],
                "y": [float(f"{value:.5g}") for _, value in each.points],
            }
            for each in series
        ],
    }
    return f'<script type="application/json">{json_for_script(table)}</script>'


def json_for_script(value: object) -> str:
    """Return JSON that is safe inside a script element."""
    return safe_in_script(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def safe_in_script(json_text: str) -> str:
    """Escape what could end a script element; only texts in JSON have these."""
    for character in "<>&":
        json_text = json_text.replace(character, f"\\u{ord(character):04x}")
    return json_text


def _table(series: Sequence[Series]) -> str:
    """Return the values as a table, for screen readers."""
    parts = []
    for each in series:
        every = -(-len(each.points) // MAX_ROWS)
        chosen = each.points[::-1][::every][::-1]
        rows = "".join(
            f"<tr><th scope=row>{step:,.0f}</th><td>{format_value(value)}</td></tr>"
            for step, value in chosen
        )
        parts.append(
            f"<table><caption>{escape(each.name)}</caption>"
            f"<thead><tr><th scope=col>step</th><th scope=col>value</th></tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )
    return (
        f"<details><summary>Numbers</summary><div class=tables>{''.join(parts)}</div>"
        "</details>"
    )
