"""Greedy search: the most probable token each time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from headwise.decoding.candidates import best_tokens_by_rules, likely_next
from headwise.decoding.checks import check_ids, check_lengths, dead_end
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.length import LengthPenalty
from headwise.decoding.next_token import NextToken, S
from headwise.decoding.written import Rule

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
    tracing = trace or bool(rules)
    found: dict[int, Hypothesis] = {}
    rows = list(range(num_rows))  # those still being written
    written: list[list[int]] = [[] for _ in rows]
    traces: list[list[float]] = [[] for _ in rows]
    totals = torch.zeros(num_rows, device=device)
    tokens = torch.full((num_rows,), start, device=device)

    while rows:
        if rules:
            logits, state = model.step(tokens, state)
            scores, best, log_p = best_tokens_by_rules(
                logits,
                1,
                rules=rules,
                written=torch.tensor(
                    [written[row] for row in rows], dtype=torch.long, device=device
                ),
                sentences=torch.tensor(rows, device=device),
                forbidden=forbidden,
            )
            scores, best, log_p = scores[:, 0], best[:, 0], log_p[:, 0]
        else:
            likely, state = likely_next(model, tokens, state, 1, forbidden=forbidden)
            scores, best = likely.log_p[:, 0], likely.tokens[:, 0]
            log_p = scores
        totals, tokens = totals + scores, best
        if tracing:
            for row, each in zip(rows, log_p.tolist(), strict=True):
                traces[row].append(each)

        going_on, num_ended = [], 0
        for place, (row, token, total) in enumerate(
            zip(rows, tokens.tolist(), totals.tolist(), strict=True)
        ):
            if row in found:  # ended before; its row is still in the batch
                num_ended += 1
                continue
            if total == -torch.inf:
                raise dead_end()
            length = len(written[row]) + 1
            if token != end:
                written[row].append(token)
            if token == end or length == max_lengths[row]:
                found[row] = Hypothesis(
                    tuple(written[row]),
                    math.fsum(traces[row]) if tracing else total,
                    total / penalty(length) + reward * length,
                    token == end,
                    tuple(traces[row]) if trace else (),
                )
                num_ended += 1
            else:
                going_on.append(place)

        enough = 1 if rules else math.ceil(len(rows) * LEAVING)
        if num_ended and (num_ended >= enough or not going_on):
            rows = [rows[place] for place in going_on]
            kept = torch.tensor(going_on, dtype=torch.long, device=tokens.device)
            totals, tokens = totals[kept], tokens[kept]
            if rows:
                state = state.rows(kept)
    return [found[row] for row in range(num_rows)]
