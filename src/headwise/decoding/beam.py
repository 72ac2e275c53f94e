"""Beam search (Section 6.1), batched over sentences.

The words and scores are those of ``readable_beam``, which says the same thing more
slowly. Letters used for sizes in this file:

    S  sentences still searched        C  candidates for each sentence, 2 * beam
    W  hypotheses alive in each:       L  tokens written so far
       1 in the first step, then beam
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from headwise.decoding.candidates import best_tokens
from headwise.decoding.checks import check_beam, check_ids, check_lengths, dead_end
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.length import LengthPenalty
from headwise.decoding.next_token import NextToken, S
from headwise.decoding.stopping import StoppingRule


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
    num_best: int = 1,
    forbidden: tuple[int, ...] = (),
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Return the ``num_best`` best hypotheses found for each row of ``state``.

    Fewer come back only where the model allows fewer. ``max_lengths`` counts END.
    """
    check_beam(beam, num_best)
    check_lengths(max_lengths, num_sentences)
    check_ids(end, forbidden)
    found: list[list[Hypothesis]] = [[] for _ in range(num_sentences)]
    sentences = list(range(num_sentences))  # those still searched
    written = torch.empty(num_sentences, 1, 0, dtype=torch.long, device=device)
    totals = torch.zeros(num_sentences, 1, device=device)
    tokens = torch.full((num_sentences,), start, device=device)
    length = 0

    while sentences:
        length += 1
        logits, state = model.step(tokens, state)
        width = totals.shape[1]
        candidates = _extended(totals, logits, 2 * beam, forbidden=forbidden)
        limits = [max_lengths[sentence] for sentence in sentences]

        at_limit = [limit == length for limit in limits]
        ends = candidates.tokens == end
        for place, hypothesis in _completed(
            candidates, written, ends, at_limit, beam=beam, divisor=penalty(length)
        ):
            found[sentences[place]].append(hypothesis)

        alive = _alive(candidates, ends, beam)
        going_on = []
        for place, best_total in enumerate(alive.totals[:, 0].tolist()):
            scores = [each.score for each in found[sentences[place]]]
            hope = _hope(best_total, length, limits[place], penalty)
            dead = best_total == -math.inf
            if dead and not scores:
                raise dead_end()
            if not (
                dead
                or at_limit[place]
                or stopping(scores, hope, beam=beam, num_best=num_best)
            ):
                going_on.append(place)

        sentences = [sentences[place] for place in going_on]
        if sentences:
            places = torch.tensor(going_on, device=totals.device)
            alive, written = alive.rows(places), written[places]
            rows = (places[:, None] * width + alive.origins).flatten()  # S W -> S·W
            if not _is_identity(rows, len(tokens)):
                state = state.rows(rows)
            written, totals = alive.appended_to(written), alive.totals
            tokens = alive.tokens.flatten()
    return [_best(hypotheses)[:num_best] for hypotheses in found]


@dataclass(frozen=True)
class _Candidates:
    """Continuations of what is alive, best first in each sentence."""

    origins: Tensor  # S C, which of the W hypotheses each continues
    tokens: Tensor  # S C, with which token
    totals: Tensor  # S C, total ln p; -inf where there is no such candidate

    def rows(self, places: Tensor) -> _Candidates:
        """Keep these sentences."""
        return _Candidates(
            self.origins[places], self.tokens[places], self.totals[places]
        )

    def ranked(self, ranks: Tensor) -> _Candidates:
        """Keep these ranks [S C'] of each sentence."""
        return _Candidates(
            self.origins.gather(1, ranks),
            self.tokens.gather(1, ranks),
            self.totals.gather(1, ranks),
        )

    def appended_to(self, written: Tensor) -> Tensor:
        """Write each token behind what it continues: S W L -> S C L+1."""
        before = self.origins[:, :, None].expand(-1, -1, written.shape[2])
        return torch.cat([written.gather(1, before), self.tokens[:, :, None]], dim=2)


def _extended(
    totals: Tensor, logits: Tensor, count: int, *, forbidden: tuple[int, ...]
) -> _Candidates:
    """Return the ``count`` best continuations of each sentence's hypotheses.

    Equals stand in the order of what they continue, then of token ids.
    """
    num_sentences, width = totals.shape
    log_p, tokens = best_tokens(logits, count, forbidden=forbidden)
    kept = tokens.shape[1]
    sums = totals[:, :, None] + log_p.reshape(num_sentences, width, kept)
    best, flat = sums.flatten(1).sort(dim=1, descending=True, stable=True)
    best, flat = best[:, :count], flat[:, :count]
    tokens = tokens.reshape(num_sentences, width * kept).gather(1, flat)
    missing = (0, count - best.shape[1])  # a vocabulary smaller than 2 * beam
    return _Candidates(
        pad(flat // kept, missing),
        pad(tokens, missing),
        pad(best, missing, value=-math.inf),
    )


def _completed(
    candidates: _Candidates,
    written: Tensor,
    ends: Tensor,
    at_limit: list[bool],
    *,
    beam: int,
    divisor: float,
) -> Iterator[tuple[int, Hypothesis]]:
    """Yield, with its place, what ends here: only the first ``beam`` ranks count."""
    cut_off = torch.tensor(at_limit, device=ends.device)
    completed = (ends | cut_off[:, None]) & (candidates.totals > -math.inf)
    places, ranks = completed[:, :beam].nonzero(as_tuple=True)
    if not len(places):
        return
    origins = candidates.origins[places, ranks]
    for place, before, token, total, finished in zip(
        places.tolist(),
        written[places, origins].tolist(),
        candidates.tokens[places, ranks].tolist(),
        candidates.totals[places, ranks].tolist(),
        ends[places, ranks].tolist(),
        strict=True,
    ):
        tokens = tuple(before if finished else [*before, token])
        yield place, Hypothesis(tokens, total, total / divisor, finished)


def _alive(candidates: _Candidates, ends: Tensor, beam: int) -> _Candidates:
    """Return the first ``beam`` candidates that do not end.

    Where there are fewer, the first stands again with a total of -inf: a row that
    costs time, but whose scores are as sound as those of the row it repeats.
    """
    lost = ends | (candidates.totals == -math.inf)
    ranks = lost.to(torch.uint8).argsort(dim=1, stable=True)[:, :beam]
    missing = lost.gather(1, ranks)
    kept = candidates.ranked(torch.where(missing, ranks[:, :1], ranks))
    return _Candidates(
        kept.origins, kept.tokens, kept.totals.masked_fill(missing, -math.inf)
    )


def _hope(total: float, length: int, limit: int, penalty: LengthPenalty) -> float:
    """Return the best score to come: the total can only fall, the divisor may grow."""
    return max(total / penalty(length + 1), total / penalty(max(limit, length + 1)))


def _best(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda each: each.score, reverse=True)


def _is_identity(rows: Tensor, num_rows: int) -> bool:
    return len(rows) == num_rows and torch.equal(
        rows, torch.arange(num_rows, device=rows.device)
    )
