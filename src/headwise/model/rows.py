"""Several sentences in a row: how training goes where shapes must not change.

What is compiled is compiled for the shapes it has seen. So sentences stand in rows of
one length, as many to a row as go in, and always as many rows. The readable twin is
:meth:`Transformer.decode`, which has a row for each sentence.

Letters used for sizes in this file:

    R  rows      S  places of a row of the source      L  places of a row of the target
    D  model width      Q  places that ask             K  places that are asked
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.model.masks import to_the_past
from headwise.model.positions import Places
from headwise.model.recompute import BlockCall, plainly
from headwise.model.transformer import Transformer


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
    model: Transformer, source: Rows, target: Rows, *, call: BlockCall = plainly
) -> Float[Tensor, "R L D"]:
    """Return the top of the decoder for sentences that share rows.

    ``call`` goes through each block.
    """
    past = to_the_past(target.tokens.shape[1], target.tokens.device)
    x = model.enter_encoder(model.source_embedding(source.tokens), source.places)
    encoded = model.encoder(x, within_sentences(source, source), call=call)
    state = model.decoder.read(encoded, within_sentences(target, source))
    x = model.enter_decoder(model.target_embedding(target.tokens), target.places)
    own = within_sentences(target, target) & past
    out: Tensor = model.decoder(x, state, own, call=call)
    return out
