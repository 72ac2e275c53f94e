"""Positional encodings (Section 3.5): every scheme that changes the embeddings.

Rotary positions turn queries and keys instead (``rotary_positions.py``), and relative
ones change scores (``variants/relative_positions.py``).

Letters used for sizes: B batch rows, L positions, E channels of an embedding,
P channels of a positional encoding, D model width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.errors import ModelError
from headwise.model.config import PositionName, TransformerConfig
from headwise.model.variants.position_encodings import (
    PositionFractions,
    PositionNumbers,
)
from headwise.model.variants.relative_positions import RELATIVE_POSITIONS

LONGEST_WAVE = 10000.0
"""The wavelengths run from 2π to this many times 2π (Section 3.5)."""


def sinusoids(positions: Int[Tensor, " L"], width: int) -> Float[Tensor, "L P"]:
    """Compute the paper's table: PE(pos, 2i) = sin, PE(pos, 2i+1) = cos of
    pos / 10000^(2i/width), in float64, so that far positions keep their phase.
    """  # noqa: D205 - one sentence, longer than a line
    even = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device)
    angles = positions[:, None] / LONGEST_WAVE ** (even / width)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def sinusoids_in_halves(
    positions: Int[Tensor, " L"], width: int
) -> Float[Tensor, "L P"]:
    """Compute the same numbers with all sines first, as Marian and others do."""
    table = sinusoids(positions, width)
    return torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)


class Sinusoids(nn.Module):
    """Encodings by formula: no parameters, and no maximum length."""

    def __init__(self, formula: Callable[[Tensor, int], Tensor], width: int) -> None:
        super().__init__()
        self.formula = formula
        self.width = width
        self.table = torch.zeros(0, width)  # no buffer: model.half() would round it

    def forward(self, x: Float[Tensor, "B L E"], start: int) -> Float[Tensor, "L P"]:
        """Return the encodings of positions ``start`` to ``start + L - 1``."""
        end = start + x.shape[1]
        table = self.table
        if end > len(table) or (table.dtype, table.device) != (x.dtype, x.device):
            size = max(256, 1 << (end - 1).bit_length())  # doubles, so rarely grows
            positions = torch.arange(size, device="cpu")
            table = self.formula(positions, self.width).to(x.dtype).to(x.device)
            self.table = table
        return table[start:end]


class LearnedPositions(nn.Module):
    """A trained vector for each position up to a fixed number (Table 3, row E)."""

    def __init__(self, max_positions: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(max_positions, width))

    def forward(self, x: Float[Tensor, "B L E"], start: int) -> Float[Tensor, "L P"]:
        """Return the encodings of positions ``start`` to ``start + L - 1``."""
        end = start + x.shape[1]
        if end > len(self.vectors):
            raise ModelError.beyond_positions(end, len(self.vectors))
        return self.vectors[start:end]


POSITIONS: dict[PositionName, Callable[[TransformerConfig], nn.Module] | None] = {
    "sinusoidal": lambda c: Sinusoids(sinusoids, c.position_width),
    "sinusoidal_halves": lambda c: Sinusoids(sinusoids_in_halves, c.position_width),
    "learned": lambda c: LearnedPositions(c.max_positions, c.position_width),
    "number": lambda c: PositionNumbers(c.position_width),
    "fraction": lambda c: PositionFractions(c.max_positions, c.position_width),
    "rotary": None,
    "none": None,
    **dict.fromkeys(RELATIVE_POSITIONS),
}


@dataclass(frozen=True)
class PositionIds:
    """The position of each token, for packed rows or a position on the device."""

    ids: Int[Tensor, "B L"]

    num_positions: int
    """More than every id."""


class AddPositions(nn.Module):
    """Add a positional encoding to each embedding, or concatenate it."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        make = POSITIONS[config.positions]
        self.scheme = make(config) if make else None
        self.concatenate = config.position_join == "concatenate"

    def forward(
        self,
        x: Float[Tensor, "B L E"],
        positions: int | PositionIds,
        is_real: Bool[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B L D"]:
        """Encode ``positions``: an id for each token, or the position of the first.

        An encoder says which positions are no padding, for what depends on the length.
        """
        if self.scheme is None:
            return x
        encoding: Tensor
        if isinstance(self.scheme, PositionFractions) and is_real is not None:
            encoding = self.scheme.of_texts(x, is_real)
        elif isinstance(positions, PositionIds):
            table = self.scheme(x.new_empty(1, positions.num_positions, 0), 0)
            encoding = F.embedding(positions.ids, table)
        else:
            encoding = self.scheme(x, positions)
        if self.concatenate:
            return torch.cat([x, encoding.expand(x.shape[0], -1, -1)], dim=-1)
        return x + encoding
