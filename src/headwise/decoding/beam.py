"""Beam search (Section 6.1), batched over sentences; several groups make it diverse.

The words and scores are those of ``readable_beam``, which says the same thing more
slowly. Letters used for sizes in this file:

    S  sentences still searched        C  candidates for each sentence, 2 * beam
    W  hypotheses alive in each:       L  tokens written so far
       1 in the first step, then beam  V  vocabulary
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from headwise.decoding.beam_step import Candidates, alive_of, extended
from headwise.decoding.checks import check_beam, check_ids, check_lengths, dead_end
from headwise.decoding.coverage import Coverage
from headwise.decoding.diversity import HammingDiversity
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.length import LengthPenalty, best_to_come
from headwise.decoding.next_token import Attending, Likely, NextToken, S
from headwise.decoding.rule import Rule
from headwise.decoding.stopping import StoppingRule
from headwise.decoding.topk import likely_next


@torch.inference_mode()
def beam_search(
    model: NextToken[S],
    state: S,
    *,
    num_sentences: int,
    start: int,
    end: int,
    beam: int,
    penalty: LengthPenalty,
    stopping: StoppingRule,
    max_lengths: Sequence[int],
    reward: float = 0.0,
    patience: float = 1.0,
    num_best: int = 1,
    forbidden: tuple[int, ...] = (),
    rules: Sequence[Rule] = (),
    coverage: Coverage | None = None,
    groups: int = 1,
    diversity: float = 0.0,
    trace: bool = False,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Return the ``num_best`` best hypotheses found for each row of ``state``.

    Fewer come back only where the model allows fewer. ``max_lengths`` counts END. The
    ``groups`` share the beam. ``trace`` asks for the ln p of each token; ``coverage``
    needs one group, and a model that is ``Attending``.
    """
    check_beam(beam, num_best, groups)
    check_lengths(max_lengths, num_sentences)
    check_ids(end, forbidden)
    hamming = HammingDiversity(diversity, num_sentences) if groups > 1 else None
    plan = _Plan(
        end=end,
        beam=beam // groups,
        num_best=min(num_best, beam // groups),
        penalty=penalty,
        reward=reward,
        stopping=stopping,
        patience=patience,
        max_lengths=max_lengths,
        forbidden=forbidden,
        rules=(*rules, *([hamming] if hamming else [])),
        coverage=coverage,
        trace=trace,
    )
    searched = [_Group(plan, num_sentences, device) for _ in range(groups)]
    if groups > 1:
        state = state.rows(torch.arange(num_sentences, device=device).repeat(groups))
    tokens = torch.full((groups * num_sentences,), start, device=device)

    while len(tokens):
        rows: list[Tensor] = []
        if coverage is None and not plan.rules:  # so there is one group
            likely, state = likely_next(
                model, tokens, state, plan.looked_at, forbidden=forbidden
            )
            rows.append(searched[0].advance(likely))
        else:
            if coverage is None:
                logits, state = model.step(tokens, state)
            else:
                logits, looks, state = cast(Attending[S], model).step_attending(
                    tokens, state
                )
                coverage.add(looks)
            if hamming:
                hamming.new_step()
            first = 0
            for group in searched:
                last = first + group.num_rows
                rows.append(first + group.advance(logits[first:last]))
                if hamming and len(rows[-1]):
                    hamming.note(group.row_sentences, group.tokens, logits.shape[1])
                first = last
        kept = rows[0] if groups == 1 else torch.cat(rows)
        if len(kept) and not _is_identity(kept, len(tokens)):
            state = state.rows(kept)
            if coverage is not None:
                coverage.rows(kept)
        tokens = torch.cat([group.tokens for group in searched])
    if groups == 1:
        return [_ranked(each)[:num_best] for each in searched[0].found]
    return [
        _of_all([_ranked(group.found[number]) for group in searched], beam, num_best)
        for number in range(num_sentences)
    ]


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What stays the same during a search; ``beam`` is that of one group."""

    end: int
    beam: int
    num_best: int
    penalty: LengthPenalty
    reward: float
    stopping: StoppingRule
    patience: float
    max_lengths: Sequence[int]
    forbidden: tuple[int, ...]
    rules: tuple[Rule, ...]
    coverage: Coverage | None
    trace: bool

    @property
    def looked_at(self) -> int:
        """Continuations of each sentence: enough, should half of them end."""
        return 2 * self.beam


class _Group:
    """One group: what it has found, and what is alive, of all sentences."""

    def __init__(
        self, plan: _Plan, num_sentences: int, device: torch.device | str
    ) -> None:
        self.plan = plan
        self.found: list[list[Hypothesis]] = [[] for _ in range(num_sentences)]
        self.sentences = list(range(num_sentences))  # those still searched
        self.length = 0
        self.num_rows = num_sentences
        self.tokens = torch.empty(0, dtype=torch.long, device=device)  # S·W
        self.totals = torch.zeros(num_sentences, 1, device=device)  # S W
        self.written = torch.empty(num_sentences, 1, 0, dtype=torch.long, device=device)
        self.traced: Tensor | None = None  # S W L, ln p of what is written
        if plan.trace or plan.rules:
            self.traced = torch.empty(num_sentences, 1, 0, device=device)

    @property
    def row_sentences(self) -> Tensor:
        """The sentence [S·W] of each row."""
        numbers = torch.tensor(self.sentences, device=self.totals.device)
        return numbers.repeat_interleave(self.totals.shape[1])

    def advance(self, scored: Tensor | Likely) -> Tensor:
        """Take one step; return the rows that go on, in the order of ``tokens``.

        ``scored`` holds all logits of each row, or what is most likely.
        """
        if not self.sentences:
            return torch.empty(0, dtype=torch.long, device=self.totals.device)
        plan, width = self.plan, self.totals.shape[1]
        self.length += 1
        candidates = extended(
            self.totals,
            scored,
            plan.looked_at,
            forbidden=plan.forbidden,
            rules=plan.rules,
            written=self.written,
            sentences=self.row_sentences if plan.rules else None,
            trace=self.traced is not None,
        )
        limits = [plan.max_lengths[sentence] for sentence in self.sentences]
        at_limit = [limit == self.length for limit in limits]
        ends = candidates.tokens == plan.end
        self._complete(candidates, ends, at_limit)

        alive = alive_of(candidates, ends, plan.beam)
        going_on = []
        for place, best_total in enumerate(alive.totals[:, 0].tolist()):
            if not self._done(place, best_total, limits[place]):
                going_on.append(place)

        self.sentences = [self.sentences[place] for place in going_on]
        places = torch.tensor(going_on, dtype=torch.long, device=self.totals.device)
        alive = alive.sentences(places)
        rows = (places[:, None] * width + alive.origins).flatten()  # S W -> S·W
        self.written = alive.appended(self.written[places], alive.tokens)
        if self.traced is not None and alive.log_p is not None:
            self.traced = alive.appended(self.traced[places], alive.log_p)
        self.totals = alive.totals
        self.tokens = alive.tokens.flatten()
        self.num_rows = len(self.tokens)
        return rows

    def _done(self, place: int, best_total: float, limit: int) -> bool:
        plan = self.plan
        scores = [each.score for each in self.found[self.sentences[place]]]
        if best_total == -math.inf:
            if not scores:
                raise dead_end()
            return True
        hope = best_to_come(best_total, self.length, limit, plan.penalty, plan.reward)
        return self.length == limit or plan.stopping(
            scores,
            hope,
            beam=plan.beam,
            num_best=plan.num_best,
            patience=plan.patience,
        )

    def _complete(
        self, candidates: Candidates, ends: Tensor, at_limit: list[bool]
    ) -> None:
        """Keep what ends here: only the first ``beam`` ranks count."""
        plan, width = self.plan, self.totals.shape[1]
        cut_off = torch.tensor(at_limit, device=ends.device)
        completed = (ends | cut_off[:, None]) & (candidates.totals > -math.inf)
        places, ranks = completed[:, : plan.beam].nonzero(as_tuple=True)
        if not len(places):
            return
        origins = candidates.origins[places, ranks]
        traces = None
        if self.traced is not None and candidates.log_p is not None:
            last = candidates.log_p[places, ranks][:, None]
            traces = torch.cat([self.traced[places, origins], last], dim=1).tolist()
        divisor, bonus = plan.penalty(self.length), plan.reward * self.length
        for number, (place, origin, before, token, total, finished) in enumerate(
            zip(
                places.tolist(),
                origins.tolist(),
                self.written[places, origins].tolist(),
                candidates.tokens[places, ranks].tolist(),
                candidates.totals[places, ranks].tolist(),
                ends[places, ranks].tolist(),
                strict=True,
            )
        ):
            sentence = self.sentences[place]
            score = total / divisor + bonus
            if plan.coverage is not None:
                score += plan.coverage.penalty(place * width + origin, sentence)
            trace = () if traces is None else tuple(traces[number])
            self.found[sentence].append(
                Hypothesis(
                    tuple(before if finished else [*before, token]),
                    math.fsum(trace) if trace else total,
                    score,
                    finished,
                    trace if plan.trace else (),
                )
            )


def _ranked(found: Sequence[Hypothesis]) -> list[Hypothesis]:
    return sorted(found, key=lambda each: each.score, reverse=True)


def _of_all(
    found: Sequence[Sequence[Hypothesis]], beam: int, num_best: int
) -> list[Hypothesis]:
    """Return the best of all groups, none twice.

    Each group gives its best first, and others only where too few are left of these.
    """
    share = beam // len(found)
    chosen: dict[tuple[tuple[int, ...], bool], Hypothesis] = {}
    for some in ([each[:share] for each in found], [each[share:] for each in found]):
        for each in _ranked([each for group in some for each in group]):
            if len(chosen) < beam:
                chosen.setdefault((each.tokens, each.finished), each)
    return _ranked(list(chosen.values()))[:num_best]


def _is_identity(rows: Tensor, num_rows: int) -> bool:
    return len(rows) == num_rows and torch.equal(
        rows, torch.arange(num_rows, device=rows.device)
    )
