"""Several sentences in a row: how training goes where shapes must not change.

What is compiled is compiled for the shapes it has seen. So sentences stand in rows of
one length, as many to a row as go in, and always as many rows. The readable twin is
:meth:`Transformer.decode`, which has a row for each sentence.

Letters used for sizes in this file:

    R  rows      S  places of a row of the source      L  places of a row of the target
    D  model width      Q  places that ask             K  places that are asked
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.model.masks import to_the_past
from headwise.model.positions import Places
from headwise.model.transformer import Transformer

BlockCall = Callable[..., Any]
"""A block and its inputs, to what comes out of it."""


@dataclass(frozen=True)
class Rows:
    """One side of sentences that share rows; filler stands where none is."""

    tokens: Int[Tensor, "R L"]

    sentences: Int[Tensor, "R L"]
    """Number of the sentence that a token is of, the same on both sides; filler: 0."""

    places: Places


def within_sentences(asking: Rows, asked: Rows) -> Bool[Tensor, "R 1 Q K"]:
    """Let each token look at its own sentence, and filler at everything.

    What nobody reads may look at anything, but something it must look at.
    """
    same = asking.sentences[:, :, None] == asked.sentences[:, None, :]
    is_filler = asking.sentences[:, :, None] == 0
    return (same | is_filler)[:, None]


def decode_rows(
    model: Transformer, source: Rows, target: Rows, *, call: BlockCall | None = None
) -> Float[Tensor, "R L D"]:
    """Return the top of the decoder for sentences that share rows.

    ``call`` runs each block in the place of ``Encoder.forward`` and
    ``Decoder.forward``.
    """
    past = to_the_past(target.tokens.shape[1], target.tokens.device)
    x = model.enter_encoder(model.source_embedding(source.tokens), source.places)
    read, write = within_sentences(source, source), within_sentences(target, target)
    if call is None:
        x = model.encoder(x, read)
    else:
        for block in model.encoder.blocks:
            x = call(block, x, read)
        x = model.encoder.last_norm(x)
    state = model.decoder.read(x, within_sentences(target, source))
    x = model.enter_decoder(model.target_embedding(target.tokens), target.places)
    if call is None:
        x = model.decoder(x, state, write & past)
    else:
        for block, cross_kv in zip(model.decoder.blocks, state.cross_kv, strict=True):
            x = call(block, x, cross_kv, write & past, state.cross_may_attend)
        x = model.decoder.last_norm(x)
    out: Tensor = x
    return out
