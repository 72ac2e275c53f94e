"""The forward pass with sequence packing: several sentences a row, static shapes.

torch.compile compiles for the shapes it has seen. So rows have one length, as many
sentences to a row as fit, and batches always the same number of rows. The reference is
:meth:`Transformer.decode`, which has a row for each sentence;
``tests/tasks/translation/test_torch_compile_loss.py`` holds both equal.

Letters used for sizes in this file:

    R  rows      S  positions of a source row      L  positions of a target row
    D  model width      Q  query positions         K  key positions
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.model.masks import make_causal_mask
from headwise.model.positions import PositionIds
from headwise.model.transformer import Transformer

BlockCall = Callable[..., Any]
"""Takes a block and its inputs, and returns its output."""


@dataclass(frozen=True)
class PackedRows:
    """One side of sentences that share rows; unused positions hold filler."""

    tokens: Int[Tensor, "R L"]

    sentences: Int[Tensor, "R L"]
    """Number of a token's sentence, the same on both sides; filler: 0."""

    places: PositionIds


def sentence_mask(queries: PackedRows, keys: PackedRows) -> Bool[Tensor, "R 1 Q K"]:
    """Return the block-diagonal mask: each token attends to its own sentence.

    Filler attends to everything: its output is unused, but a row without any key would
    be NaN.
    """
    same = queries.sentences[:, :, None] == keys.sentences[:, None, :]
    is_filler = queries.sentences[:, :, None] == 0
    return (same | is_filler)[:, None]


def decode_rows(
    model: Transformer,
    source: PackedRows,
    target: PackedRows,
    *,
    call: BlockCall | None = None,
) -> Float[Tensor, "R L D"]:
    """Return the decoder's output for sentences that share rows.

    ``call`` runs each block, instead of ``Encoder.forward`` and ``Decoder.forward``.
    """
    causal = make_causal_mask(target.tokens.shape[1], target.tokens.device)
    x = model.enter_encoder(model.source_embedding(source.tokens), source.places)
    source_mask = sentence_mask(source, source)
    target_mask = sentence_mask(target, target) & causal
    if call is None:
        x = model.encoder(x, source_mask)
    else:
        for block in model.encoder.blocks:
            x = call(block, x, source_mask)
        x = model.encoder.last_norm(x)
    state = model.decoder.initial_state(x, sentence_mask(target, source))
    x = model.enter_decoder(model.target_embedding(target.tokens), target.places)
    if call is None:
        x = model.decoder(x, state, target_mask)
    else:
        for block, cross_kv in zip(model.decoder.blocks, state.cross_kv, strict=True):
            x = call(block, x, cross_kv, target_mask, state.cross_mask)
        x = model.decoder.last_norm(x)
    out: Tensor = x
    return out
