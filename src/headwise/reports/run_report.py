"""The page of one run: ``report.html``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from headwise.metrics.score import with_interval
from headwise.reports.curves import plots
from headwise.reports.formatting import short, spread
from headwise.reports.heat_map import heat_map, readable, table, thumbnail
from headwise.reports.history import NOW, RUNNING, History, Look, Picture, Shown
from headwise.reports.listing import state_of
from headwise.reports.page import facts, page
from headwise.reports.plot import embedded, figure
from headwise.wording import duration

RELOAD_SECONDS = 30
"""How often an open page looks for a newer one while training goes on."""

MOST_ROWS = 12
"""Looks whose samples are shown."""

MOST_PICTURES = 12
"""Looks whose attention is shown."""

MOST_EVENTS = 100
"""Events that are shown, the latest."""


@dataclass(frozen=True, kw_only=True)
class AboutRun:
    """What a page says of a run besides its history."""

    name: str
    steps: int
    """Updates that are planned."""
    epoch: float = 0.0
    """Passes over the training text so far."""
    epochs: int | None = None
    """Passes that are planned, if somebody said so."""
    left: float | None = None
    """Seconds that are left, if somebody knows."""
    recipe: str = ""
    """All settings, as TOML."""


def run_report(history: History, about: AboutRun) -> str:
    """Draw the page of a run as it stands."""
    now = time.time()
    curves = [drawn for plot in plots(history) if (drawn := figure(plot))]
    body = "\n".join(
        [
            _header(history, about),
            _numbers(history, about),
            '<section class="plots" aria-label="Curves">',
            *(curves or ['<p class="about">Curves come with the first updates.</p>']),
            "</section>",
            _samples(history),
            _attention(history.looks),
            _events(history),
            _recipe(about.recipe),
            _footer(now),
        ]
    )
    seconds = RELOAD_SECONDS if history.ended == RUNNING else 0
    title = f"{about.name}: step {history.step:,}"
    return page(title, body, written=now, reload_seconds=seconds)


def _header(history: History, about: AboutRun) -> str:
    kind, said = "running", "training"
    if history.ended != RUNNING:
        kind = state_of(history)
        said = kind if kind == history.ended else f"{kind}: {history.ended}"
    return (
        f'<header><h1>{escape(about.name)}</h1><span class="state {kind}">'
        f"{escape(said)}</span></header>\n"
        f'<progress max="{max(1, about.steps)}" '
        f'value="{min(history.step, about.steps)}" '
        f'aria-label="steps made of those planned"></progress>'
    )


def _numbers(history: History, about: AboutRun) -> str:
    left = "" if about.left is None else f"about {duration(about.left)} left"
    if history.ended != RUNNING:
        left = ""
    shown = {
        "step": (f"{history.step:,}", f"of {about.steps:,} at most"),
        "epoch": (
            f"{about.epoch:.1f}",
            "" if about.epochs is None else f"of {about.epochs:,} at most",
        ),
        "time": (duration(history.seconds), left),
        "tokens learned from": (short(history.tokens), _speed(history)),
    }
    best = history.best
    if best is not None:
        where = f"after step {best.step:,}"
        if best.name != NOW:
            where = best.name
        for found in best.scores.values():
            said = with_interval(found.value, found.interval, found.higher_is_better)
            shown[f"best model, {found.name}"] = (said, where)
        shown["best model, loss"] = (f"{best.loss:.3f}", "on held-out text")
    return facts(shown)


def _speed(history: History) -> str:
    """Say how fast the last points of the curve are, taken together."""
    recent = history.stretches[-20:]
    seconds = sum(each.seconds for each in recent)
    if not seconds:
        return ""
    speed = sum(each.tokens for each in recent) / seconds
    updates = sum(each.count for each in recent)
    over = f"{updates:,} updates" if updates > 1 else "update"
    return f"{speed:,.0f} a second, mean of the last {over}"


def _samples(history: History) -> str:
    """Show what became of the same sentences, newest first."""
    looks = [look for look in history.looks if look.samples]
    if not looks:
        return ""
    # A resumed run may translate other pairs; columns are those of the latest look.
    first = looks[-1].samples
    sources = [each.source for each in first]
    looks = [
        look for look in looks if [each.source for each in look.samples] == sources
    ]
    chosen = spread(looks, MOST_ROWS)
    heads = [
        ("source", "".join(f"<th scope=col>{escape(s.source)}</th>" for s in first)),
        ("reference", "".join(f"<th>{escape(s.reference)}</th>" for s in first)),
    ]
    head = "".join(f"<tr><td>{name}</td>{cells}</tr>" for name, cells in heads)
    rows = [
        _row(look, before, best=look is history.best)
        for before, look in zip([None, *chosen], chosen, strict=False)
    ]
    return (
        "<h2>Sample translations</h2>"
        '<p class="lead">The same held-out sentences as training goes on. Underlined: '
        "words that the reference has not. Grey: as before.</p>"
        '<div class="wide" tabindex="0" role="region" aria-label="Sample translations">'
        f'<table class="samples"><thead>{head}</thead>'
        f"<tbody>{''.join(reversed(rows))}</tbody></table></div>"
    )


def _row(look: Look, before: Look | None, *, best: bool) -> str:
    cells = []
    for number, sample in enumerate(look.samples):
        same = before is not None and before.samples[number].output == sample.output
        cells.append(
            f'<td data-label="{escape(sample.source)}"{" class=same" if same else ""}>'
            f"{_compared(sample)}</td>"
        )
    name = f"step {look.step:,}" if look.name == NOW else look.name
    mark = '<br><span class="best">best model</span>' if best else ""
    return f"<tr><th scope=row>{escape(name)}{mark}</th>{''.join(cells)}</tr>"


def _compared(sample: Shown) -> str:
    """Write an output with the words underlined that its reference has not."""
    known = set(sample.reference.split())
    words = (
        escape(word) if word in known else f"<u>{escape(word)}</u>"
        for word in sample.output.split()
    )
    return " ".join(words) or "<em>nothing</em>"


def _attention(looks: Sequence[Look]) -> str:
    """Show what one sentence's pieces look at, as training goes on."""
    seen = [
        (look, sample.attention)
        for look in looks
        for sample in look.samples
        if sample.attention is not None
    ]
    if not seen:
        return ""
    latest = seen[-1][1]
    same = [each for each in seen if _axes(each[1]) == _axes(latest)]
    chosen = spread(same, MOST_PICTURES)
    names = [
        f"step {look.step:,}" if look.name == NOW else look.name for look, _ in chosen
    ]
    buttons = "".join(
        f'<button type="button" data-step="{escape(name)}" '
        f'aria-pressed="{str(number == len(chosen) - 1).lower()}">'
        f"{thumbnail(picture)}{escape(name)}</button>"
        for number, (name, (_, picture)) in enumerate(zip(names, chosen, strict=True))
    )
    data = {
        "source": [readable(piece) for piece in latest.source],
        "target": [readable(piece) for piece in latest.target],
        "weights": [picture.weights for _, picture in chosen],
    }
    return (
        "<h2>Attention</h2>"
        '<p class="lead">What each piece of a reference (rows) takes from each piece '
        "of its source (columns) where it is to be written: the mean over the heads of "
        "the last decoder block. It begins even, and finds the words.</p>"
        '<div class="attention"><div class="large">'
        f'<p class="about which">{escape(names[-1])}</p>'
        f"{heat_map(latest, names[-1])}"
        '<p class="pointed" aria-live="polite"></p>'
        "<details><summary>Numbers</summary>"
        f'<div class="tables">{table(latest)}</div></details></div>'
        f'<div class="steps" role="group" aria-label="Earlier">{buttons}</div>'
        f'<script type="application/json">{embedded(data)}</script></div>'
    )


def _axes(picture: Picture | None) -> tuple[list[str], list[str]] | None:
    return None if picture is None else (picture.source, picture.target)


def _events(history: History) -> str:
    rows = "".join(
        f"<li><span>step {event.step:,}</span>{escape(event.text)}</li>"
        for event in reversed(history.events[-MOST_EVENTS:])
    )
    left_out = len(history.events) - MOST_EVENTS
    note = f"<p>{left_out:,} earlier ones are in log.jsonl.</p>" if left_out > 0 else ""
    return f'<h2>What happened</h2><ul class="events">{rows}</ul>{note}'


def _recipe(text: str) -> str:
    if not text:
        return ""
    return (
        "<h2>Settings</h2><details><summary>All settings (recipe.toml)</summary>"
        f"<pre>{escape(text)}</pre></details>"
    )


def _footer(now: float) -> str:
    moment = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(now))
    return f"<footer>Written by headwise, {moment}, from log.jsonl.</footer>"
