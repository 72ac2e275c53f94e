"""Continuations of what a beam holds.

Letters used for sizes in this file:

    S  sentences still searched        C  candidates for each sentence
    W  hypotheses alive in each        L  tokens written so far
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from headwise.decoding.next_token import Likely
from headwise.decoding.rule import Rule
from headwise.decoding.topk import best_tokens, best_tokens_by_rules


@dataclass(frozen=True)
class Candidates:
    """Continuations of what is alive, best first in each sentence."""

    origins: Tensor
    """[S, C], which of the W hypotheses each continues."""

    tokens: Tensor
    """[S, C], with which token."""

    totals: Tensor
    """[S, C], total of all scores; -inf where there is no such candidate."""

    log_p: Tensor | None = None
    """[S, C], the model's ln p of the token, where it is traced."""

    def sentences(self, places: Tensor) -> Candidates:
        """Keep these sentences."""
        return Candidates(
            self.origins[places],
            self.tokens[places],
            self.totals[places],
            None if self.log_p is None else self.log_p[places],
        )

    def ranked(self, ranks: Tensor) -> Candidates:
        """Keep these ranks [S C'] of each sentence."""
        return Candidates(
            self.origins.gather(1, ranks),
            self.tokens.gather(1, ranks),
            self.totals.gather(1, ranks),
            None if self.log_p is None else self.log_p.gather(1, ranks),
        )

    def appended(self, before: Tensor, newer: Tensor) -> Tensor:
        """Write ``newer`` [S C] behind what it continues: S W L -> S C L+1."""
        index = self.origins[:, :, None].expand(-1, -1, before.shape[2])
        return torch.cat([before.gather(1, index), newer[:, :, None]], dim=2)


def extended(
    totals: Tensor,
    scored: Tensor | Likely,
    count: int,
    *,
    forbidden: tuple[int, ...],
    rules: Sequence[Rule] = (),
    written: Tensor,
    sentences: Tensor | None = None,
    trace: bool = False,
) -> Candidates:
    """Return the ``count`` best continuations of each sentence's hypotheses.

    ``scored`` holds all logits [S·W V], or the ``count`` likeliest tokens of each row.
    Equals stand in the order of what they continue, then of token ids. ``rules`` look
    at what is ``written`` [S, W, L] and at the numbers of the ``sentences`` [S·W].
    """
    num_sentences, width = totals.shape
    own = None
    if isinstance(scored, Likely):
        scores, tokens = scored
        own = scores if trace else None
    elif rules and sentences is not None:
        scores, tokens, own = best_tokens_by_rules(
            scored,
            count,
            rules=rules,
            written=written.flatten(0, 1),
            sentences=sentences,
            forbidden=forbidden,
        )
    else:
        scores, tokens = best_tokens(scored, count, forbidden=forbidden)
        own = scores if trace else None
    kept = tokens.shape[1]
    sums = totals[:, :, None] + scores.reshape(num_sentences, width, kept)
    best, flat = sums.flatten(1).sort(dim=1, descending=True, stable=True)
    best, flat = best[:, :count], flat[:, :count]
    missing = (0, count - best.shape[1])  # a vocabulary smaller than the count

    def of_the_best(each: Tensor) -> Tensor:
        return pad(each.reshape(num_sentences, width * kept).gather(1, flat), missing)

    return Candidates(
        pad(flat // kept, missing),
        of_the_best(tokens),
        pad(best, missing, value=-math.inf),
        None if own is None else of_the_best(own),
    )


def alive_of(candidates: Candidates, ends: Tensor, beam: int) -> Candidates:
    """Return the first ``beam`` candidates that do not end.

    Where there are fewer, the first stands again with a total of -inf: a row that
    costs time, but whose scores are as sound as those of the row it repeats.
    """
    lost = ends | (candidates.totals == -math.inf)
    ranks = lost.to(torch.uint8).argsort(dim=1, stable=True)[:, :beam]
    missing = lost.gather(1, ranks)
    kept = candidates.ranked(torch.where(missing, ranks[:, :1], ranks))
    return Candidates(
        kept.origins,
        kept.tokens,
        kept.totals.masked_fill(missing, -math.inf),
        kept.log_p,
    )
