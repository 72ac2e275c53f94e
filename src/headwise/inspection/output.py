"""How probable an output is, token by token, and what else the model might have said.

Letters used for sizes: T target positions, END's last; V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.inspection.hooks import evaluation_mode
from headwise.inspection.token_pair import TokenPair
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


@dataclass(frozen=True, slots=True)
class Output:
    """An output, forced or the model's own, as the model sees it."""

    text: str
    source: tuple[str, ...]
    positions: tuple[OutputPosition, ...]
    """Of all tokens, END last."""

    log_probability: float
    """The sum over the positions."""


@torch.no_grad()
def output_of(
    model: EncoderDecoder, pair: TokenPair, tokenizer: Tokenizer, *, count: int = 5
) -> Output:
    """Return every position of the target of ``pair`` with ``count`` alternatives."""
    device = model.device
    source = torch.tensor([pair.source], device=device)
    inputs = torch.tensor([pair.decoder_input], device=device)
    with evaluation_mode(model):
        hidden = model.decode(source, inputs, torch.ones_like(source).bool())[0]
        positions = describe_positions(model, hidden, pair.target, tokenizer, count)
    tokens = [token for token in pair.target if token != END]
    return Output(
        tokenizer.decode(tokens),
        pair.source_pieces,
        tuple(positions),
        sum(each.log_probability for each in positions),
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
    for first in range(0, len(target), POSITIONS_AT_ONCE):
        part = slice(first, first + POSITIONS_AT_ONCE)
        logits = model.logits(hidden[part])
        log_p = logits.to(torch.promote_types(logits.dtype, torch.float32))
        log_p = log_p.log_softmax(dim=-1)
        positions += _positions(log_p, target[part], tokenizer, count)
    return positions


def _positions(
    log_p: Tensor, target: Sequence[int], tokenizer: Tokenizer, count: int
) -> list[OutputPosition]:
    """Return the positions of log-probabilities [T V]."""
    chosen = log_p.gather(1, torch.tensor(target, device=log_p.device)[:, None])
    ranks = (log_p > chosen).sum(dim=1) + 1
    entropies = torch.special.entr(log_p.exp()).sum(dim=1)
    best, tokens = log_p.topk(min(count, log_p.shape[1]), dim=1)
    pieces = tokenizer.pieces(target)
    return [
        OutputPosition(
            piece,
            token,
            of_token,
            rank,
            entropy,
            tuple(
                Alternative(*each)
                for each in zip(
                    tokenizer.pieces(others), others, probabilities, strict=True
                )
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
