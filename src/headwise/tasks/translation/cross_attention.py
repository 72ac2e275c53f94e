"""Where a model looks, step by step and over whole outputs.

Letters used for sizes: R rows, N decoder blocks, H heads, T target and S source
positions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headwise.backends.pytorch.uncached_decoder import UncachedState
from headwise.model.attention_hooks import Seen, attention_seen
from headwise.model.transformer import Transformer


class AttendingModel:
    """A model that notes its cross-attention; slower, so only where it is asked for.

    ``decoder`` is ``model`` itself or something that runs it.
    """

    def __init__(self, model: Transformer, decoder: Any) -> None:
        self.model = model
        self.decoder = decoder

    def start(self, *source: Tensor) -> Any:
        """Read the source."""
        return self.decoder.start(*source)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Write one more token in every row; score what may follow."""
        found: tuple[Tensor, Any] = self.decoder.step(tokens, state)
        return found

    def step_attending(self, tokens: Tensor, state: Any) -> tuple[Tensor, Tensor, Any]:
        """Do as ``step``, and return the mean [R, S] over all blocks and heads."""
        place = state.position if isinstance(state, UncachedState) else 0
        with attention_seen(self.model) as seen:
            logits, newer = self.decoder.step(tokens, state)
        weights = cross_weights(self.model, seen)  # R N H T S
        return logits, weights[:, :, :, place].mean((1, 2)), newer


def cross_weights(model: Transformer, seen: Seen) -> Tensor:
    """Return the weights [R, N, H, T, S] of all boxes between decoder and encoder."""
    names = [
        f"decoder.blocks.{block}.cross_attention"
        for block in range(model.config.decoder_layers)
    ]
    return torch.stack([seen[name][0] for name in names], dim=1)
