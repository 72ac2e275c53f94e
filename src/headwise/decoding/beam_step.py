"""One step of a beam: the best continuations of its hypotheses.

Letters used for sizes in this file:

    S  sentences still searched        C  continuations of each sentence
    W  hypotheses alive in each        L  tokens generated so far
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from headwise.decoding.incremental_decoder import TopK
from headwise.decoding.rule_context import Rule
from headwise.decoding.topk import topk_tokens, topk_tokens_with_rules


@dataclass(frozen=True)
class Continuations:
    """Hypotheses with one more token, best first in each sentence."""

    parents: Tensor
    """[S, C], the index of the hypothesis, of W, that each extends."""

    tokens: Tensor
    """[S, C], the token it is extended with."""

    totals: Tensor
    """[S, C], total of all scores; -inf where there is no such continuation."""

    log_p: Tensor | None = None
    """[S, C], the model's ln p of the token, if token scores are recorded."""

    def select_sentences(self, indices: Tensor) -> Continuations:
        """Keep the sentences at these indices."""
        return Continuations(
            self.parents[indices],
            self.tokens[indices],
            self.totals[indices],
            None if self.log_p is None else self.log_p[indices],
        )

    def select_ranks(self, ranks: Tensor) -> Continuations:
        """Keep these ranks [S C'] of each sentence."""
        return Continuations(
            self.parents.gather(1, ranks),
            self.tokens.gather(1, ranks),
            self.totals.gather(1, ranks),
            None if self.log_p is None else self.log_p.gather(1, ranks),
        )

    def append_to(self, before: Tensor, newer: Tensor) -> Tensor:
        """Append ``newer`` [S C] to the parents in ``before``: S W L -> S C L+1."""
        index = self.parents[:, :, None].expand(-1, -1, before.shape[2])
        return torch.cat([before.gather(1, index), newer[:, :, None]], dim=2)


def extend_hypotheses(
    totals: Tensor,
    next_tokens: Tensor | TopK,
    count: int,
    *,
    forbidden: tuple[int, ...],
    rules: Sequence[Rule] = (),
    generated: Tensor,
    sentences: Tensor | None = None,
    token_scores: bool = False,
) -> Continuations:
    """Return the ``count`` best continuations of each sentence's hypotheses.

    ``totals`` [S W] are the scores so far; ``next_tokens`` are all logits [S·W V], or
    the top ``count`` of each row. Ties go to the earlier parent, then to the lower
    token id. ``rules`` see the ``generated`` tokens [S W L] and ``sentences`` [S·W].
    """
    num_sentences, width = totals.shape
    log_p = None
    if isinstance(next_tokens, TopK):
        scores, tokens = next_tokens
        log_p = scores if token_scores else None
    elif rules and sentences is not None:
        scores, tokens, log_p = topk_tokens_with_rules(
            next_tokens,
            count,
            rules=rules,
            generated=generated.flatten(0, 1),
            sentences=sentences,
            forbidden=forbidden,
        )
    else:
        scores, tokens = topk_tokens(next_tokens, count, forbidden=forbidden)
        log_p = scores if token_scores else None
    k = tokens.shape[1]
    sums = totals[:, :, None] + scores.reshape(num_sentences, width, k)
    best, flat = sums.flatten(1).sort(dim=1, descending=True, stable=True)
    best, flat = best[:, :count], flat[:, :count]
    missing = (0, count - best.shape[1])  # a vocabulary smaller than the count

    def of_best(each: Tensor) -> Tensor:
        return pad(each.reshape(num_sentences, width * k).gather(1, flat), missing)

    return Continuations(
        pad(flat // k, missing),
        of_best(tokens),
        pad(best, missing, value=-math.inf),
        None if log_p is None else of_best(log_p),
    )


def select_alive(
    continuations: Continuations, is_end: Tensor, beam: int
) -> Continuations:
    """Return the first ``beam`` continuations that do not end.

    If there are fewer, the first is repeated with a total of -inf: such a row costs
    time, but its logits are as sound as those of the row it repeats.
    """
    dropped = is_end | (continuations.totals == -math.inf)
    ranks = dropped.to(torch.uint8).argsort(dim=1, stable=True)[:, :beam]
    missing = dropped.gather(1, ranks)
    alive = continuations.select_ranks(torch.where(missing, ranks[:, :1], ranks))
    return Continuations(
        alive.parents,
        alive.tokens,
        alive.totals.masked_fill(missing, -math.inf),
        alive.log_p,
    )
