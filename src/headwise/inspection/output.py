"""How probable an output is, token by token, and what else the model might have said.

Letters used for sizes: T target positions, END's last; V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.evaluation_mode import evaluation_mode
from headwise.inspection.token_pair import TokenPair, run_model
from headwise.model.decoder_only import DecoderOnly
from headwise.model.encoder_decoder import EncoderDecoder
from headwise.text.tokenizer import Tokenizer
from headwise.text.vocabulary import END

POSITIONS_AT_ONCE = 1024
"""Positions whose logits are in memory together."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One token that may come next."""

    piece: str
    token: int
    probability: float


@dataclass(frozen=True, slots=True)
class OutputPosition:
    """One position of an output, given all tokens before it."""

    piece: str
    token: int
    log_probability: float
    rank: int
    """1 for the most probable token; equal ones share a rank."""

    entropy: float
    """Of the distribution over the vocabulary, in nats."""

    alternatives: tuple[Alternative, ...]
    """The most probable tokens, best first, whether or not this is among them."""

    source_position: int | None = None
    """Of a tag or a masked word, the position of the source that it is about."""


@dataclass(frozen=True, slots=True)
class Output:
    """An output, forced or the model's own, as the model sees it."""

    text: str
    source: tuple[str, ...]
    positions: tuple[OutputPosition, ...]
    """Of a text, all tokens, END last; else the label, or each tag or masked word. None
    of a number."""

    log_probability: float | None
    """The sum over the positions; None of a number, which has no probability."""

    tree: str | None = None
    """Of a parser, the tree in brackets that the output is."""


@torch.no_grad()
def output_of(
    model: EncoderDecoder | DecoderOnly,
    pair: TokenPair,
    tokenizer: Tokenizer,
    *,
    count: int = 5,
) -> Output:
    """Return the positions of the target of ``pair`` with ``count`` alternatives.

    Tokens that were given before the output are left out.
    """
    target = pair.target[pair.given :]
    with evaluation_mode(model):
        hidden = run_model(model, pair)[0, pair.given :]
        positions = describe_positions(model, hidden, target, tokenizer, count)
    return Output(
        tokenizer.decode([token for token in target if token != END]),
        pair.source_pieces or pair.target_pieces[: pair.given],
        tuple(positions),
        sum(each.log_probability for each in positions),
        pair.tree,
    )


def describe_positions(
    model: EncoderDecoder | DecoderOnly,
    hidden: Tensor,
    target: Sequence[int],
    tokenizer: Tokenizer,
    count: int,
) -> list[OutputPosition]:
    """Return what the "Linear" box makes of vectors [T D], one for each target token.

    The logits of ``POSITIONS_AT_ONCE`` are in memory together.
    """
    positions: list[OutputPosition] = []
    pieces = tokenizer.pieces
    for first in range(0, len(target), POSITIONS_AT_ONCE):
        part = slice(first, first + POSITIONS_AT_ONCE)
        logits = model.logits(hidden[part])
        log_p = logits.to(torch.promote_types(logits.dtype, torch.float32))
        log_p = log_p.log_softmax(dim=-1)
        positions += positions_of(log_p, target[part], pieces, count)
    return positions


def positions_of(
    log_p: Tensor,
    target: Sequence[int],
    pieces_of: Callable[[Sequence[int]], list[str]],
    count: int,
) -> list[OutputPosition]:
    """Return the positions of log-probabilities [T V].

    ``pieces_of`` names tokens, which are columns.
    """
    chosen = log_p.gather(1, torch.tensor(target, device=log_p.device)[:, None])
    ranks = (log_p > chosen).sum(dim=1) + 1
    entropies = torch.special.entr(log_p.exp()).sum(dim=1)
    best, tokens = log_p.topk(min(count, log_p.shape[1]), dim=1)
    pieces = pieces_of(target)
    return [
        OutputPosition(
            piece,
            token,
            of_token,
            rank,
            entropy,
            tuple(
                Alternative(*each)
                for each in zip(pieces_of(others), others, probabilities, strict=True)
            ),
        )
        for piece, token, of_token, rank, entropy, others, probabilities in zip(
            pieces,
            target,
            chosen[:, 0].tolist(),
            ranks.tolist(),
            entropies.tolist(),
            tokens.tolist(),
            best.exp().tolist(),
            strict=True,
        )
    ]
