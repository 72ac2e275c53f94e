"""Sampling: outputs drawn by chance, as the model finds them probable.

Letters used for sizes in this file:

    R  rows of the batch, one an output        V  vocabulary

The chance of an output comes from the seed, the tokens of its source and the number of
the sample, and from nothing else: neither its batch nor its place in a file matters.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from headwise.decoding.checks import check_ids, check_lengths, dead_end
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.length import LengthPenalty
from headwise.decoding.next_token import NextToken, S
from headwise.decoding.rule import Rule, Written
from headwise.decoding.rules import ruled
from headwise.decoding.settings import DecodingSettings
from headwise.decoding.topk import log_probabilities


def keep_top_k(log_p: Tensor, k: int) -> Tensor:
    """Keep the k most probable tokens: Fan et al. (2018).

    Of equals at the edge the lower id is kept.
    """
    order = log_p.argsort(dim=-1, descending=True, stable=True)
    return log_p.scatter(1, order[:, k:], -math.inf)


def keep_top_p(log_p: Tensor, p: float) -> Tensor:
    """Keep the fewest tokens that together have p or more: Holtzman et al. (2020)."""
    order = log_p.argsort(dim=-1, descending=True, stable=True)
    shares = log_p.gather(1, order).double().exp()
    before = shares.cumsum(-1) - shares
    dropped = before >= p
    dropped[:, 0] = False
    return log_p.masked_fill(
        torch.zeros_like(dropped).scatter(1, order, dropped), -math.inf
    )


def keep_above_epsilon(log_p: Tensor, epsilon: float) -> Tensor:
    """Keep tokens of epsilon or more, or the best alone: Hewitt et al. (2022)."""
    kept = (log_p >= math.log(epsilon)) | (log_p == log_p.amax(-1, keepdim=True))
    return log_p.masked_fill(~kept, -math.inf)


TRUNCATIONS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "top_k": lambda log_p, k: keep_top_k(log_p, int(k)),
    "top_p": keep_top_p,
    "epsilon": keep_above_epsilon,
}
"""What may be drawn, under the setting that asks for it, in the order of application.

Each takes ln p [R, V] that add up to 1 to ln p with -inf for what may not.
"""

NO_TRUNCATION = {"top_k": 0, "top_p": 1.0, "epsilon": 0.0}


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """How a token is drawn."""

    temperature: float = 1.0
    truncations: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, settings: DecodingSettings) -> Drawing:
        """Return what ``settings`` say."""
        asked = {name: getattr(settings, name) for name in TRUNCATIONS}
        return cls(
            temperature=settings.temperature,
            truncations=tuple(
                (name, value)
                for name, value in asked.items()
                if value != NO_TRUNCATION[name]
            ),
        )

    def distribution(self, scores: Tensor) -> Tensor:
        """Return the probabilities [R, V] to draw from, in float64."""
        log_p = (scores.double() / self.temperature).log_softmax(-1)
        for name, value in self.truncations:
            log_p = TRUNCATIONS[name](log_p, value).log_softmax(-1)
        return log_p.exp()


def chance(seed: int, source: Sequence[int], sample: int) -> Random:
    """Return the chance of one sample of one sentence."""
    said = f"{seed} {sample} {' '.join(map(str, source))}"
    return Random(hashlib.sha256(said.encode()).digest())


@torch.inference_mode()
def sampling_search(
    model: NextToken[S],
    state: S,
    *,
    sources: Sequence[Sequence[int]],
    start: int,
    end: int,
    max_lengths: Sequence[int],
    samples: int,
    seed: int,
    drawing: Drawing,
    penalty: LengthPenalty = float,
    reward: float = 0.0,
    forbidden: tuple[int, ...] = (),
    rules: Sequence[Rule] = (),
    trace: bool = False,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Draw ``samples`` outputs for each row of ``state``, returned best first.

    The same output may be drawn more than once, and then stands there as often.
    """
    check_lengths(max_lengths, len(sources))
    check_ids(end, forbidden)
    sentences = [each for each in range(len(sources)) for _ in range(samples)]
    chances = [
        chance(seed, source, sample) for source in sources for sample in range(samples)
    ]
    found: list[list[Hypothesis]] = [[] for _ in sources]
    rows = list(range(len(sentences)))  # those still being written
    written: list[list[int]] = [[] for _ in rows]
    traces: list[list[float]] = [[] for _ in rows]
    totals = [0.0] * len(rows)  # of the scores, which rules may have changed
    tokens = torch.full((len(rows),), start, device=device)
    if samples > 1 and rows:
        state = state.rows(torch.tensor(sentences, device=device))

    while rows:
        logits, state = model.step(tokens, state)
        log_p = log_probabilities(logits)
        scores = log_p
        if rules:
            so_far = torch.tensor([written[row] for row in rows], device=device).long()
            numbers = torch.tensor([sentences[row] for row in rows], device=device)
            scores = ruled(log_p, rules, Written(so_far, numbers, log_p))
        if forbidden:
            scores = scores.index_fill(
                1, torch.tensor(forbidden, device=device), -math.inf
            )
        if bool((scores.amax(-1) == -math.inf).any()):
            raise dead_end()
        points = [chances[row].random() for row in rows]
        tokens = drawn(drawing.distribution(scores), points)

        going_on = []
        for place, (row, token, own, score) in enumerate(
            zip(
                rows,
                tokens.tolist(),
                log_p.gather(1, tokens[:, None])[:, 0].tolist(),
                scores.gather(1, tokens[:, None])[:, 0].tolist(),
                strict=True,
            )
        ):
            traces[row].append(own)
            totals[row] += score
            length = len(traces[row])
            if token != end:
                written[row].append(token)
            if token != end and length < max_lengths[sentences[row]]:
                going_on.append(place)
                continue
            found[sentences[row]].append(
                Hypothesis(
                    tuple(written[row]),
                    math.fsum(traces[row]),
                    totals[row] / penalty(length) + reward * length,
                    token == end,
                    tuple(traces[row]) if trace else (),
                )
            )

        if len(going_on) < len(rows):
            rows = [rows[place] for place in going_on]
            kept = torch.tensor(going_on, dtype=torch.long, device=tokens.device)
            tokens = tokens[kept]
            if rows:
                state = state.rows(kept)
    # Equals in an order that does not depend on which of them ended first.
    return [sorted(each, key=lambda h: (-h.score, h.tokens)) for each in found]


def drawn(shares: Tensor, points: Sequence[float]) -> Tensor:
    """Return the token [R] whose part of the line from 0 to 1 holds each point."""
    ends = shares.cumsum(-1)
    places = torch.tensor(points, dtype=ends.dtype, device=ends.device)[:, None]
    # Rounding may leave the sum a little beside 1, and no token beyond the last share.
    tokens = torch.searchsorted(ends, places * ends[:, -1:], right=True)[:, 0]
    last = (shares > 0).to(torch.uint8).flip(-1).argmax(-1)
    return torch.minimum(tokens, shares.shape[1] - 1 - last)
