"""Greedy search: the most probable token each time."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from headwise.decoding.candidates import best_tokens
from headwise.decoding.checks import check_ids, check_lengths, dead_end
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.length import LengthPenalty
from headwise.decoding.next_token import NextToken, S


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
    device: torch.device | str = "cpu",
) -> list[Hypothesis]:
    """Write one output for each row of ``state``; rows that ended leave the batch.

    ``max_lengths`` counts END. ``penalty`` changes no word, only the score; as it
    stands (n itself), that is the mean ln p.
    """
    check_lengths(max_lengths, num_rows)
    check_ids(end, forbidden)
    found: dict[int, Hypothesis] = {}
    rows = list(range(num_rows))  # those still being written
    written: list[list[int]] = [[] for _ in rows]
    totals = torch.zeros(num_rows, device=device)
    tokens = torch.full((num_rows,), start, device=device)

    while rows:
        logits, state = model.step(tokens, state)
        log_p, best = best_tokens(logits, 1, forbidden=forbidden)
        totals, tokens = totals + log_p[:, 0], best[:, 0]

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
                    tuple(written[row]), total, total / penalty(length), token == end
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
