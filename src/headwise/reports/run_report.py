"""The report of one run as HTML: ``report.html``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from headwise.metrics.score import with_interval
from headwise.reports.curves import plots
from headwise.reports.formatting import abbreviated, evenly_spaced
from headwise.reports.heat_map import heat_map, readable, table, thumbnail
from headwise.reports.history import (
    RUNNING,
    AttentionMap,
    History,
    Sample,
    ValidationRecord,
)
from headwise.reports.listing import run_state
from headwise.reports.page import RELOAD_SECONDS, facts, moment, page
from headwise.reports.plot import figure, json_for_script
from headwise.training.state import LIVE
from headwise.wording import duration

MAX_ROWS = 12
"""Most validations whose samples are shown."""

MAX_MAPS = 12
"""Most validations whose attention is shown."""

MAX_EVENTS = 100
"""Most events shown; the latest are."""


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """Facts of a run besides its history."""

    name: str
    task: str = "translation"
    steps: int
    """Number of updates planned."""
    epoch: float = 0.0
    """Epochs so far."""
    epochs: int | None = None
    """Epochs planned, if limited."""
    left: float | None = None
    """Estimated seconds left, if known."""
    recipe: str = ""
    """All settings, as TOML."""
    inspections: Mapping[str, str] = field(default_factory=dict)
    """Source of a sample -> relative address of the page of its inspection."""


def run_report(history: History, about: RunInfo) -> str:
    """Return the report of a run so far as an HTML page."""
    now = time.time()
    curves = [drawn for plot in plots(history, about.task) if (drawn := figure(plot))]
    body = "\n".join(
        [
            _header(history, about),
            _numbers(history, about),
            '<section class="plots" aria-label="Curves">',
            *(
                curves
                or ['<p class="about">Curves appear after the first updates.</p>']
            ),
            "</section>",
            _samples(history, about.inspections),
            _attention(history.validations),
            _events(history),
            _recipe(about.recipe),
            _footer(now),
        ]
    )
    seconds = RELOAD_SECONDS if history.ended == RUNNING else 0
    title = f"{about.name}: step {history.step:,}"
    return page(title, body, written=now, reload_seconds=seconds)


def _header(history: History, about: RunInfo) -> str:
    kind, text = "running", "training"
    if history.ended != RUNNING:
        kind = run_state(history)
        text = kind if kind == history.ended else f"{kind}: {history.ended}"
    return (
        f'<header><h1>{escape(about.name)}</h1><span class="state {kind}">'
        f"{escape(text)}</span></header>\n"
        f'<progress max="{max(1, about.steps)}" '
        f'value="{min(history.step, about.steps)}" '
        f'aria-label="progress in steps"></progress>'
    )


def _numbers(history: History, about: RunInfo) -> str:
    left = "" if about.left is None else f"about {duration(about.left)} left"
    if history.ended != RUNNING:
        left = ""
    numbers = {
        "step": (f"{history.step:,}", f"of {about.steps:,} at most"),
        "epoch": (
            f"{about.epoch:.1f}",
            "" if about.epochs is None else f"of {about.epochs:,} at most",
        ),
        "time": (duration(history.seconds), left),
        "training tokens": (abbreviated(history.tokens), _speed(history)),
    }
    best = history.best
    if best is not None:
        where = f"after step {best.step:,}"
        if best.name != LIVE:
            where = best.name
        for found in best.scores.values():
            value = with_interval(found.value, found.interval, found.higher_is_better)
            numbers[f"best model, {found.name}"] = (value, where)
        numbers["best model, loss"] = (f"{best.loss:.3f}", "validation")
    return facts(numbers)


def _speed(history: History) -> str:
    """Return the mean speed of the last buckets."""
    recent = history.buckets[-20:]
    seconds = sum(each.seconds for each in recent)
    if not seconds:
        return ""
    speed = sum(each.tokens for each in recent) / seconds
    updates = sum(each.count for each in recent)
    over = f"{updates:,} updates" if updates > 1 else "update"
    return f"{speed:,.0f} per second, mean of the last {over}"


def _samples(history: History, inspections: Mapping[str, str]) -> str:
    """Return a table of the same sentences over time, newest first."""
    validations = [
        validation for validation in history.validations if validation.samples
    ]
    if not validations:
        return ""
    # A resumed run may translate other pairs: take the columns of the latest.
    first = validations[-1].samples
    sources = [each.source for each in first]
    validations = [
        validation
        for validation in validations
        if [each.source for each in validation.samples] == sources
    ]
    chosen = evenly_spaced(validations, MAX_ROWS)
    heads = [
        ("source", "".join(f"<th scope=col>{escape(s.source)}</th>" for s in first)),
        ("reference", "".join(f"<th>{escape(s.reference)}</th>" for s in first)),
    ]
    if any(source in inspections for source in sources):
        links = "".join(f"<th>{_link(each, inspections)}</th>" for each in sources)
        heads.append(("best model", links))
    head = "".join(f"<tr><td>{name}</td>{cells}</tr>" for name, cells in heads)
    rows = [
        _row(validation, before, best=validation is history.best)
        for before, validation in zip([None, *chosen], chosen, strict=False)
    ]
    return (
        "<h2>Sample outputs</h2>"
        '<p class="lead">The same validation sentences over time. Underlined: words '
        "that are not in the reference. Grey: unchanged.</p>"
        '<div class="wide" tabindex="0" role="region" aria-label="Sample outputs">'
        f'<table class="samples"><thead>{head}</thead>'
        f"<tbody>{''.join(reversed(rows))}</tbody></table></div>"
    )


def _link(source: str, inspections: Mapping[str, str]) -> str:
    if source not in inspections:
        return ""
    label = escape(f"inspect the best model: {source}")
    return f'<a href="{escape(inspections[source])}" aria-label="{label}">inspect</a>'


def _row(
    validation: ValidationRecord, before: ValidationRecord | None, *, best: bool
) -> str:
    cells = []
    for number, sample in enumerate(validation.samples):
        same = before is not None and before.samples[number].output == sample.output
        cells.append(
            f'<td data-label="{escape(sample.source)}"{" class=same" if same else ""}>'
            f"{_compared(sample)}</td>"
        )
    name = f"step {validation.step:,}" if validation.name == LIVE else validation.name
    mark = '<br><span class="best">best model</span>' if best else ""
    return f"<tr><th scope=row>{escape(name)}{mark}</th>{''.join(cells)}</tr>"


def _compared(sample: Sample) -> str:
    """Return a translation with words underlined that are not in the reference."""
    known = set(sample.reference.split())
    words = (
        escape(word) if word in known else f"<u>{escape(word)}</u>"
        for word in sample.output.split()
    )
    return " ".join(words) or "<em>nothing</em>"


def _attention(validations: Sequence[ValidationRecord]) -> str:
    """Return the cross-attention of one sentence over time."""
    seen = [
        (validation, sample.attention)
        for validation in validations
        for sample in validation.samples
        if sample.attention is not None
    ]
    if not seen:
        return ""
    latest = seen[-1][1]
    same = [each for each in seen if _axes(each[1]) == _axes(latest)]
    chosen = evenly_spaced(same, MAX_MAPS)
    names = [
        f"step {validation.step:,}" if validation.name == LIVE else validation.name
        for validation, _ in chosen
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
        '<p class="lead">Cross-attention of each reference piece (rows) over the '
        "source pieces (columns) at the step that predicts it: the mean over the heads "
        "of the last decoder block. It starts out uniform and learns to align.</p>"
        '<div class="attention"><div class="large">'
        f'<p class="about which">{escape(names[-1])}</p>'
        f"{heat_map(latest, names[-1])}"
        '<p class="pointed" aria-live="polite"></p>'
        "<details><summary>Numbers</summary>"
        f'<div class="tables">{table(latest)}</div></details></div>'
        f'<div class="steps" role="group" aria-label="Earlier">{buttons}</div>'
        f'<script type="application/json">{json_for_script(data)}</script></div>'
    )


def _axes(picture: AttentionMap | None) -> tuple[list[str], list[str]] | None:
    return None if picture is None else (picture.source, picture.target)


def _events(history: History) -> str:
    rows = "".join(
        f"<li><span>step {event.step:,}</span>{escape(event.text)}</li>"
        for event in reversed(history.events[-MAX_EVENTS:])
    )
    left_out = len(history.events) - MAX_EVENTS
    note = f"<p>{left_out:,} earlier ones are in log.jsonl.</p>" if left_out > 0 else ""
    return f'<h2>Events</h2><ul class="events">{rows}</ul>{note}'


def _recipe(text: str) -> str:
    if not text:
        return ""
    return (
        "<h2>Settings</h2><details><summary>All settings (recipe.toml)</summary>"
        f"<pre>{escape(text)}</pre></details>"
    )


def _footer(now: float) -> str:
    return f"<footer>Written by headwise, {moment(now)}, from log.jsonl.</footer>"
