"""Rotary positions (RoPE, Su et al. 2021): rotations of queries and keys.

Beyond the paper. Each pair of channels of a query or key is turned by an angle that
grows with its position, so that the score of two depends on their distance alone. Only
self-attention has it: between a source and a target there is no distance.

Letters used for sizes: B batch rows, H heads, G heads of keys, Q query positions,
K key positions, L positions, C channels of a query or key (d_k).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.model.attention import MultiHeadAttention
from headwise.model.config import TransformerConfig
from headwise.model.positions import sinusoids


class RotaryPositions(nn.Module):
    """Rotates queries and keys; it has no parameters, and no maximum length.

    The angles of position p are those of the paper's sinusoids of width d_k: p /
    10000^(2i/d_k) for the channels 2i and 2i+1.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.table = torch.zeros(0, width)  # no buffer: model.half() would round it
        self.cos, self.sin = factors_of(self.table)

    def forward(
        self, queries: Float[Tensor, "B H Q C"], keys: Float[Tensor, "B G K C"]
    ) -> tuple[Float[Tensor, "B H Q C"], Float[Tensor, "B G K C"]]:
        """Return both rotated; the queries are those of the last Q of the K keys.

        Positions are counted from the first key. It may stand anywhere in a text, as
        after padding, or in a window, or behind other texts of the same row: distances
        are what they are. So a KV cache has keys that are not rotated yet.
        """
        length, first = keys.shape[2], keys.shape[2] - queries.shape[2]
        self.up_to(length, keys)
        return (
            turn(queries, self.cos[first:length], self.sin[first:length]),
            turn(keys, self.cos[:length], self.sin[:length]),
        )

    def up_to(self, count: int, like: Tensor) -> Float[Tensor, "L C"]:
        """Return sine and cosine of so many positions, in the dtype of ``like``."""
        table = self.table
        kind = like.dtype, like.device
        if count > len(table) or (table.dtype, table.device) != kind:
            size = max(256, 1 << (count - 1).bit_length())  # doubles, so rarely grows
            with torch.inference_mode(False):  # a table may outlive a validation
                positions = torch.arange(size, device="cpu")
                table = sinusoids(positions, self.width).to(like.dtype).to(like.device)
                self.table, (self.cos, self.sin) = table, factors_of(table)
        return table[:count]


def rotate(
    x: Float[Tensor, "B H L C"], table: Float[Tensor, "L C"]
) -> Float[Tensor, "B H L C"]:
    """Turn each pair of channels (a, b) into (a cos - b sin, b cos + a sin)."""
    return turn(x, *factors_of(table))


def factors_of(
    table: Float[Tensor, "L C"],
) -> tuple[Float[Tensor, "L C"], Float[Tensor, "L C"]]:
    """Return what each channel is multiplied by, and what its partner: cos and ∓ sin.

    The partners of a and b in a pair (a, b) are each other.
    """
    sin, cos = table[:, 0::2], table[:, 1::2]
    return cos.repeat_interleave(2, -1), torch.stack([-sin, sin], -1).flatten(-2)


def turn(
    x: Float[Tensor, "B H L C"], cos: Float[Tensor, "L C"], sin: Float[Tensor, "L C"]
) -> Float[Tensor, "B H L C"]:
    """Do so by the factors of :func:`factors_of`: few operations, and whole rows."""
    pairs = x.view(*x.shape[:-1], -1, 2)
    partners = pairs.flip(-1).flatten(-2)  # (a, b) -> (b, a)
    out: Tensor = x * cos + partners * sin
    return out


def with_positions(
    layer: MultiHeadAttention, config: TransformerConfig
) -> MultiHeadAttention:
    """Return a layer of self-attention, which rotates if ``config`` says so."""
    if config.positions == "rotary":
        layer.rotate = RotaryPositions(config.key_width)
    return layer
