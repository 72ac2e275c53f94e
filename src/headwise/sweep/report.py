"""The report of a sweep as one HTML page: table, curves, value by setting."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from headwise.metrics.score import value_range
from headwise.reports.page import RELOAD_SECONDS, facts, moment, page
from headwise.reports.plot import Plot, Series, figure
from headwise.sweep.ledger import Ledger
from headwise.sweep.pruning import Curve
from headwise.sweep.space import described
from headwise.sweep.table import Row, measure_of, notes, text_cells
from headwise.sweep.value_plot import Axis, value_plot
from headwise.training.settings import LOWER_IS_BETTER
from headwise.wording import count_of, duration

COLOURS = 4
"""Combinations that have a colour of their own, the best; others share the last."""

OTHERS = 5
"""The colour of all other combinations: grey."""

FEW_VALUES = 12
"""Whole numbers of a range that still have a place each."""


def sweep_report(
    ledger: Ledger,
    rows: Sequence[Row],
    curves: Mapping[int, Curve],
    *,
    is_running: bool,
) -> str:
    """Return the report so far; ``rows`` are the best first."""
    now = time.time()
    name = ledger.folder.resolve().name
    plots = [_curves(ledger, rows, curves)]
    colours = _colours(rows)
    plots += [
        value_plot(
            each["path"],
            measure_of(ledger),
            [
                (trial.settings[each["path"]], trial.value, colours[trial.combination])
                for trial in ledger.trials
                if trial.state == "finished" and trial.value is not None
            ],
            scale=_scale(each),
        )
        for each in ledger.plan.varied
    ]
    body = "\n".join(
        [
            f"<header><h1>{escape(name)}</h1>{_state(ledger, is_running)}</header>",
            _numbers(ledger, rows),
            _table(ledger, rows),
            '<section class="plots" aria-label="Curves">',
            *filter(None, plots),
            "</section>",
            _trials(ledger),
            f"<footer>Written by headwise, {moment(now)}, from {ledger.folder.name}/"
            "trials.jsonl and the logs of the trials.</footer>",
        ]
    )
    return page(
        f"{name}: sweep",
        body,
        written=now,
        reload_seconds=RELOAD_SECONDS if is_running else 0,
    )


def _state(ledger: Ledger, is_running: bool) -> str:
    left = sum(each.state in ("waiting", "running") for each in ledger.trials)
    if is_running:
        return '<span class="state running">running</span>'
    if left:
        text = f"stopped, {count_of(left, 'trial')} left"
        return f'<span class="state stopped">{text}</span>'
    return '<span class="state ended">ended</span>'


def _numbers(ledger: Ledger, rows: Sequence[Row]) -> str:
    trials = ledger.trials
    states = [each.state for each in trials]
    done = sum(each in ("finished", "stopped early", "failed") for each in states)
    remarks = [
        f"{states.count(state)} {state}"
        for state in ("finished", "stopped early", "failed")
        if state in states
    ]
    minutes = sum(each.minutes for each in trials)
    numbers = {
        "trials": (f"{done} of {len(trials)}", ", ".join(remarks)),
        "seeds": (str(len(ledger.plan.seeds)), "of each combination"),
        "training time": (duration(60 * minutes), "of all trials together"),
    }
    best = rows[0] if rows else None
    if best is not None and best.mean is not None:
        spread = "" if best.deviation is None else f" (sd {best.deviation:.2g})"
        numbers[f"best mean {measure_of(ledger)}"] = (
            f"{best.mean:.4g}{spread}",
            described(best.settings),
        )
    return facts(numbers)


def _table(ledger: Ledger, rows: Sequence[Row]) -> str:
    head, *body = text_cells(ledger, rows)
    heads = "".join(f"<th scope=col>{escape(each)}</th>" for each in head)
    lines = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
        for row in body
    )
    said = "".join(
        f'<p class="lead">{escape(each[0].upper() + each[1:])}.</p>'
        for each in notes(ledger, rows)
    )
    return (
        "<h2>Combinations, best first</h2>"
        '<p class="lead">Mean and standard deviation (sd) over n seeds. Difference to '
        "the baseline over the seeds that both have, with its 95% interval (Student's "
        "t, n - 1 degrees of freedom), and p-values of sacreBLEU's paired bootstrap "
        "test. Updates, tokens and minutes: mean of the trials.</p>"
        '<div class="wide fit" tabindex="0" role="region" aria-label="Combinations">'
        f'<table class="settings"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>{said}"
    )


def _curves(ledger: Ledger, rows: Sequence[Row], curves: Mapping[int, Curve]) -> str:
    measure = measure_of(ledger)
    lower = measure in LOWER_IS_BETTER
    colours = _colours(rows)
    named: set[str] = set()
    series: list[Series] = []
    for row in rows:
        for trial in row.trials:
            points = curves[trial.trial].points if trial.trial in curves else []
            if not points:
                continue
            colour = colours[trial.combination]
            is_first = trial.combination not in named and colour != OTHERS
            named.add(trial.combination)
            seed = f", seed {trial.seed}" if len(ledger.plan.seeds) > 1 else ""
            series.append(
                Series(
                    name=f"{described(trial.settings)}{seed}",
                    points=[(float(step), value) for step, value in points],
                    colour=colour,
                    dashed=trial.state == "stopped early",
                    is_listed=is_first,
                )
            )
    # Listed ones first, as the page's script counts them; the best is drawn last.
    series.sort(key=lambda each: not each.is_listed)
    direction = "Lower" if lower else "Higher"
    return figure(
        Plot(
            title=f"Validation: {measure}",
            about=f"A curve for each trial. {direction} is better. Coloured: the best "
            f"{COLOURS} combinations; grey: the others; dashed: stopped early.",
            series=series,
            main=True,
            within=value_range(higher_is_better=not lower),
        )
    )


def _colours(rows: Sequence[Row]) -> dict[str, int]:
    return {
        row.trials[0].combination: place if place <= COLOURS else OTHERS
        for place, row in enumerate(rows, start=1)
    }


def _scale(varied: Mapping[str, Any]) -> Axis:
    """Return how the values of a setting are placed: few whole ones as a list."""
    if "values" in varied:
        return "list"
    low, high = varied["low"], varied["high"]
    is_whole = isinstance(low, int) and isinstance(high, int)
    if is_whole and high - low < FEW_VALUES:
        return "list"
    return "log" if varied["log"] else "linear"


def _trials(ledger: Ledger) -> str:
    rows = "".join(
        f"<tr><th scope=row>{each.folder}</th><td>{escape(described(each.settings))}"
        f"</td><td>{each.seed}</td><td>{each.state}</td>"
        f"<td>{'' if each.value is None else f'{each.value:.4g}'}</td>"
        f"<td>{each.updates:,}</td><td>{each.tokens:,}</td><td>{each.minutes:.2f}</td>"
        f"<td>{escape(each.error or each.reason)}</td></tr>"
        for each in ledger.trials
    )
    names = ("", "settings", "seed", "state", "best value", "updates", "tokens")
    heads = "".join(
        f"<th scope=col>{each}</th>" for each in (*names, "minutes", "why it ended")
    )
    return (
        "<h2>Trials</h2><details><summary>Every trial</summary>"
        '<div class="wide fit"><table class="settings"><thead>'
        f"<tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )
