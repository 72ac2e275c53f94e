"""The weights of a model as arrays, which ``weights.py`` packs for the kernels.

They come from a model in memory (``arrays_of_model.py``) or, without torch, from the
file of a model folder (``arrays_of_file.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from headwise.backends.native.arrays import Array
from headwise.model.config import TransformerConfig

AttentionKind = Literal["self", "causal", "cross"]


@dataclass(frozen=True)
class LinearArrays:
    """A linear layer, x -> x Wᵀ + b."""

    weight: Array
    """W, [outputs, inputs]."""
    bias: Array | None
    """b, [outputs]."""


@dataclass(frozen=True)
class NormArrays:
    """A layer normalization."""

    weight: Array
    bias: Array
    eps: float


@dataclass(frozen=True)
class AttentionArrays:
    """The projections of an attention sublayer, and its "Add & Norm"."""

    kind: AttentionKind
    queries: LinearArrays
    keys: LinearArrays
    values: LinearArrays
    output: LinearArrays
    norm: NormArrays | None
    residual_scale: float
    """What x is multiplied by in "Add & Norm": 1 but for DeepNorm."""


@dataclass(frozen=True)
class FeedForwardArrays:
    """The linear layers of a feed-forward sublayer, and its "Add & Norm"."""

    expand: LinearArrays
    project: LinearArrays
    norm: NormArrays | None
    residual_scale: float


SublayerArrays = AttentionArrays | FeedForwardArrays


@dataclass(frozen=True)
class PositionTables:
    """What position encodings are computed from: all that is needed after packing."""

    encodings: Callable[[int], Array]
    """Number of positions -> their encodings, as they are added to embeddings."""
    rotations: Callable[[int], Array | None]
    """Number of positions -> the table of rotary positions; None if there are none."""
    max_positions: int | None
    """Positions that there are encodings of; None: any number."""


@dataclass(frozen=True)
class StackArrays:
    """One stack: its input, its sublayers in the order in which they run, its end."""

    table: Array | None
    """Embeddings [V E]; None if the vectors come with each batch."""
    scale: float
    """What embeddings are multiplied by."""
    positions: PositionTables
    norm: NormArrays | None
    sublayers: Sequence[SublayerArrays]
    last_norm: NormArrays | None


@dataclass(frozen=True)
class ModelArrays:
    """All that the kernels read of a model; a stack that it does not have is None."""

    config: TransformerConfig
    window: int | None
    """Tokens that a decoder alone attends to; None: all."""
    encoder: StackArrays | None
    decoder: StackArrays | None
    output: LinearArrays | None
