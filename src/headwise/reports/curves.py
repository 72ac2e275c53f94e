"""The plots of a run: loss, scores, learning rate, gradient norm, throughput."""

from __future__ import annotations

from collections.abc import Callable

from headwise.metrics.score import interval_ends, value_range
from headwise.reports.history import History, UpdateBucket, ValidationRecord
from headwise.reports.plot import Plot, Point, Series, Span
from headwise.tasks import find_task
from headwise.tasks.spec import TaskSpec
from headwise.training.state import LIVE

STEEP = 5.0
"""Ratio of highest to lowest loss from which the scale is logarithmic."""

TRAINING = 1
VALIDATION = 2
AVERAGED = 3


def plots(history: History, task: str = "translation") -> list[Plot]:
    """Return the plots of a run of ``task``, the most important first."""
    spec = find_task(task)
    return [
        loss(history, spec),
        *scores(history, spec),
        learning_rate(history),
        gradient_norm(history),
        throughput(history),
    ]


def loss(history: History, task: TaskSpec) -> Plot:
    """Plot training and validation loss."""
    spans = [(each.middle, each.lowest, each.highest) for each in history.buckets]
    smoothing = history.label_smoothing
    smoothed = f", label smoothing {smoothing:g}" if smoothing else ""
    series = [
        Series(
            name=f"training{smoothed}",
            points=_means(history, lambda each: each.loss),
            spans=spans if history.updates_per_bucket > 1 else [],
            colour=TRAINING,
        ),
        *validation_series(history, "validation", lambda each: each.loss),
    ]
    values = [value for each in series for _, value in each.points]
    return Plot(
        title="Loss",
        about=_about_loss(task.loss_name, smoothing),
        shade="single updates",
        series=series,
        main=True,
        log=min(values, default=0) > 0 and max(values) > STEEP * min(values),
        last=history.step,
        resumes=history.resumes,
    )


def scores(history: History, task: TaskSpec) -> list[Plot]:
    """Plot each metric of the validation set, with confidence intervals."""
    keys = dict.fromkeys(
        key for validation in history.validations for key in validation.scores
    )
    outputs = "Outputs for the validation set"
    if task.searches:
        outputs += " (of greedy search)"
    return [_score(history, key, outputs) for key in keys]


def learning_rate(history: History) -> Plot:
    """Plot the learning rate."""
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
    """Plot the gradient norm."""
    spans = [
        (each.middle, each.norm / each.count, each.highest_norm)
        for each in history.buckets
    ]
    series = Series(
        name="mean",
        points=_means(history, lambda each: each.norm),
        spans=spans if history.updates_per_bucket > 1 else [],
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
    """Plot tokens per second."""
    points = [
        (each.middle, each.tokens / max(each.seconds, 1e-9)) for each in history.buckets
    ]
    return Plot(
        title="Throughput",
        about="Source and target tokens per second, without padding; each point is one "
        "update, or the mean of neighbouring updates.",
        series=[Series(name="tokens per second", points=points, colour=TRAINING)],
        from_zero=True,
        last=history.step,
        resumes=history.resumes,
    )


def validation_series(
    history: History, name: str, value: Callable[[ValidationRecord], float | None]
) -> list[Series]:
    """Return one curve of the live weights, and one of averaged checkpoints."""
    series = []
    for colour, label, chosen in (
        (VALIDATION, name, lambda each: each.name == LIVE),
        (AVERAGED, "averaged checkpoints", lambda each: each.name != LIVE),
    ):
        points: list[Point] = []
        for validation in filter(chosen, history.validations):
            found = value(validation)
            if found is not None:
                points.append((float(validation.step), found))
        series.append(Series(name=label, points=points, colour=colour, marked=True))
    return series


def _about_loss(name: str, smoothing: float | None) -> str:
    """Explain the curves, so that their distance is not taken for overfitting."""
    text = f"{name[0].upper()}{name[1:]}."
    if smoothing == 0:
        return f"{text} Training with dropout, validation without."
    floor = "" if smoothing is None else ", which cannot fall to 0"
    return (
        f"{text} Training with label smoothing{floor}, and with dropout; validation "
        "without both: compare each curve only with itself."
    )


def _score(history: History, key: str, outputs: str) -> Plot:
    of_it = [
        validation.scores[key]
        for validation in history.validations
        if key in validation.scores
    ]
    better = "Higher" if of_it[-1].higher_is_better else "Lower"
    sure = any(each.interval is not None for each in of_it)
    series = [
        Series(
            name=each.name,
            points=each.points,
            spans=_spans(history, key, each.name != "validation"),
            spans_are="bars",
            colour=each.colour,
            marked=True,
        )
        for each in validation_series(
            history, "validation", lambda each: _value(each, key)
        )
    ]
    return Plot(
        title=of_it[-1].name,
        about=f"{outputs}. {better} is better."
        f"{' Bars: 95% confidence.' if sure else ''} {of_it[-1].signature}",
        series=series,
        main=True,
        from_zero=len(of_it) == 1,
        within=value_range(of_it[-1].higher_is_better),
        last=history.step,
        resumes=history.resumes,
    )


def _value(validation: ValidationRecord, key: str) -> float | None:
    return validation.scores[key].value if key in validation.scores else None


def _spans(history: History, key: str, averaged: bool) -> list[Span]:
    spans = []
    for validation in history.validations:
        found = validation.scores.get(key)
        if (
            found
            and found.interval is not None
            and (validation.name != LIVE) == averaged
        ):
            low, high = interval_ends(
                found.value, found.interval, found.higher_is_better
            )
            spans.append((float(validation.step), low, high))
    return spans


def _means(history: History, total: Callable[[UpdateBucket], float]) -> list[Point]:
    return [(each.middle, total(each) / each.count) for each in history.buckets]
