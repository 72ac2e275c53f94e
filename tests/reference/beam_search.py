"""Beam search for reading: one sentence, plain lists, no tensors.

``beam`` does the same for many sentences at once and is tested equal to this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.length_penalty import LengthPenalty, best_possible_score
from headwise.decoding.stopping import StoppingRule

Tokens = tuple[int, ...]

ReadableRule = Callable[[Tokens, Sequence[float]], Sequence[float]]
"""Takes what is written and the score of each next token to other scores."""


def readable_beam_search(
    log_probabilities: Callable[[Tokens], Sequence[float]],
    *,
    end: int,
    beam: int,
    penalty: LengthPenalty,
    stopping: StoppingRule,
    max_length: int,
    reward: float = 0.0,
    patience: float = 1.0,
    num_best: int = 1,
    forbidden: tuple[int, ...] = (),
    rules: Sequence[ReadableRule] = (),
    coverage: Callable[[Tokens], float] = lambda before: 0.0,
) -> list[Hypothesis]:
    """Return the ``num_best`` best hypotheses found for one sentence.

    ``log_probabilities`` takes what is written (without START) to ln p of each token;
    ``coverage`` takes what stands before the last token to what the output gains.
    """

    def scores_after(before: Tokens) -> Sequence[float]:
        scores = log_probabilities(before)
        for rule in rules:
            scores = rule(before, scores)
        return scores

    def completed(before: Tokens, token: int, total: float) -> Hypothesis:
        path = (*before, token)
        trace = tuple(
            log_probabilities(path[:place])[each] for place, each in enumerate(path)
        )
        return Hypothesis(
            before if token == end else path,
            math.fsum(trace),
            total / penalty(len(path)) + reward * len(path) + coverage(before),
            finished=token == end,
            token_log_probabilities=trace,
        )

    alive: dict[Tokens, float] = {(): 0.0}  # what is written -> its total, in order
    found: list[Hypothesis] = []

    for length in range(1, max_length + 1):
        candidates = [
            (total + score, before, token)
            for before, total in alive.items()
            for token, score in enumerate(scores_after(before))
            if token not in forbidden and score > -math.inf
        ]
        # A stable sort: equals stay in the order of `alive`, then of token ids.
        candidates.sort(key=lambda candidate: candidate[0], reverse=True)

        for total, before, token in candidates[:beam]:
            if token == end or length == max_length:
                found.append(completed(before, token, total))

        # Twice the beam is enough: at most half of it, one for each row, can be END.
        going_on = [each for each in candidates[: 2 * beam] if each[2] != end][:beam]
        alive = {(*before, token): total for total, before, token in going_on}
        if not alive:
            break
        best = max(alive.values())
        hope = best_possible_score(best, length, max_length, penalty, reward)
        scores = [each.score for each in found]
        if stopping(scores, hope, beam=beam, num_best=num_best, patience=patience):
            break
    return sorted(found, key=lambda each: each.score, reverse=True)[:num_best]
