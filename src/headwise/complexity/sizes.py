"""The sizes of layers, and those at which layers are compared. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Size = Literal["length", "width", "kernel", "window"]

SYMBOLS: Mapping[Size, str] = {
    "length": "n",
    "width": "d",
    "kernel": "k",
    "window": "r",
}
"""Each size and its letter in Table 1."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of a layer and of its input."""

    length: int
    """Positions of a sequence (n)."""

    width: int
    """Channels of a position (d)."""

    kernel: int
    """Positions that a convolution reads (k), an odd number."""

    window: int
    """Positions that restricted attention reads (r), an odd number."""

    batch: int = 1
    """Sequences."""


MIN_VALUES = 3
"""With fewer sizes the exponent of a power law has no confidence interval."""


FLOAT_BYTES = 4
RECURRENT_MATRICES = 16
"""Matrices of d² numbers in the three recurrent layers together."""


@dataclass(frozen=True, kw_only=True)
class ComplexitySettings:
    """What is measured. Of each size there are values in ascending order."""

    lengths: Sequence[int] = (128, 256, 512, 1024, 2048)
    widths: Sequence[int] = (128, 192, 256, 384, 512, 768)
    kernels: Sequence[int] = (3, 5, 7, 11, 15)
    windows: Sequence[int] = (33, 65, 129, 193, 257)

    batch: int = 8
    """Sequences in a batch."""

    threads: int = 1
    """CPU threads."""

    seconds: float = 120.0
    """About how long times are measured."""

    middle: Sizes = field(init=False)
    """The middle value of each: where it is fixed while another size varies."""

    def __post_init__(self) -> None:
        middle = {size: middle_of(self.values_of(size)) for size in SYMBOLS}
        object.__setattr__(self, "middle", Sizes(**middle, batch=self.batch))

    @property
    def longest(self) -> int:
        """The longest sequence of all, with which crossovers are looked for."""
        return 2 * self.lengths[-1]

    @property
    def most_bytes(self) -> int:
        """About the most memory that is held at once.

        Three matrices of n² numbers for each sequence in self-attention, and the
        weights of all layers at the largest width.
        """
        attention = 3 * self.batch * self.longest**2
        weights = (RECURRENT_MATRICES + 2 * self.kernels[-1]) * self.widths[-1] ** 2
        return FLOAT_BYTES * (attention + weights)

    def values_of(self, size: Size) -> Sequence[int]:
        """Return the values of a size."""
        values: Sequence[int] = getattr(self, f"{size}s")
        return values


def middle_of(values: Sequence[int]) -> int:
    """Return the middle value, the lower one of two."""
    return values[(len(values) - 1) // 2]
