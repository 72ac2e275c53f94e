"""Encoder-decoders that read any number of target tokens from a state onwards.

So the whole target in training and one token in decoding are the same code: what a
state is, and how to continue, is all that a recurrent or convolutional model adds.

Letters used for sizes: B batch rows, S source positions, L target positions, D model
width, V target vocabulary.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.model.encoder_decoder import EncoderDecoder


class StatefulEncoderDecoder(EncoderDecoder):
    """Base class: ``decode`` and ``step`` by ``start`` and ``continue_target``."""

    @abstractmethod
    def continue_target(
        self, tokens: Int[Tensor, "B L"], state: Any
    ) -> tuple[Float[Tensor, "B L D"], Any]:
        """Append tokens to every row; return the decoder's outputs and the state."""

    def decode(
        self,
        source: Int[Tensor, "B S"],
        target: Int[Tensor, "B L"],
        source_is_real: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B L D"]:
        """Return the output of the decoder: ``forward`` up to the "Linear" box."""
        out, _ = self.continue_target(target, self.start(source, source_is_real))
        return out

    def step(
        self, tokens: Int[Tensor, " B"], state: Any
    ) -> tuple[Float[Tensor, "B V"], Any]:
        """Append one token to every row; return the logits of the next one."""
        out, state = self.continue_target(tokens[:, None], state)
        return self.logits(out[:, 0]), state
