"""Cross-attention weights: per step for the coverage penalty, or of whole outputs.

Letters used for sizes: R rows, N decoder blocks, H heads, T target and S source
positions, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headwise.backends.pytorch.uncached_decoder import UncachedState
from headwise.errors import UsageError
from headwise.model.attention_hooks import AttentionRecord, record_attention_weights
from headwise.model.encoder_decoder import EncoderDecoder


class CoverageDecoder:
    """A decoder that records its cross-attention, for the coverage penalty.

    Slower than others, so only used with that penalty. ``decoder`` is ``model`` itself,
    or the uncached decoder that runs it.
    """

    def __init__(self, model: EncoderDecoder, decoder: Any) -> None:
        self.model = model
        self.decoder = decoder

    def start(self, source: Tensor, source_is_real: Tensor) -> Any:
        """Encode the sources [R S]."""
        return self.decoder.start(source, source_is_real)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Append ``tokens`` [R]; return the logits [R V] of the next token."""
        logits, newer = self.decoder.step(tokens, state)
        return logits, newer

    def step_with_attention(
        self, tokens: Tensor, state: Any
    ) -> tuple[Tensor, Tensor, Any]:
        """Run ``step``; return the mean [R S] over all blocks and heads too."""
        position = state.position if isinstance(state, UncachedState) else 0
        with record_attention_weights(self.model) as record:
            logits, newer = self.decoder.step(tokens, state)
        weights = stack_cross_attention(record)  # R N H T S
        return logits, weights[:, :, :, position].mean((1, 2)), newer


def stack_cross_attention(record: AttentionRecord) -> Tensor:
    """Return the recorded weights [R, N, H, T, S] of all cross-attention layers.

    Raises ``UsageError`` if there are none.
    """
    names = [name for name in record if name.endswith(".cross_attention")]
    if not names:
        raise UsageError(
            "this model has no attention to the source (model.recurrent_attention = "
            "'none'), so that nothing aligns its outputs"
        )
    return torch.stack([record[name][0] for name in names], dim=1)
