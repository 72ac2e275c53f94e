"""Training of small models on generated tasks, without files: for ``claims.py``.

Letters used for sizes: B batch rows, S source positions, L target positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.backends.pytorch.install_fused import use_backend
from headwise.demo_corpus import demo_corpus
from headwise.model import Transformer, TransformerConfig
from headwise.model.kinds import EncoderDecoder, new_encoder_decoder

PAD, START, END, FIRST = 0, 1, 2, 3
"""Special tokens, and the first that is a word."""

WARM_UP = 0.1
"""Share of the updates in which the learning rate rises; then it falls to 0."""

LAST = 0.05
"""Share of the updates over which the last training loss is a mean."""

Batch = tuple[Tensor, Tensor]
"""Sources [B S] and targets [B L], END last, PAD after it."""


def optimize(
    model: nn.Module,
    loss_of: Callable[[int], Tensor],
    *,
    updates: int,
    learning_rate: float,
) -> dict[str, float]:
    """Train by Adam as in Section 5.3; return the first and the last loss.

    ``loss_of`` returns the mean loss in nats of an update, by its number from 0.
    """
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    losses = []
    rising = max(1, round(WARM_UP * updates))
    for number in range(updates):
        share = min((number + 1) / rising, (updates - number) / (updates - rising + 1))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * share
        loss = loss_of(number)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    last = max(1, round(LAST * updates))
    return {"first_loss": losses[0], "last_loss": fmean(losses[-last:])}


def make_transformer(
    choice: dict[str, Any], shape: TransformerConfig, vocab_size: int, seed: int
) -> Transformer:
    """Return an encoder-decoder with ``choice`` on top of ``shape``."""
    model = Transformer(replace(shape, **choice), vocab_size, seed=seed)
    return use_backend(model, "reference")


def make_encoder_decoder(
    choice: dict[str, Any], shape: TransformerConfig, vocab_size: int, seed: int
) -> EncoderDecoder:
    """Return an encoder-decoder of any ``model.kind``."""
    model = new_encoder_decoder(replace(shape, **choice), vocab_size, seed=seed)
    return use_backend(model, "reference")


def shifted(target: Tensor) -> Tensor:
    """Return the decoder input: START before, the last token left out."""
    return F.pad(target, (1, 0), value=START)[:, :-1] * (target != PAD)


def logits_of(model: EncoderDecoder, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the logits of all real target tokens, and the tokens."""
    source, target = batch
    is_real = target != PAD
    logits = model(source, shifted(target), source != PAD)
    return logits[is_real], target[is_real]


def pair_loss(model: EncoderDecoder, batch: Batch) -> Tensor:
    """Return the mean cross-entropy of the target tokens, in nats."""
    return F.cross_entropy(*logits_of(model, batch))


@torch.no_grad()
def mean_loss(model: Transformer, batches: Sequence[Batch]) -> float:
    """Return the mean cross-entropy of the target tokens of all batches, in nats."""
    found = [F.cross_entropy(*logits_of(model, x), reduction="sum") for x in batches]
    tokens = sum(int((target != PAD).sum()) for _, target in batches)
    return float(sum(found)) / tokens


@torch.no_grad()
def accuracies(model: EncoderDecoder, batch: Batch) -> dict[str, float]:
    """Return the shares of right tokens and of right targets, from 0 to 1.

    With the target given, as in training. A target all of whose tokens are then right
    is what greedy search writes, and no other is.
    """
    source, target = batch
    is_real = target != PAD
    best = model(source, shifted(target), source != PAD).argmax(dim=-1)
    right = (best == target) | ~is_real
    return {
        "tokens": float(right[is_real].float().mean()),
        "exact": float(right.all(dim=1).float().mean()),
    }


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Return the rows as a matrix, followed by padding."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


@dataclass(frozen=True)
class WordPairs:
    """Pairs of the demo corpus as numbers of their words."""

    train: list[tuple[list[int], list[int]]]
    dev: list[tuple[list[int], list[int]]]
    vocab_size: int

    def batch(self, rng: Random, pairs: int) -> Batch:
        """Draw pairs of the training part."""
        sources, targets = zip(*rng.sample(self.train, pairs), strict=True)
        return padded(sources), padded(targets)

    def dev_batches(self, pairs: int = 100) -> list[Batch]:
        """Return the development part."""
        parts = [self.dev[i : i + pairs] for i in range(0, len(self.dev), pairs)]
        return [
            (padded([source for source, _ in part]), padded([x for _, x in part]))
            for part in parts
        ]


@lru_cache(maxsize=1)
def word_pairs(train: int = 6_000, dev: int = 400, seed: int = 1) -> WordPairs:
    """Return the demo corpus; words that training lacks are in no pair of ``dev``."""
    corpus = demo_corpus(train, 0, seed, num_dev=2 * dev)
    numbers: dict[str, int] = {}

    def tokens(text: str) -> list[int]:
        return [
            *(numbers.setdefault(x, len(numbers) + FIRST) for x in text.split()),
            END,
        ]

    of_train = [(tokens(x.english), tokens(x.french)) for x in corpus.train]
    known = {*numbers}
    of_dev = [
        (tokens(x.english), tokens(x.french))
        for x in corpus.dev
        if {*x.english.split(), *x.french.split()} <= known
    ]
    return WordPairs(of_train, of_dev[:dev], len(known) + FIRST)
