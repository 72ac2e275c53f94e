"""The positional encodings of a model, beside what they are compared to: binary digits.

Letters used for sizes in this file:

    L  positions of the longer of source and decoder input
    P  channels of an encoding, of rotary positions d_k
    N  binary digits
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headwise.errors import UsageError
from headwise.inspection.token_pair import TokenPair
from headwise.model.config import PositionName, TransformerConfig
from headwise.model.config_checks import RECURRENT
from headwise.model.positions import LONGEST_WAVE, AddPositions, LearnedPositions
from headwise.model.rotary_positions import RotaryPositions
from headwise.model.sequence_model import SequenceModel


@dataclass(frozen=True, eq=False)
class Positions:
    """What tells the positions of a text apart."""

    kind: PositionName
    source: tuple[str, ...]
    decoder_input: tuple[str, ...]

    encodings: Tensor
    """[L P]: what is added to embeddings, or concatenated; of rotary positions the sine
    and cosine of the angles by which queries and keys are turned. Without positional
    encodings [0 0]."""

    decoder_encodings: Tensor | None
    """[L P], those of the decoder, if it has a learned table of its own."""

    wavelengths: tuple[float, ...] | None
    """Positions after which each channel repeats itself; None if nothing does."""

    binary: Tensor
    """[L N], each position as a binary number, its lowest digit first: digit i repeats
    itself after 2^(i+1) positions, as sinusoids do after longer and longer waves."""


@torch.no_grad()
def positions_of(model: nn.Module, pair: TokenPair) -> Positions:
    """Return the positional encodings of the positions of ``pair``.

    Raises ``UsageError`` for a model whose positions are not encoded but come one after
    the other, such as a recurrent one.
    """
    config = _config(model)
    if config.kind in RECURRENT:
        raise UsageError(
            f"a model of kind {config.kind!r} has no positional encodings: it reads "
            "one token after the other"
        )
    length = max(len(pair.source), len(pair.decoder_input))
    like = next(model.parameters())
    tables: list[Tensor] = []
    if config.positions == "rotary":
        (rotary, *_) = (x for x in model.modules() if isinstance(x, RotaryPositions))
        tables = [rotary.up_to(length, like)]
    elif config.positions != "none":
        schemes = [x.scheme for x in model.modules() if isinstance(x, AddPositions)]
        if not isinstance(schemes[0], LearnedPositions):
            schemes = schemes[:1]  # a formula is the same in encoder and decoder
        empty = like.new_empty(1, length, 0)
        tables = [each(empty, 0).detach() for each in schemes if each]
    encodings = tables[0] if tables else torch.zeros(0, 0)
    return Positions(
        config.positions,
        pair.source_pieces,
        pair.decoder_pieces,
        encodings,
        tables[1] if len(tables) > 1 else None,
        wavelengths(config.positions, encodings.shape[1]),
        binary_digits(length),
    )


def wavelengths(kind: PositionName, width: int) -> tuple[float, ...] | None:
    """Return the wavelength of each of ``width`` channels, in positions (Section 3.5).

    That of channels 2i and 2i+1 is 2π · 10000^(2i / width).
    """
    if kind in ("learned", "none"):
        return None
    of_pairs = [
        2 * math.pi * LONGEST_WAVE ** (even / width) for even in range(0, width, 2)
    ]
    if kind == "sinusoidal_halves":
        return (*of_pairs, *of_pairs)
    return tuple(each for each in of_pairs for _ in range(2))


def binary_digits(count: int) -> Tensor:
    """Return the numbers below ``count`` as digits 0 and 1, the lowest first, [L N]."""
    digits = max(1, (count - 1).bit_length())
    return torch.arange(count)[:, None] >> torch.arange(digits) & 1


def _config(model: nn.Module) -> TransformerConfig:
    """Return the architecture of the model inside of its head."""
    return next(x.config for x in model.modules() if isinstance(x, SequenceModel))
