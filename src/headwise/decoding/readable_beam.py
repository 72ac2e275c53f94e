"""Beam search for reading: one sentence, plain lists, no tensors.

``beam`` does the same for many sentences at once and is tested equal to this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.length import LengthPenalty
from headwise.decoding.stopping import StoppingRule

Tokens = tuple[int, ...]


def readable_beam_search(
    log_probabilities: Callable[[Tokens], Sequence[float]],
    *,
    end: int,
    beam: int,
    penalty: LengthPenalty,
    stopping: StoppingRule,
    max_length: int,
    num_best: int = 1,
    forbidden: tuple[int, ...] = (),
) -> list[Hypothesis]:
    """Return the ``num_best`` best hypotheses found for one sentence.

    ``log_probabilities`` takes what is written (without START) to ln p of each token.
    """
    alive: dict[Tokens, float] = {
        (): 0.0
    }  # what is written -> its total ln p, in order
    found: list[Hypothesis] = []

    for length in range(1, max_length + 1):
        candidates = [
            (total + log_p, before, token)
            for before, total in alive.items()
            for token, log_p in enumerate(log_probabilities(before))
            if token not in forbidden and log_p > -math.inf
        ]
        # A stable sort: equals stay in the order of `alive`, then of token ids.
        candidates.sort(key=lambda candidate: candidate[0], reverse=True)

        for total, before, token in candidates[:beam]:
            score = total / penalty(length)
            if token == end:
                found.append(Hypothesis(before, total, score, finished=True))
            elif length == max_length:
                cut_off = (*before, token)
                found.append(Hypothesis(cut_off, total, score, finished=False))

        # Twice the beam is enough: at most half of it, one for each row, can be END.
        going_on = [each for each in candidates[: 2 * beam] if each[2] != end][:beam]
        alive = {(*before, token): total for total, before, token in going_on}
        if not alive:
            break
        best = max(alive.values())
        hope = max(best / penalty(length + 1), best / penalty(max_length))
        scores = [each.score for each in found]
        if stopping(scores, hope, beam=beam, num_best=num_best):
            break
    return sorted(found, key=lambda each: each.score, reverse=True)[:num_best]
