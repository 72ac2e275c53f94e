"""The two simplest encodings of a position, which Section 3.5 improves on.

The number of a position grows without bound; divided by the length it is bounded, but
then the distance of neighbours depends on the length. Both are added to every channel
of an embedding, or stand beside it (``position_join = "concatenate"``).

Letters used for sizes: B batch rows, L positions, E channels of an embedding,
P channels of an encoding.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headwise.errors import ModelError


class PositionNumbers(nn.Module):
    """PE(pos) = pos in every channel: no parameters, and no maximum length."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Float[Tensor, "B L E"], start: int) -> Float[Tensor, "L P"]:
        """Return the encodings of positions ``start`` to ``start + L - 1``."""
        numbers = torch.arange(start, start + x.shape[1], device=x.device)
        return numbers.to(x.dtype)[:, None].expand(-1, self.width)


class PositionFractions(nn.Module):
    """PE(pos) = pos / (T - 1) in every channel, from 0 to 1.

    T is the length of the text in an encoder. A decoder does not know how long its text
    will be, and with the length of the target in training each position would tell how
    much is still to come: there T is ``longest``, the same for all texts.
    """

    def __init__(self, longest: int, width: int) -> None:
        super().__init__()
        self.longest = longest
        self.width = width

    def forward(self, x: Float[Tensor, "B L E"], start: int) -> Float[Tensor, "L P"]:
        """Return the encodings in a decoder, of positions from ``start`` on.

        Raises ``ModelError`` for positions beyond ``longest``.
        """
        end = start + x.shape[1]
        if end > self.longest:
            raise ModelError(
                f"position {end} is beyond {self.longest} (max_positions), by which "
                "positions = 'fraction' divides in a decoder; split the text, or train "
                "with a larger max_positions or positions = 'sinusoidal'"
            )
        numbers = torch.arange(start, end, device=x.device)
        return self._divided(numbers, max(1, self.longest - 1), x)

    def of_texts(
        self, x: Float[Tensor, "B L E"], is_real: Bool[Tensor, "B L"]
    ) -> Float[Tensor, "B L P"]:
        """Return the encodings in an encoder; each text has the length of its tokens.

        What padding gets has no meaning. A text of one token has the fraction 0.
        """
        numbers = torch.arange(x.shape[1], device=x.device)
        lengths = is_real.sum(dim=1, keepdim=True)
        return self._divided(numbers, (lengths - 1).clamp(min=1), x)

    def _divided(self, numbers: Tensor, by: int | Tensor, x: Tensor) -> Tensor:
        fractions = (numbers / by).to(x.dtype)
        return fractions[..., None].expand(*fractions.shape, self.width)
