"""The embeddings of the tokens of a text, their neighbours, and a map of both.

Letters used for sizes: V vocabulary, E embedding width, P points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.errors import UsageError
from headwise.inspection.token_pair import TokenPair
from headwise.model.decoder_only import DecoderOnly
from headwise.model.embeddings import TokenEmbedding
from headwise.model.encoder_decoder import EncoderDecoder
from headwise.model.encoder_only import EncoderOnly
from headwise.text.tokenizer import Tokenizer, TokenizerPair
from headwise.text.vocabulary import SPECIALS

Side = Literal["source", "target", "neighbour"]

ROWS_AT_ONCE = 256
"""Tokens whose similarities to the whole vocabulary are in memory together."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A piece of the vocabulary whose embedding points the same way."""

    piece: str
    token: int
    cosine: float
    """Cosine similarity, from -1 to 1."""


@dataclass(frozen=True, slots=True)
class EmbeddingPoint:
    """One token on the map."""

    piece: str
    token: int
    side: Side

    index: int | None
    """Position in the source or target; None of a neighbour."""

    x: float
    y: float

    norm: float
    """Length of the embedding as it is stored, before the factor √d_model."""

    nearest: tuple[Neighbour, ...]
    """Most similar first; none of a neighbour."""


@dataclass(frozen=True, slots=True)
class Embeddings:
    """The tokens of source and target, and their nearest ones, in two dimensions."""

    points: tuple[EmbeddingPoint, ...]

    explained: tuple[float, float]
    """Share of the variance of the points along x and y: the first two principal
    components of the distinct embeddings."""


@torch.no_grad()
def embeddings_of(
    model: nn.Module, pair: TokenPair, tokenizers: TokenizerPair, *, count: int = 5
) -> Embeddings:
    """Return the embeddings of ``pair`` with ``count`` neighbours of each token.

    Neighbours are of the same vocabulary, other tokens than the special ones. Raises
    ``UsageError`` for a model without an embedding of tokens.
    """
    found: list[_Token] = []
    if pair.source:
        embedding = _embedding(model, "source")
        found += _tokens("source", embedding, tokenizers.source, pair.source, count)
    if pair.target:
        embedding = _embedding(model, "target")
        found += _tokens("target", embedding, tokenizers.target, pair.target, count)
    shown = {each.key for each in found}
    for each in found[:]:
        for other in each.nearest:
            neighbour = replace(
                each,
                side="neighbour",
                piece=other.piece,
                token=other.token,
                index=None,
                nearest=(),
            )
            if neighbour.key not in shown:
                shown.add(neighbour.key)
                found.append(neighbour)
    vectors = {each.key: each.vector for each in found}
    places, explained = principal_components(torch.stack([*vectors.values()]))
    place_of = dict(zip(vectors, places.tolist(), strict=True))
    points = []
    for each in found:
        x, y = place_of[each.key]
        norm = float(each.vector.double().norm())
        of_token = each.piece, each.token, each.side, each.index
        points.append(EmbeddingPoint(*of_token, x, y, norm, each.nearest))
    return Embeddings(tuple(points), explained)


@dataclass(frozen=True, eq=False, slots=True)
class _Token:
    """A token with the embedding that it is looked up in."""

    side: Side
    embedding: TokenEmbedding
    piece: str
    token: int
    index: int | None
    nearest: tuple[Neighbour, ...]

    @property
    def key(self) -> tuple[int, int]:
        """The same for the same vector: source and target may share embeddings."""
        return id(self.embedding), self.token

    @property
    def vector(self) -> Tensor:
        """The embedding [E] as it is stored."""
        return self.embedding.vectors[self.token]


def _tokens(
    side: Side,
    embedding: TokenEmbedding,
    tokenizer: Tokenizer,
    tokens: Sequence[int],
    count: int,
) -> list[_Token]:
    nearest = nearest_tokens(embedding.vectors, tokens, count)
    named = {token: _named(nearest[token], tokenizer) for token in nearest}
    return [
        _Token(side, embedding, piece, token, index, named[token])
        for index, (piece, token) in enumerate(
            zip(tokenizer.pieces(tokens), tokens, strict=True)
        )
    ]


def nearest_tokens(
    vectors: Tensor, tokens: Sequence[int], count: int
) -> dict[int, list[tuple[int, float]]]:
    """Return token -> the ``count`` tokens of [V E] with the highest cosine, and it.

    The token itself and special tokens are not among them.
    """
    unit = F.normalize(vectors.double(), dim=1)
    distinct = list(dict.fromkeys(tokens))
    found: dict[int, list[tuple[int, float]]] = {}
    for first in range(0, len(distinct), ROWS_AT_ONCE):
        some = torch.tensor(distinct[first : first + ROWS_AT_ONCE], device=unit.device)
        cosines = unit[some] @ unit.T
        cosines[:, : len(SPECIALS)] = -math.inf
        cosines[torch.arange(len(some)), some] = -math.inf
        best, ids = cosines.topk(min(count, len(unit)), dim=1)
        for token, row, values in zip(
            some.tolist(), ids.tolist(), best.tolist(), strict=True
        ):
            pairs = zip(row, values, strict=True)
            found[token] = [pair for pair in pairs if pair[1] > -math.inf]
    return found


def principal_components(vectors: Tensor) -> tuple[Tensor, tuple[float, float]]:
    """Return points [P E] along their first two principal components, [P 2].

    And the shares of the variance that these have. The sign of a component is free:
    here its largest weight is positive.
    """
    centred = vectors.double() - vectors.double().mean(dim=0)
    left, values, right = torch.linalg.svd(centred, full_matrices=False)
    rows = torch.arange(len(right), device=right.device)
    signs = right[rows, right.abs().argmax(dim=1)].sign()
    projected = F.pad(left * values * signs, (0, 2))[:, :2]
    variances = F.pad(values.square(), (0, 2))
    first, second, *_ = (variances / variances.sum().clamp(min=1e-300)).tolist()
    return projected, (first, second)


def _named(
    nearest: Sequence[tuple[int, float]], tokenizer: Tokenizer
) -> tuple[Neighbour, ...]:
    pieces = tokenizer.pieces([token for token, _ in nearest])
    return tuple(
        Neighbour(piece, token, cosine)
        for piece, (token, cosine) in zip(pieces, nearest, strict=True)
    )


def _embedding(model: nn.Module, side: Literal["source", "target"]) -> TokenEmbedding:
    for module in model.modules():
        if isinstance(module, EncoderDecoder):
            source = side == "source"
            return module.source_embedding if source else module.target_embedding
        if isinstance(module, EncoderOnly | DecoderOnly):
            return module.embedding
    raise UsageError(f"a {type(model).__name__} has no embeddings of tokens")
