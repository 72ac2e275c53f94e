"""What every trainer is told, and what an update costs. Imports nothing but Python."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LABEL_SMOOTHING = 0.1
ADAM_BETAS = (0.9, 0.98)
ADAM_EPSILON = 1e-9
WARMUP_STEPS = 400
"""Of the paper's schedule (Equation 3); short, so that the loss moves within a test."""

PAD, START, END, UNKNOWN = range(4)
"""headwise's special tokens; the batches are made of its numbers."""


@dataclass(frozen=True)
class Size:
    """An architecture, in the paper's terms."""

    layers: int
    d_model: int
    d_ff: int
    num_heads: int
    dropout: float


SIZES = {
    "tiny": Size(4, 128, 256, 4, 0.3),
    "base": Size(6, 512, 2048, 8, 0.1),
}

BIG = Size(6, 1024, 4096, 16, 0.3)
"""Too large to be timed on two cores; see training_gpu.py."""

PRECISIONS = ("float32", "bf16")

PLACES = ("usual", "equal")
"""Where dropout stands: where each trainer has it by itself, or for all of them only in
sub-layer outputs and embeddings, as in the paper (Section 5.4)."""


@dataclass(frozen=True)
class Setup:
    """What one process trains."""

    size: Size
    vocabulary: int
    precision: str
    places: str
    path: str
    """For headwise only: fast, or readable, the plain twin of each part of that."""

    folder: str
    """Where the batches, and the corpus that they were made from, are."""

    seed: int = 1
    device: str = "cpu"
    compiled: bool = False
    """For the plain loop only: whether torch compiles its model."""

    @property
    def is_bf16(self) -> bool:
        """Whether products are to be made in bfloat16."""
        return self.precision == "bf16"


def learning_rate(step: int, d_model: int) -> float:
    """Return the rate of update ``step``, counted from 1 (Equation 3)."""
    return float(d_model**-0.5 * min(step**-0.5, step * WARMUP_STEPS**-1.5))


def products(size: Size, vocabulary: int, pairs: Iterable[tuple[int, int]]) -> int:
    """Count floating-point operations of the matrix products of an update.

    ``pairs`` are lengths (source, target) with END, without padding: what a padded
    place costs is no work done. A product of n x k by k x m counts 2 n k m, the way
    back twice the way there. Attention of a target to itself counts only what it may
    look at; element-wise work (softmax, dropout, norms, Adam) counts nothing.
    """
    d, ff, layers = size.d_model, size.d_ff, size.layers
    multiplications = 0
    for s, t in pairs:
        encoder = s * (4 * d * d + 2 * d * ff) + 2 * s * s * d
        decoder = t * (6 * d * d + 2 * d * ff) + s * 2 * d * d
        decoder += t * (t + 1) * d + 2 * s * t * d
        multiplications += layers * (encoder + decoder) + t * d * vocabulary
    return 2 * 3 * multiplications
