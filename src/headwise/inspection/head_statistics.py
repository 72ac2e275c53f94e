"""What each head attends to over a corpus: distances, entropy, rare words.

Letters used for sizes in this file:

    B  batch rows           Q  positions that attend
    H  heads                K  positions that are attended to
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from headwise.errors import DataError
from headwise.evaluation_mode import evaluation_mode
from headwise.inspection.hooks import (
    AttentionCall,
    OnCall,
    observe_attention,
)
from headwise.inspection.places import AttentionName, Head, attention_layers
from headwise.inspection.token_pair import require_transformer
from headwise.model.attention import MultiHeadAttention
from headwise.model.encoder_decoder import EncoderDecoder
from headwise.tasks.translation.pair_scorer import (
    BATCH_TOKENS,
    Pairs,
    pad_sources,
    pad_tokens,
)
from headwise.tasks.translation.thread_pool import cut_batches
from headwise.text.vocabulary import END, PAD, START

POSITIONAL = 0.9
"""Share of positions from which a head is called positional; Voita et al. (2019)."""

OFFSETS = 3
"""Farthest relative position that a positional head is looked for at."""


@dataclass(frozen=True, slots=True)
class HeadStatistics:
    """Means over all positions of a corpus that attend, END included.

    Positions are those of the inputs of a stack: offset 0 is the position itself, or,
    in cross-attention, the same number in the source.
    """

    head: Head

    entropy: float
    """Of a row of weights, in nats: 0 if all weight is on one position."""

    distance: float
    """Mean distance to what is attended to, in tokens."""

    previous: float
    """Weight on the position before, which the first does not have."""

    same: float
    next: float

    rarest: float
    """Weight on the rarest token of the sentence, END and start apart: Voita et al.
    (2019), Analyzing Multi-Head Self-Attention."""

    offset: int
    """The relative position, up to 3, that most often has the largest weight."""

    offset_share: float
    """How often it has."""

    positional: bool
    """Whether that is 9 times of 10: what Voita et al. call a positional head."""


class _Sums:
    """Sums over the positions of a corpus, for one attention layer."""

    def __init__(self, heads: int) -> None:
        self.count = 0
        self.sums = torch.zeros(6, heads, dtype=torch.double)
        self.largest = torch.zeros(2 * OFFSETS + 1, heads, dtype=torch.double)

    def add(self, weights: Tensor, is_query: Tensor, rare: Tensor) -> None:
        """Add weights [B H Q K]; ``is_query`` [B Q] and ``rare`` [B K] say which."""
        device = weights.device
        q = torch.arange(weights.shape[2], device=device)
        k = torch.arange(weights.shape[3], device=device)
        offsets = k[None, :] - q[:, None]
        exact = weights.double()
        rows = [
            -torch.special.xlogy(exact, exact).sum(-1),
            (exact * offsets.abs()).sum(-1),
            *((exact * (offsets == each)).sum(-1) for each in (-1, 0, 1)),
            (exact * rare[:, None, None, :]).sum(-1),
        ]
        real = is_query[:, None, :]
        for index, row in enumerate(rows):
            self.sums[index] += (row * real).sum(dim=(0, 2)).cpu()
        best = exact.argmax(dim=-1) - q
        for index, offset in enumerate(range(-OFFSETS, OFFSETS + 1)):
            hits = (best == offset) & real
            self.largest[index] += hits.sum(dim=(0, 2)).double().cpu()
        self.count += int(is_query.sum())

    def of(self, name: AttentionName, head: int) -> HeadStatistics:
        """Return the means of one head."""
        entropy, distance, previous, same, following, rarest = (
            self.sums[:, head] / self.count
        ).tolist()
        shares = self.largest[:, head] / self.count
        best = int(shares.argmax())
        return HeadStatistics(
            Head(name.kind, name.layer, head),
            entropy,
            distance,
            previous,
            same,
            following,
            rarest,
            offset=best - OFFSETS,
            offset_share=float(shares[best]),
            positional=float(shares[best]) >= POSITIONAL,
        )


@torch.no_grad()
def head_statistics(model: EncoderDecoder, pairs: Pairs) -> list[HeadStatistics]:
    """Return the statistics of every head over pairs of tokens without END.

    Memory does not grow with the corpus. Raises ``DataError`` if there are no pairs.
    """
    if not pairs:
        raise DataError("there are no pairs to take statistics of; give some lines")
    model = require_transformer(model, "statistics of heads")
    layers = attention_layers(model)
    sums = {name: _Sums(layer.num_heads) for name, layer in layers.items()}
    counts = [_count(each[side] for each in pairs) for side in (0, 1)]
    sizes = [max(len(source), len(target)) + 1 for source, target in pairs]
    with evaluation_mode(model):
        for batch in cut_batches(sizes, BATCH_TOKENS, alone=False):
            sources = [list(pairs[n][0]) for n in batch]
            targets = [list(pairs[n][1]) for n in batch]
            source, is_real = pad_sources(sources, model.device)
            inputs = pad_tokens([[START, *each] for each in targets]).to(model.device)
            is_target = inputs != PAD
            rare = {
                "source": _rarest(source, counts[0]),
                "target": _rarest(inputs, counts[1]),
            }

            def add(
                name: AttentionName,
                call: AttentionCall,
                is_real: Tensor = is_real,
                is_target: Tensor = is_target,
                rare: dict[str, Tensor] = rare,
            ) -> None:
                queries = is_real if name.kind == "encoder" else is_target
                keys = rare["target" if name.kind == "decoder" else "source"]
                sums[name].add(call.weights, queries, keys)

            observers: dict[MultiHeadAttention, OnCall] = {
                layer: partial(add, name) for name, layer in layers.items()
            }
            with observe_attention(observers):
                model.decode(source, inputs, is_real)
    return [
        sums[name].of(name, head)
        for name, layer in layers.items()
        for head in range(layer.num_heads)
    ]


def _count(texts: Iterable[Sequence[int]]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for text in texts:
        counts.update(text)
    return counts


def _rarest(tokens: Tensor, counts: Counter[int]) -> Tensor:
    """Return where the rarest token of each row [B K] is; nowhere in an empty one."""
    special = {PAD, START, END}
    rows = []
    for row in tokens.tolist():
        own = [token for token in row if token not in special]
        rarest = min(own, key=lambda token: (counts[token], token), default=None)
        rows.append([token == rarest for token in row])
    return torch.tensor(rows, device=tokens.device)
