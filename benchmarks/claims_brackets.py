"""Trials of encoder-decoders on nested brackets, for ``claims.py``.

The source is the beginning of a text of brackets; the target closes those that are
still open, the last one first. How many those are is the depth: across all the pairs
that were closed meanwhile, their kinds must be found.
"""

from __future__ import annotations

from itertools import accumulate
from random import Random
from typing import Any

from claims_transformer import LEARNING_RATE, ROWS, SHAPE
from small_training import (
    END,
    FIRST,
    Batch,
    accuracies,
    make_encoder_decoder,
    optimize,
    padded,
    pair_loss,
)
from torch import Tensor

KINDS = 4
"""Kinds of brackets: opening ones are the tokens from FIRST on, then closing ones."""

DEPTHS = (1, 2, 4, 6, 8)
LONGEST = 40
"""Tokens of a source, at most."""

UPDATES = 1_500
TESTED = 400
SIX_LAYERS = {"encoder_layers": 6, "decoder_layers": 6}
CHOICES: dict[str, dict[str, Any]] = {
    "transformer, 2 layers": {},
    "transformer, 6 layers": {**SIX_LAYERS},
    "gru with attention, 2 layers": {"kind": "gru"},
    "gru without attention, 2 layers": {"kind": "gru", "recurrent_attention": "none"},
    "convolutions, 2 layers": {"kind": "convolutional"},
    "convolutions, 6 layers": {"kind": "convolutional", **SIX_LAYERS},
    "dilated convolutions, 6 layers": {"kind": "dilated", **SIX_LAYERS},
}


def trial(choice: dict[str, Any], seed: int, rehearse: bool) -> dict[str, Any]:
    """Train one model on all depths; return its accuracies by depth."""
    rng = Random(seed)
    model = make_encoder_decoder(choice, SHAPE, FIRST + 2 * KINDS, seed)

    def loss_of(number: int) -> Tensor:
        depths = [rng.randint(DEPTHS[0], DEPTHS[-1]) for _ in range(ROWS)]
        return pair_loss(model, brackets(depths, rng))

    updates = 5 if rehearse else UPDATES
    losses = optimize(model, loss_of, updates=updates, learning_rate=LEARNING_RATE)
    tests = {depth: brackets([depth] * TESTED, rng) for depth in DEPTHS}
    return {
        **losses,
        "parameters": sum(each.numel() for each in model.parameters()),
        "by_depth": {
            str(depth): accuracies(model, test) for depth, test in tests.items()
        },
    }


def brackets(depths: list[int], rng: Random) -> Batch:
    """Return texts that end at these depths, and what closes them."""
    sources, targets = zip(*(nesting(depth, rng) for depth in depths), strict=True)
    return padded(sources), padded(targets)


def nesting(depth: int, rng: Random) -> tuple[list[int], list[int]]:
    """Return the beginning of a text with ``depth`` brackets open, and the rest."""
    pairs = rng.randint(0, (LONGEST - depth) // 2)
    opened: list[int] = []
    source = []
    for is_opening in steps(depth, pairs, rng):
        if is_opening:
            opened.append(rng.randrange(KINDS))
            source.append(FIRST + opened[-1])
        else:
            source.append(FIRST + KINDS + opened.pop())
    rest = [FIRST + KINDS + kind for kind in reversed(opened)]
    return [*source, END], [*rest, END]


def steps(depth: int, pairs: int, rng: Random) -> list[bool]:
    """Draw ``depth + pairs`` openings and ``pairs`` closings, none without its own.

    All such orders are equally likely: of random orders (depth + 1) / (depth + pairs +
    1) are such (the ballot theorem), and the others are thrown away.
    """
    order = [True] * (depth + pairs) + [False] * pairs
    while True:
        rng.shuffle(order)
        if min(accumulate(1 if each else -1 for each in order)) >= 0:
            return order
