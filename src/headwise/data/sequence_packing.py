"""Sequence packing: several pairs per row, in static shapes for torch.compile.

Letters used for sizes in this file: R rows, W width of a row in tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from headwise.data.batches import Batch, Indices
from headwise.data.packed_shapes import PackedShape
from headwise.text.vocabulary import PAD


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Pairs packed into rows: all tensors are [R W], with 0 for padding."""

    source: Tensor
    target_in: Tensor
    target_out: Tensor

    source_pair: Tensor
    """Number of the pair that each token belongs to, from 1; keeps attention inside."""

    target_pair: Tensor
    source_position: Tensor
    target_position: Tensor

    longest: int
    """Length of the longest sequence: above every position."""

    def __len__(self) -> int:
        return len(self.source)

    @property
    def padded_tokens(self) -> int:
        """Tokens of one side, padding included."""
        return self.source.numel()

    def to(self, device: torch.device | str) -> PackedBatch:
        """Return this batch on ``device``, copied as one tensor."""
        names = [name for name in self.__slots__ if name != "longest"]
        together = torch.stack([getattr(self, name) for name in names])
        if torch.device(device).type == "cuda":
            together = together.pin_memory().to(device, non_blocking=True)
        parts = together.unbind()
        return PackedBatch(**dict(zip(names, parts, strict=True)), longest=self.longest)


def pack_batch(batch: Batch, shape: PackedShape) -> list[PackedBatch]:
    """Pack a padded batch into batches of ``shape``, as many as it needs.

    Pairs keep their order, and must not be longer than a row.
    """
    real = {
        "source": (batch.source != PAD).numpy(),
        "target": (batch.target_out != PAD).numpy(),
    }
    lengths = {side: found.sum(axis=1) for side, found in real.items()}
    row_of, first = _next_fit(lengths["source"], lengths["target"], shape.width)
    count = -(-(int(row_of[-1]) + 1) // shape.rows)  # full batches
    size = count * shape.rows * shape.width
    fields: dict[str, Indices] = {}
    longest = 0
    for side, length in lengths.items():
        before = np.cumsum(length) - length
        position = np.arange(length.sum()) - np.repeat(before, length)
        start = row_of * shape.width + before - before[first[row_of]]
        slot = np.repeat(start, length) + position
        pair = np.repeat(np.arange(1, len(length) + 1), length)
        for name, values in ((f"{side}_pair", pair), (f"{side}_position", position)):
            fields[name] = np.zeros(size, dtype=np.int64)
            fields[name][slot] = values
        names = ["source"] if side == "source" else ["target_in", "target_out"]
        for name in names:
            fields[name] = np.full(size, PAD, dtype=np.int64)
            fields[name][slot] = getattr(batch, name).numpy()[real[side]]
        longest = max(longest, int(length.max()))
    batches = {
        name: torch.from_numpy(values).view(count, shape.rows, shape.width)
        for name, values in fields.items()
    }
    return [
        PackedBatch(
            **{name: tensor[part] for name, tensor in batches.items()}, longest=longest
        )
        for part in range(count)
    ]


def _next_fit(source: Indices, target: Indices, width: int) -> tuple[Indices, Indices]:
    """Pack pairs into rows in order (next fit), which is optimal for a fixed order.

    Returns the row of each pair, and the first pair of each row.
    """
    ends = [np.cumsum(side) for side in (source, target)]
    first = [0]
    while True:
        start = first[-1]
        stops = [
            np.searchsorted(end, (end[start - 1] if start else 0) + width, "right")
            for end in ends
        ]
        stop = int(min(stops))
        assert stop > start, "a pair is longer than its row"
        if stop == len(source):
            break
        first.append(stop)
    counts = np.diff([*first, len(source)])
    return np.repeat(np.arange(len(first)), counts), np.array(first)
