"""The dropout masks that the C kernels draw, computed a second time in numpy.

With them the boxes of the paper can be run with the very same units silenced, so that
loss and gradients must agree to rounding, dropout and all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

LANES = 16
GROUP_ROWS = 256
"""Positions of each side that go forward and backward together, at least."""

BITS = 2**64 - 1


def splitmix64(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & BITS
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & BITS
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & BITS
    return x ^ x >> 31


def drawn_masks(
    seed: int, place: int, share: float, rows: int, width: int
) -> Iterator[list[float]]:
    """Yield what each row of a box's output is multiplied with."""
    start = splitmix64(seed ^ splitmix64(place))
    words = np.array([splitmix64((start + n) & BITS) for n in range(16)], np.uint64)
    a, b = words[0::2].copy(), words[1::2].copy()
    silent = int(np.float32(share) * 4294967296.0)
    for _ in range(rows):
        row: list[float] = []
        while len(row) < width:
            kept = (a + b).view("<u4") >= silent
            mixed = a ^ a << np.uint64(23)
            mixed = mixed ^ b ^ mixed >> np.uint64(18) ^ b >> np.uint64(5)
            a, b = b, mixed
            row += (kept / (1 - np.float64(np.float32(share)))).tolist()
        yield row[:width]


def group_sizes(
    sources: Sequence[int], targets: Sequence[int], d_model: int
) -> list[int]:
    """Return how many sentences are taken together, group after group."""
    most = max(GROUP_ROWS, 2 * d_model)
    sizes: list[int] = []
    held = [most, most]
    for lengths in zip(sources, targets, strict=True):
        held = [before + more for before, more in zip(held, lengths, strict=True)]
        if max(held) > most or not sizes:
            sizes.append(0)
            held = list(lengths)
        sizes[-1] += 1
    return sizes


class Replayed(nn.Module):
    """Stands where ``Dropout`` stands, and multiplies with a mask that is known."""

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.mask = mask

    def forward(self, x: Tensor) -> Tensor:
        return x * self.mask.to(x.dtype)


def replay_dropout(
    model: nn.Module, seed: int, source_is_real: Tensor, target_is_real: Tensor
) -> None:
    """Replace every dropout of ``model`` by the masks of the kernels for this seed."""
    share, width = model.config.dropout, model.config.d_model
    real = (source_is_real, target_is_real)
    lengths = [side.sum(1).tolist() for side in real]
    sizes = group_sizes(*lengths, width)

    def replayed(writes: int, layer: int, box: int) -> Replayed:
        place = (layer * 4 + box) * 2 + writes
        rows: list[list[float]] = []
        first = 0
        for size in sizes:
            count = sum(lengths[writes][first : first + size])
            group = splitmix64((seed + first) & BITS)
            rows += drawn_masks(group, place, share, count, width)
            first += size
        mask = torch.ones(*real[writes].shape, width, dtype=torch.float64)
        mask[real[writes]] = torch.tensor(rows, dtype=torch.float64)
        return Replayed(mask)

    model.enter_encoder.dropout = replayed(0, 0, 0)
    model.enter_decoder.dropout = replayed(1, 0, 0)
    for layer, block in enumerate(model.encoder.blocks, start=1):
        block.around_attention.dropout = replayed(0, layer, 1)
        block.around_feed_forward.dropout = replayed(0, layer, 3)
    for layer, block in enumerate(model.decoder.blocks, start=1):
        block.around_self.dropout = replayed(1, layer, 1)
        block.around_cross.dropout = replayed(1, layer, 2)
        block.around_feed_forward.dropout = replayed(1, layer, 3)
