"""Plots with two logarithmic axes, on which a power law is a straight line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from headwise.reports.plot import INNER
from headwise.reports.scales import Scale, format_value, scale_for

Dash = Literal["", "dashed", "dotted"]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Points of one kind, joined by a line."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int
    """As that of a ``Series`` of ``reports/plot.py``."""

    dash: Dash = ""
    predicted: Sequence[tuple[float, float]] = ()
    """Other points, drawn as a thin line without marks."""


def log_plot(
    title: str,
    about: str,
    curves: Sequence[Curve],
    *,
    x_name: str,
    format_y: Callable[[float], str] = format_value,
) -> str:
    """Return a plot as HTML; empty without points."""
    curves = [each for each in curves if each.points]
    if not curves:
        return ""
    everything = [p for each in curves for p in (*each.points, *each.predicted)]
    x = scale_for([x for x, _ in everything], log=True)
    y = scale_for([y for _, y in everything], log=True)
    keys = "".join(
        f'<span class="key c{each.colour} {each.dash}"><i></i>'
        f"{escape(each.name)}</span>"
        for each in curves
    )
    drawn = "".join(_line(each, x, y) for each in curves)
    marks = "".join(_marks(each, x, y, x_name, format_y) for each in curves)
    ticks = sorted({x for each in curves for x, _ in each.points})
    names = "".join(
        f'<text class="x" x="{x.across(tick)}" y="100%" dy="18">{tick:.0f}</text>'
        for tick in _apart(ticks, x)
    )
    side = "".join(
        f'<text x="100%" y="{y.down(tick)}" dx="-8" dy="4">{format_y(tick)}</text>'
        for tick in y.ticks()
    )
    grid = "".join(
        f'<line class="grid" x1="0" x2="100%" y1="{y.down(tick)}" y2="{y.down(tick)}"/>'
        for tick in y.ticks()
    )
    axis = f'<text x="100%" y="100%" dx="-8" dy="18">{escape(x_name)}</text>'
    return (
        f'<figure class="dots"><figcaption><h3>{escape(title)}</h3>'
        f'<p class="about">{escape(about)}</p><p class="keys">{keys}</p></figcaption>'
        f'<div class="frame"><svg class="side" aria-hidden="true">{side}{axis}</svg>'
        f'<svg class="area" role="img" '
        f'aria-label="{escape(_description(title, curves))}">{grid}{names}'
        f'<svg viewBox="0 0 {INNER} {INNER}" preserveAspectRatio="none" '
        f'width="100%" height="100%">{drawn}</svg>{marks}</svg></div></figure>'
    )


def _line(curve: Curve, x: Scale, y: Scale) -> str:
    drawn = ""
    if len(curve.predicted) > 1:
        path = _path(curve.predicted, x, y)
        classes = f"line thin c{curve.colour} {curve.dash}"
        drawn += f'<path class="{classes}" d="M{path}"/>'
    if len(curve.points) > 1:
        drawn += (
            f'<path class="line c{curve.colour} {curve.dash}" '
            f'd="M{_path(curve.points, x, y)}"/>'
        )
    return drawn


def _path(points: Sequence[tuple[float, float]], x: Scale, y: Scale) -> str:
    return "L".join(
        f"{INNER * x.position(a):.1f} {INNER * (1 - y.position(b)):.1f}"
        for a, b in points
    )


def _marks(
    curve: Curve, x: Scale, y: Scale, x_name: str, format_y: Callable[[float], str]
) -> str:
    return "".join(
        f'<circle class="mark c{curve.colour}" cx="{x.across(a)}" cy="{y.down(b)}" '
        f'r="3.5"><title>{escape(curve.name)}, {escape(x_name)} = {a:.0f}: '
        f"{format_y(b)}</title></circle>"
        for a, b in curve.points
    )


def _apart(ticks: Sequence[float], x: Scale, least: float = 0.07) -> list[float]:
    """Return ticks without those whose labels would touch the last one before."""
    chosen: list[float] = []
    for tick in ticks:
        if not chosen or x.position(tick) - x.position(chosen[-1]) >= least:
            chosen.append(tick)
    return chosen


def _description(title: str, curves: Sequence[Curve]) -> str:
    """Return the ends of each curve, for screen readers."""
    ends = (
        f"{each.name}: "
        + ", ".join(f"{y:.3g} at {x:.0f}" for x, y in (each.points[0], each.points[-1]))
        for each in curves
    )
    return f"{title}. {'; '.join(ends)}."
