"""What a beam search did, as a tree: which hypotheses it kept, which not, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from headwise.decoding.beam_step_report import BeamStep, OnBeamStep
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.text.tokenizer import Tokenizer
from headwise.text.vocabulary import END

NodeStatus = Literal[
    "kept", "ended", "cut off", "pruned", "ended below the beam", "stopped"
]

REASONS: dict[NodeStatus, str] = {
    "kept": "among the best of the beam: extended in the next step",
    "ended": "END, among the best of the beam: a completed hypothesis",
    "cut off": "the length limit completed it without END",
    "pruned": "scores below the beam",
    "ended below the beam": "END, but not among the best of the beam: dropped",
    "stopped": "in the beam when the search ended",
}


@dataclass(frozen=True, slots=True)
class BeamNode:
    """A hypothesis with one more token than its parent."""

    id: int
    """Its place in ``BeamTree.nodes``."""

    parent: int | None
    """The node that it extends; None for the first token."""

    step: int
    """Tokens so far, from 1."""

    rank: int
    """Among the continuations of its step, from 1."""

    token: int
    piece: str

    token_score: float
    """What the token adds to the total: ln p, unless rules change scores."""

    total: float

    status: NodeStatus
    score: float | None
    """Of a completed hypothesis, by which the search ranks: the total by the length
    penalty, with reward and coverage."""

    result: int | None
    """Its place in the result of the search, from 1; None if it is not in it."""


@dataclass(frozen=True, slots=True)
class BeamResult:
    """A hypothesis that the search returned."""

    node: int
    text: str
    score: float
    log_probability: float
    finished: bool


@dataclass(frozen=True, slots=True)
class BeamTree:
    """The search of one sentence."""

    source: tuple[str, ...]
    beam: int
    stopping: str
    nodes: tuple[BeamNode, ...]
    results: tuple[BeamResult, ...]
    """Best first; exactly what the search returns."""

    ended_by: str
    """Why the search ended after its last step."""

    reasons: dict[NodeStatus, str]
    """What each status means."""

    def tokens(self, node: int) -> tuple[int, ...]:
        """Return the tokens of a hypothesis, END included if it ended."""
        found: list[int] = []
        at: int | None = node
        while at is not None:
            found.append(self.nodes[at].token)
            at = self.nodes[at].parent
        return tuple(reversed(found))


Search = Callable[[OnBeamStep], Sequence[Hypothesis]]
"""Runs the search of one input, which reports its steps; returns its hypotheses."""


def beam_tree(
    search: Search,
    settings: DecodingSettings,
    *,
    source: Sequence[str],
    target: Tokenizer,
    text_of: Callable[[Hypothesis], str],
) -> BeamTree:
    """Run a search; return its tree. ``source`` are the pieces of the input.

    It is the search that the task has, with all ``settings``, and reports its steps.
    Raises ``UsageError`` for settings whose search has no beam.
    """
    _check(settings)
    steps: list[BeamStep] = []
    found = search(steps.append)
    nodes: list[BeamNode] = []
    completed: list[tuple[Hypothesis, int]] = []
    alive: list[int] = []
    for step in steps:
        alive = _add_step(step, alive, nodes, completed, settings.beam)
    _fill_pieces(nodes, target.pieces([each.token for each in nodes]))
    order = sorted(completed, key=lambda each: each[0].score, reverse=True)
    results = []
    for place, (hypothesis, (_, node)) in enumerate(zip(found, order, strict=False), 1):
        nodes[node] = replace(nodes[node], result=place)
        results.append(
            BeamResult(
                node,
                text_of(hypothesis),
                hypothesis.score,
                hypothesis.log_probability,
                hypothesis.finished,
            )
        )
    return BeamTree(
        tuple(source),
        settings.beam,
        settings.stopping,
        tuple(nodes),
        tuple(results),
        _why_ended(steps[-1], settings, len(completed)),
        REASONS,
    )


def _check(settings: DecodingSettings) -> None:
    problem = None
    if settings.search != "beam":
        problem = f"search = {settings.search!r} is not one beam"
    elif settings.beam == 1:
        problem = "a beam of 1 is greedy search, which keeps one hypothesis"
    elif settings.choose != "score":
        problem = f"choose = {settings.choose!r} ranks by something else than scores"
    if problem:
        raise UsageError(
            f"there is no tree of a beam: {problem}; give search=beam, beam=4 and "
            "choose=score"
        )


def _add_step(
    step: BeamStep,
    alive: list[int],
    nodes: list[BeamNode],
    completed: list[tuple[Hypothesis, int]],
    beam: int,
) -> list[int]:
    """Add the nodes of one step; return those that stay in the beam."""
    kept = set(step.alive)
    of_step = iter(step.completed)
    first = len(nodes)
    for rank, each in enumerate(step.continuations):
        parent = alive[each.parent] if alive else None
        before = nodes[parent].total if parent is not None else 0.0
        is_end = each.token == END
        status: NodeStatus = "pruned"
        score = None
        if rank < beam and (is_end or step.at_limit):
            hypothesis = next(of_step)
            completed.append((hypothesis, len(nodes)))
            status, score = "ended" if is_end else "cut off", hypothesis.score
        elif is_end:
            status = "ended below the beam"
        elif rank in kept:
            status = "stopped" if step.is_done else "kept"
        nodes.append(
            BeamNode(
                len(nodes),
                parent,
                step.length,
                rank + 1,
                each.token,
                "",
                each.total - before,
                each.total,
                status,
                score,
                None,
            )
        )
    return [first + rank for rank in step.alive]


def _fill_pieces(nodes: list[BeamNode], pieces: Sequence[str]) -> None:
    for index, (node, piece) in enumerate(zip(nodes, pieces, strict=True)):
        nodes[index] = replace(node, piece=piece)


def _why_ended(last: BeamStep, settings: DecodingSettings, completed: int) -> str:
    if not last.alive:
        return "no hypothesis could be extended"
    if last.at_limit:
        return f"the length limit of {last.length} tokens"
    if settings.stopping == "first-k":
        return (
            f"first-k: {completed} completed hypotheses, and "
            f"{settings.outputs_to_finish} are enough"
        )
    return "exact: no hypothesis in the beam could score better than those completed"
