"""The logit lens: what each layer of a decoder would say if it were the last.

Nostalgebraist (2020), interpreting GPT: the logit lens. Letters used for sizes:
T target positions, END's last; D model width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from headwise.evaluation_mode import evaluation_mode
from headwise.inspection.hooks import capture_outputs
from headwise.inspection.output import Alternative, OutputPosition, describe_positions
from headwise.inspection.token_pair import TokenPair, run_model
from headwise.model.decoder_only import DecoderOnly
from headwise.model.transformer import Transformer
from headwise.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class LensLayer:
    """What the output says after one layer."""

    layer: int | None
    """From 0; None: the input of the first block, embeddings and positions."""

    positions: tuple[OutputPosition, ...]


@dataclass(frozen=True, slots=True)
class LogitLens:
    """The layers of a decoder, first to last; the last is the model's own output."""

    target: tuple[str, ...]
    layers: tuple[LensLayer, ...]

    def best(self) -> list[list[Alternative]]:
        """Return the most probable token of each layer and position."""
        return [
            [each.alternatives[0] for each in layer.positions] for layer in self.layers
        ]


@torch.no_grad()
def logit_lens(
    model: Transformer | DecoderOnly,
    pair: TokenPair,
    tokenizer: Tokenizer,
    *,
    count: int = 3,
) -> LogitLens:
    """Apply the output matrix to the vectors behind each block of the decoder.

    If pre-norm, what a block passes on is a sum that was never normalized: the layer
    norm at the end of the stack is applied first, as it is to the last block's.
    """
    stack = model.decoder
    modules = {str(number): block for number, block in enumerate(stack.blocks)}
    with (
        evaluation_mode(model),
        capture_outputs({"input": model.enter_decoder, **modules}) as outputs,
    ):
        run_model(model, pair)
    names: Sequence[str] = ["input", *modules]
    return LogitLens(
        pair.target_pieces,
        tuple(
            LensLayer(
                None if name == "input" else int(name),
                tuple(
                    describe_positions(
                        model,
                        cast(Tensor, stack.last_norm(outputs[name][0])),
                        pair.target,
                        tokenizer,
                        count,
                    )
                ),
            )
            for name in names
        ),
    )
