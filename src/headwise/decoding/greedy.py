"""Greedy search: the most probable token each time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from headwise.decoding.candidates import best_tokens, best_tokens_by_rules
from headwise.decoding.checks import check_ids, check_lengths, dead_end
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.length import LengthPenalty
from headwise.decoding.next_token import NextToken, S
from headwise.decoding.written import Rule


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
    """Write one output for each row of ``state``; rows that ended leave the batch.

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
        logits, state = model.step(tokens, state)
        if rules:
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
        else:
            scores, best = best_tokens(logits, 1, forbidden=forbidden)
            log_p = scores
        totals, tokens = totals + scores[:, 0], best[:, 0]
        if tracing:
            for row, each in zip(rows, log_p[:, 0].tolist(), strict=True):
                traces[row].append(each)

        going_on = []
        for place, (row, token, total) in enumerate(
            zip(rows, tokens.tolist(), totals.tolist(), strict=True)
        ):
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
            else:
                going_on.append(place)

        if len(going_on) < len(rows):
            rows = [rows[place] for place in going_on]
            kept = torch.tensor(going_on, dtype=torch.long, device=tokens.device)
            totals, tokens = totals[kept], tokens[kept]
            if rows:
                state = state.rows(kept)
    return [found[row] for row in range(num_rows)]
