"""Reports of the steps of a beam search, for whoever draws what it did.

A search reports only if it is asked to, through ``SearchRequest.on_beam_step``. Its
steps are those of :class:`BeamGroup`, which the native step is tested equal to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwise.decoding.beam_step import Continuations
from headwise.decoding.hypothesis import Hypothesis


@dataclass(frozen=True, slots=True)
class ReportedContinuation:
    """A hypothesis with one more token, among the best of its step."""

    parent: int
    """Index of the hypothesis that it extends, among those kept in the step before."""

    token: int
    total: float
    """Total of all scores; without rules, ln p of all its tokens."""


@dataclass(frozen=True, slots=True)
class BeamStep:
    """One step of the search of one sentence."""

    sentence: int
    length: int
    """Tokens of each hypothesis after this step, END counted."""

    continuations: tuple[ReportedContinuation, ...]
    """The best ones, twice the beam at most, best first."""

    alive: tuple[int, ...]
    """Which of ``continuations`` stay in the beam, best first."""

    completed: tuple[Hypothesis, ...]
    """Those that this step completed, in the order of ``continuations``."""

    is_done: bool
    """Whether the search of the sentence ends here."""

    at_limit: bool
    """Whether this is the largest length, which cuts off what has not ended."""


OnBeamStep = Callable[[BeamStep], None]


def report_step(
    continuations: Continuations,
    alive: Continuations,
    index: int,
    *,
    sentence: int,
    length: int,
    completed: Sequence[Hypothesis],
    is_done: bool,
    at_limit: bool,
) -> BeamStep:
    """Return the report of the sentence at ``index`` of one step."""
    found = [
        ReportedContinuation(*each)
        for each in zip(
            continuations.parents[index].tolist(),
            continuations.tokens[index].tolist(),
            continuations.totals[index].tolist(),
            strict=True,
        )
        if each[2] > -math.inf
    ]
    places = {(each.parent, each.token): rank for rank, each in enumerate(found)}
    kept = zip(
        alive.parents[index].tolist(),
        alive.tokens[index].tolist(),
        alive.totals[index].tolist(),
        strict=True,
    )
    return BeamStep(
        sentence=sentence,
        length=length,
        continuations=tuple(found),
        alive=tuple(
            places[parent, token] for parent, token, total in kept if total > -math.inf
        ),
        completed=tuple(completed),
        is_done=is_done,
        at_limit=at_limit,
    )
