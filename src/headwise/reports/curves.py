"""Which curves a run has, and what is said of each."""

from __future__ import annotations

from collections.abc import Callable

from headwise.metrics.score import interval_ends, limits
from headwise.reports.history import NOW, History, Look, Stretch
from headwise.reports.plot import Plot, Point, Series, Span

STEEP = 5.0
"""A highest loss so many times the lowest calls for a logarithmic scale."""

TRAINING = 1
VALIDATION = 2
AVERAGED = 3


def plots(history: History) -> list[Plot]:
    """Return the figures of a run, most looked at first."""
    return [
        loss(history),
        *scores(history),
        learning_rate(history),
        gradient_norm(history),
        throughput(history),
    ]


def loss(history: History) -> Plot:
    """Show how wrong the model is, of what it learns from and of what it does not."""
    spans = [(each.middle, each.lowest, each.highest) for each in history.stretches]
    smoothing = history.label_smoothing
    smoothed = f", labels smoothed by {smoothing:g}" if smoothing else ""
    series = [
        Series(
            name=f"training{smoothed}",
            points=_means(history, lambda each: each.loss),
            spans=spans if history.updates_a_stretch > 1 else [],
            colour=TRAINING,
        ),
        *looked(history, "validation", lambda look: look.loss),
    ]
    values = [value for each in series for _, value in each.points]
    return Plot(
        title="Loss",
        about=_about_loss(smoothing),
        shade="single updates",
        series=series,
        main=True,
        log=min(values, default=0) > 0 and max(values) > STEEP * min(values),
        last=history.step,
        resumes=history.resumes,
    )


def scores(history: History) -> list[Plot]:
    """Show each measure of held-out translations with what is sure of it."""
    keys = dict.fromkeys(key for look in history.looks for key in look.scores)
    return [_score(history, key) for key in keys]


def learning_rate(history: History) -> Plot:
    """Show the schedule."""
    points = _means(history, lambda each: each.learning_rate)
    return Plot(
        title="Learning rate",
        about="Learning rate of each update, by its schedule.",
        series=[Series(name="learning rate", points=points, colour=TRAINING)],
        from_zero=True,
        last=history.step,
        resumes=history.resumes,
    )


def gradient_norm(history: History) -> Plot:
    """Show how steep the loss was, and where it jumped."""
    spans = [
        (each.middle, each.norm / each.count, each.highest_norm)
        for each in history.stretches
    ]
    series = Series(
        name="mean",
        points=_means(history, lambda each: each.norm),
        spans=spans if history.updates_a_stretch > 1 else [],
        colour=TRAINING,
    )
    return Plot(
        title="Gradient norm",
        about="Norm of the gradient of all weights, before clipping.",
        shade="up to the highest of single updates",
        series=[series],
        log=True,
        last=history.step,
        resumes=history.resumes,
    )


def throughput(history: History) -> Plot:
    """Show how fast training is."""
    points = [
        (each.middle, each.tokens / max(each.seconds, 1e-9))
        for each in history.stretches
    ]
    return Plot(
        title="Throughput",
        about="Source and target tokens learned from in a second, without padding; "
        "a point is one update or, of many, the mean of neighbours.",
        series=[Series(name="tokens a second", points=points, colour=TRAINING)],
        from_zero=True,
        last=history.step,
        resumes=history.resumes,
    )


def looked(
    history: History, name: str, value: Callable[[Look], float | None]
) -> list[Series]:
    """Return what validations found: of the weights, and of means of checkpoints."""
    series = []
    for colour, label, chosen in (
        (VALIDATION, name, lambda look: look.name == NOW),
        (AVERAGED, "mean of checkpoints", lambda look: look.name != NOW),
    ):
        points: list[Point] = []
        for look in filter(chosen, history.looks):
            found = value(look)
            if found is not None:
                points.append((float(look.step), found))
        series.append(Series(name=label, points=points, colour=colour, marked=True))
    return series


def _about_loss(smoothing: float | None) -> str:
    """Say what each curve is, so that nobody takes the distance for overfitting."""
    said = "Cross-entropy in nats for each target token."
    if smoothing == 0:
        return f"{said} Training with dropout, held-out text without."
    least = "" if smoothing is None else ", which cannot fall to 0"
    return (
        f"{said} Training with smoothed labels{least}, and with dropout; held-out text "
        "with neither: compare each curve with itself."
    )


def _score(history: History, key: str) -> Plot:
    of_it = [look.scores[key] for look in history.looks if key in look.scores]
    better = "Higher" if of_it[-1].higher_is_better else "Lower"
    sure = any(each.interval is not None for each in of_it)
    series = [
        Series(
            name=each.name,
            points=each.points,
            spans=_spans(history, key, each.name != "held-out text"),
            spans_are="bars",
            colour=each.colour,
            marked=True,
        )
        for each in looked(history, "held-out text", lambda look: _value(look, key))
    ]
    return Plot(
        title=of_it[-1].name,
        about=f"Of greedy translations of held-out text. {better} is better."
        f"{' Bars: 95% confidence.' if sure else ''} {of_it[-1].signature}",
        series=series,
        main=True,
        from_zero=len(of_it) == 1,
        within=limits(of_it[-1].higher_is_better),
        last=history.step,
        resumes=history.resumes,
    )


def _value(look: Look, key: str) -> float | None:
    return look.scores[key].value if key in look.scores else None


def _spans(history: History, key: str, averaged: bool) -> list[Span]:
    spans = []
    for look in history.looks:
        found = look.scores.get(key)
        if found and found.interval is not None and (look.name != NOW) == averaged:
            low, high = interval_ends(
                found.value, found.interval, found.higher_is_better
            )
            spans.append((float(look.step), low, high))
    return spans


def _means(history: History, total: Callable[[Stretch], float]) -> list[Point]:
    return [(each.middle, total(each) / each.count) for each in history.stretches]
