"""The dropout masks that the C kernels draw, computed a second time in numpy.

With them the model runs with the same dropout masks, so that loss and gradients must
agree to rounding, dropout included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from headwise.backends.native.library import build
from headwise.model.attention import attention_weights

LANES = 16

BITS = 2**64 - 1


def splitmix64(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & BITS
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & BITS
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & BITS
    return x ^ x >> 31


def drawn_masks(
    seed: int, place: int, share: float, rows: int, width: int
) -> Iterator[list[float]]:
    """Yield what each row of a sublayer's output is multiplied with."""
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
    most = max(256 if build().variant == "amx" else 384, 2 * d_model)
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


PLACES = {
    "embedding": 0,
    "self": 1,
    "cross": 2,
    "feed_forward": 3,
    "self_weights": 4,
    "cross_weights": 5,
    "hidden": 6,
}
"""Numbers of the places where dropout is applied, as in ``csrc/train_group.h``."""


class Masks:
    """The masks of one batch, for every place of a model."""

    def __init__(
        self, model: nn.Module, seed: int, source_is_real: Tensor, target: Tensor
    ) -> None:
        self.config = model.config
        self.seed = seed
        self.real = (source_is_real, target)
        self.lengths = [side.sum(1).tolist() for side in self.real]
        self.sizes = group_sizes(*self.lengths, self.config.d_model)

    def groups(self) -> Iterator[tuple[int, slice]]:
        """Yield the seed of each group of sentences, and which they are."""
        first = 0
        for size in self.sizes:
            yield splitmix64((self.seed + first) & BITS), slice(first, first + size)
            first += size

    def rows(self, side: int, layer: int, place: str, share: float, width: int):
        """Return a mask [N, L, width] that is drawn row by row."""
        number = (layer * 8 + PLACES[place]) * 2 + side
        rows: list[list[float]] = []
        for seed, chosen in self.groups():
            count = sum(self.lengths[side][chosen])
            rows += drawn_masks(seed, number, share, count, width)
        return self._padded(side, torch.tensor(rows, dtype=torch.float64))

    def hidden(self, side: int, layer: int) -> Replayed:
        """Return the mask [N, L, F], which is drawn without a gap between rows."""
        share, width = self.config.feed_forward_dropout, self.config.d_ff
        number = (layer * 8 + PLACES["hidden"]) * 2 + side
        flat: list[float] = []
        for seed, chosen in self.groups():
            count = sum(self.lengths[side][chosen]) * width
            flat += next(drawn_masks(seed, number, share, 1, count))
        rows = torch.tensor(flat, dtype=torch.float64).view(-1, width)
        return Replayed(self._padded(side, rows))

    def weights(self, side: int, layer: int, place: str, asked: int):
        """Return an attention function that drops these weights [N, H, Q, K]."""
        share, heads = self.config.attention_dropout, self.config.num_heads
        number = (layer * 8 + PLACES[place]) * 2 + side
        sizes = [self.real[each].shape[1] for each in (side, asked)]
        mask = torch.ones(len(self.real[0]), heads, *sizes, dtype=torch.float64)
        for seed, chosen in self.groups():
            shapes = [
                (self.lengths[side][n], self.lengths[asked][n])
                for n in range(*chosen.indices(len(self.real[0])))
            ]
            padded = [-(-keys // LANES) * LANES for _, keys in shapes]
            total = sum(
                heads * queries * width
                for (queries, _), width in zip(shapes, padded, strict=True)
            )
            flat = torch.tensor(
                next(drawn_masks(seed, number, share, 1, total)), dtype=torch.float64
            )
            at = 0
            for n, ((queries, keys), width) in enumerate(
                zip(shapes, padded, strict=True), start=chosen.start
            ):
                size = heads * queries * width
                drawn = flat[at : at + size].view(heads, queries, width)
                mask[n, :, :queries, :keys] = drawn[:, :, :keys]
                at += size

        def attend(queries, keys, values, mask_of_keys, dropout):
            weights = attention_weights(queries, keys, mask_of_keys)
            return (weights * mask.to(weights.dtype)) @ values

        return attend

    def _padded(self, side: int, rows: Tensor) -> Tensor:
        real = self.real[side]
        mask = torch.ones(*real.shape, rows.shape[1], dtype=torch.float64)
        mask[real] = rows
        return mask


def replay_dropout(
    model: nn.Module, seed: int, source_is_real: Tensor, target_is_real: Tensor
) -> None:
    """Replace every dropout of ``model`` by the masks of the kernels for this seed.

    A model of one stack has no other side: ``is_real`` of that is [N 0].
    """
    masks = Masks(model, seed, source_is_real, target_is_real)
    if hasattr(model, "encoder"):
        model.enter_encoder.dropout = _of_output(masks, 0, 0, "embedding")
        for layer, block in enumerate(model.encoder.blocks, start=1):
            block.around_attention.dropout = _of_output(masks, 0, layer, "self")
            block.self_attention.attend = masks.weights(0, layer, "self_weights", 0)
            _replay_feed_forward(masks, 0, layer, block)
    if hasattr(model, "decoder"):
        model.enter_decoder.dropout = _of_output(masks, 1, 0, "embedding")
        for layer, block in enumerate(model.decoder.blocks, start=1):
            block.around_self.dropout = _of_output(masks, 1, layer, "self")
            block.self_attention.attend = masks.weights(1, layer, "self_weights", 1)
            if hasattr(block, "cross_attention"):
                block.around_cross.dropout = _of_output(masks, 1, layer, "cross")
                block.cross_attention.attend = masks.weights(
                    1, layer, "cross_weights", 0
                )
            _replay_feed_forward(masks, 1, layer, block)


def _replay_feed_forward(masks: Masks, side: int, layer: int, block: nn.Module) -> None:
    block.around_feed_forward.dropout = _of_output(masks, side, layer, "feed_forward")
    block.feed_forward.dropout = masks.hidden(side, layer)


def _of_output(masks: Masks, side: int, layer: int, place: str) -> Replayed:
    config = masks.config
    return Replayed(masks.rows(side, layer, place, config.dropout, config.d_model))
