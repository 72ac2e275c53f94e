"""Plot of validation values by one varied setting: a mark for each trial."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from statistics import mean
from typing import Any, Literal

from headwise.reports.scales import Scale, format_value, scale_for
from headwise.sweep.space import rounded

MARGIN = 0.08
"""Share of the width that is free at each side of the outer values."""

Marks = Sequence[tuple[Any, float, int]]
"""For each trial the value of the setting, its validation value, and a colour."""

Axis = Literal["list", "linear", "log"]


def value_plot(path: str, measure: str, marks: Marks, *, scale: Axis = "list") -> str:
    """Return the plot as HTML; empty without marks.

    The values of a list stand side by side, with a line through their means; those of a
    range, linear or logarithmic, where their size puts them.
    """
    if not marks:
        return ""
    y = scale_for([value for _, value, _ in marks])
    values = list(dict.fromkeys(rounded(setting) for setting, _, _ in marks))
    if scale != "list":
        axis = scale_for([float(each) for each, _, _ in marks], log=scale == "log")
        places = {rounded(x): _inset(axis.position(float(x))) for x, _, _ in marks}
        ticks = [
            (_inset(axis.position(each)), format_value(each)) for each in axis.ticks()
        ]
        line = ""
    else:
        if all(map(_is_number, marks)):
            values.sort(key=float)
        last = max(1, len(values) - 1)
        places = {
            value: _inset(place / last if len(values) > 1 else 0.5)
            for place, value in enumerate(values)
        }
        ticks = [(places[each], each) for each in values]
        line = _means(marks, values, places, y)
    dots = "".join(
        f'<circle class="mark c{colour}" cx="{100 * places[rounded(x)]:.2f}%" '
        f'cy="{y.down(value)}" r="4"><title>{escape(rounded(x))}: '
        f"{format_value(value)}</title></circle>"
        for x, value, colour in marks
    )
    grid = "".join(
        f'<line class="grid" x1="0" x2="100%" y1="{y.down(tick)}" y2="{y.down(tick)}"/>'
        for tick in y.ticks()
    )
    names = "".join(
        f'<text class="x" x="{100 * place:.2f}%" y="100%" dy="18">{escape(text)}</text>'
        for place, text in ticks
    )
    side = "".join(
        f'<text x="100%" y="{y.down(tick)}" dx="-8" dy="4">{format_value(tick)}</text>'
        for tick in y.ticks()
    )
    about = f"{measure} of each finished trial, by {path}."
    if line:
        about += " Line: means."
    return (
        f'<figure class="dots"><figcaption><h3>{escape(path)}</h3>'
        f'<p class="about">{escape(about)}</p></figcaption><div class="frame">'
        f'<svg class="side" aria-hidden="true">{side}</svg>'
        f'<svg class="area" role="img" aria-label="{escape(about)}">'
        f"{grid}{names}{line}{dots}</svg></div></figure>"
    )


def _means(
    marks: Marks, values: Sequence[str], places: dict[str, float], y: Scale
) -> str:
    """Return a line through the mean of each value."""
    points = [
        (places[each], y.position(mean(v for x, v, _ in marks if rounded(x) == each)))
        for each in values
    ]
    path = "L".join(f"{1000 * x:.1f} {1000 * (1 - up):.1f}" for x, up in points)
    return (
        '<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" width="100%" '
        f'height="100%"><path class="line c5" d="M{path}"/></svg>'
    )


def _is_number(mark: tuple[Any, float, int]) -> bool:
    value = mark[0]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _inset(position: float) -> float:
    return MARGIN + (1 - 2 * MARGIN) * position
