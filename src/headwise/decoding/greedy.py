"""Greedy search: the most probable token each time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.decoding.checks import check_ids, check_lengths, dead_end
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.length import LengthPenalty
from headwise.decoding.next_token import NextToken, S
from headwise.decoding.rule import Rule
from headwise.decoding.topk import best_tokens_by_rules, most_likely_next

LEAVING = 1 / 8
"""Share of rows that must have ended before they leave: each time, all that the others
remember is copied."""


@torch.inference_mode()
def greedy_search(
    model: NextToken[S],
    state: S,
    *,
    num_rows: int,
    start: int,
    end: int,
    max_lengths: Sequence[int],
    forbidden: tuple[int, ...] = (),
    penalty: LengthPenalty = float,
    reward: float = 0.0,
    rules: Sequence[Rule] = (),
    trace: bool = False,
    device: torch.device | str = "cpu",
) -> list[Hypothesis]:
    """Write one output for each row of ``state``; rows that ended leave together.

    ``max_lengths`` counts END. ``penalty`` and ``reward`` change no word, only the
    score; as they stand, that is the mean ln p. ``trace`` asks for the ln p of each
    token.
    """
    check_lengths(max_lengths, num_rows)
    check_ids(end, forbidden)
    writing = _Writing(num_rows, end, max_lengths, tracing=trace or bool(rules))
    tokens = torch.full((num_rows,), start, device=device)

    while writing.rows:
        enough = 1 if rules else math.ceil(len(writing.rows) * LEAVING)
        if rules:
            logits, state = model.step(tokens, state)
            found = best_tokens_by_rules(
                logits,
                1,
                rules=rules,
                written=torch.tensor(
                    [writing.written[row] for row in writing.rows],
                    dtype=torch.long,
                    device=device,
                ),
                sentences=torch.tensor(writing.rows, device=device),
                forbidden=forbidden,
            )
            scores, best, log_p = (each.T for each in found)
        else:
            likely, state = most_likely_next(
                model,
                tokens,
                state,
                most=writing.most,
                end=end,
                enough=max(1, enough - writing.num_waiting),
                forbidden=forbidden,
            )
            scores, best = likely.log_p, likely.tokens
            log_p = scores
        for each in zip(scores.cpu(), best.tolist(), log_p.tolist(), strict=True):
            going_on = writing.note(*each)

        tokens, kept = best[-1], torch.tensor(going_on, dtype=torch.long, device=device)
        num_ended = writing.num_waiting
        if num_ended and (num_ended >= enough or not going_on):
            writing.keep(going_on)
            if going_on:
                tokens, state = tokens[kept], state.rows(kept)
        elif num_ended:  # they wait for others to leave with
            tokens = torch.full_like(tokens, end).index_copy(0, kept, tokens[kept])
    return [
        Hypothesis(
            tuple(each.tokens),
            math.fsum(each.trace) if writing.tracing else each.total,
            each.total / penalty(each.length) + reward * each.length,
            each.finished,
            tuple(each.trace) if trace else (),
        )
        for each in (writing.ended[row] for row in range(num_rows))
    ]


@dataclass(frozen=True)
class _Ended:
    """What was written in a row; its length counts END."""

    tokens: list[int]
    trace: list[float]
    total: float
    length: int
    finished: bool


class _Writing:
    """What stands in each row so far, and the rows that ended."""

    def __init__(
        self, num_rows: int, end: int, max_lengths: Sequence[int], *, tracing: bool
    ) -> None:
        self.end = end
        self.max_lengths = max_lengths
        self.tracing = tracing
        self.rows = list(range(num_rows))  # those still in the batch
        self.length = 0
        self.totals = torch.zeros(num_rows)
        self.written: list[list[int]] = [[] for _ in self.rows]
        self.traces: list[list[float]] = [[] for _ in self.rows]
        self.ended: dict[int, _Ended] = {}

    @property
    def most(self) -> int:
        """Return how many more tokens any row may have."""
        return max(self.max_lengths[row] for row in self.rows) - self.length

    @property
    def num_waiting(self) -> int:
        """Return how many rows have ended and wait for others to leave with them."""
        return sum(row in self.ended for row in self.rows)

    def note(
        self, scores: Tensor, tokens: Sequence[int], log_p: Sequence[float]
    ) -> list[int]:
        """Write one token in every row; return the places of those that go on."""
        self.length += 1
        self.totals = self.totals + scores
        going_on = []
        for place, (row, token, total) in enumerate(
            zip(self.rows, tokens, self.totals.tolist(), strict=True)
        ):
            if row in self.ended:
                continue
            if total == -torch.inf:
                raise dead_end()
            finished = token == self.end
            if not finished:
                self.written[row].append(token)
            if self.tracing:
                self.traces[row].append(log_p[place])
            if finished or self.length == self.max_lengths[row]:
                self.ended[row] = _Ended(
                    self.written[row], self.traces[row], total, self.length, finished
                )
            else:
                going_on.append(place)
        return going_on

    def keep(self, places: Sequence[int]) -> None:
        """Let the rows at other places leave."""
        self.rows = [self.rows[place] for place in places]
        self.totals = self.totals[list(places)]
