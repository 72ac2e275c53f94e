"""The forward pass for torch.compile: several sentences in each row, static shapes.

torch.compile compiles for the shapes it has seen. So sequences are packed
(:mod:`headwise.data.sequence_packing`): rows have one length, as many sentences to a
row as fit, and batches always the same number of rows. The reference is
:meth:`Transformer.decode`, which has a row for each sentence;
``tests/backends/pytorch/test_torch_compile_training.py`` holds both equal.

Letters used for sizes in this file:

    R  rows      S  positions of a source row      L  positions of a target row
    D  model width      Q  query positions         K  key positions
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.data.sequence_packing import PackedBatch
from headwise.model.masks import make_causal_mask
from headwise.model.positions import PositionIds
from headwise.model.transformer import Transformer

BlockCall = Callable[..., Any]
"""Takes a block and its inputs, and returns its output."""


def decode_packed(
    model: Transformer, batch: PackedBatch, *, call: BlockCall | None = None
) -> Float[Tensor, "R L D"]:
    """Return the decoder's output for sentences that share rows.

    ``call`` runs each block, instead of ``Encoder.forward`` and ``Decoder.forward``.
    """
    causal = make_causal_mask(batch.target.shape[1], batch.target.device)
    position_ids = PositionIds(batch.source_position, batch.longest)
    x = model.enter_encoder(model.embed_source(batch.source), position_ids)
    source_mask = block_diagonal_mask(batch.source_pair, batch.source_pair)
    target_mask = block_diagonal_mask(batch.target_pair, batch.target_pair) & causal
    if call is None:
        x = model.encoder(x, source_mask)
    else:
        for block in model.encoder.blocks:
            x = call(block, x, source_mask)
        x = model.encoder.last_norm(x)
    cross_mask = block_diagonal_mask(batch.target_pair, batch.source_pair)
    state = model.decoder.initial_state(x, cross_mask)
    position_ids = PositionIds(batch.target_position, batch.longest)
    x = model.enter_decoder(model.target_embedding(batch.decoder_input), position_ids)
    if call is None:
        x = model.decoder(x, state, target_mask)
    else:
        for block, cross_kv in zip(model.decoder.blocks, state.cross_kv, strict=True):
            x = call(block, x, cross_kv, target_mask, state.cross_mask)
        x = model.decoder.last_norm(x)
    out: Tensor = x
    return out


def block_diagonal_mask(
    query_pairs: Int[Tensor, "R Q"], key_pairs: Int[Tensor, "R K"]
) -> Bool[Tensor, "R 1 Q K"]:
    """Let each token attend to those of its own pair; pairs are numbered from 1.

    Filler (0) attends to everything: its output is unused, but a row without any key
    would be NaN.
    """
    same = query_pairs[:, :, None] == key_pairs[:, None, :]
    is_filler = query_pairs[:, :, None] == 0
    return (same | is_filler)[:, None]
