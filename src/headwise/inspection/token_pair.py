"""The tokens that a model is run on: source and target, or one text alone.

Letters used for sizes: S source positions, T target positions, D model width; each has
END as its last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headwise.errors import DataError, UsageError
from headwise.model.decoder_only import DecoderOnly
from headwise.model.encoder_decoder import EncoderDecoder
from headwise.model.encoder_only import EncoderOnly
from headwise.model.transformer import Transformer
from headwise.text.tokenizer import TokenizerPair
from headwise.text.vocabulary import END, START


@dataclass(frozen=True, slots=True)
class TokenPair:
    """A source and its target as tokens, END last in both.

    Of an encoder alone the target is empty, of a decoder alone the source.
    """

    source: tuple[int, ...]
    target: tuple[int, ...]
    source_pieces: tuple[str, ...]
    target_pieces: tuple[str, ...]
    start_piece: str

    @property
    def decoder_input(self) -> tuple[int, ...]:
        """The target shifted right: position t predicts token t of the target."""
        return (START, *self.target[:-1]) if self.target else ()

    @property
    def decoder_pieces(self) -> tuple[str, ...]:
        """The pieces of the decoder input."""
        if not self.target:
            return ()
        return (self.start_piece, *self.target_pieces[:-1])


def make_pair(
    tokenizers: TokenizerPair, source: Sequence[int], target: Sequence[int] | None
) -> TokenPair:
    """Return tokens, given without END, as a pair; None: there is no such side."""
    of_source, of_target = tokenizers.source, tokenizers.target
    source_ids = (*source, END)
    target_ids = () if target is None else (*target, END)
    return TokenPair(
        source_ids,
        target_ids,
        tuple(of_source.pieces(source_ids)),
        tuple(of_target.pieces(target_ids)),
        *of_target.pieces([START]),
    )


def text_for_decoder(tokenizers: TokenizerPair, text: Sequence[int]) -> TokenPair:
    """Return the text of a decoder alone, tokens without END, as a target."""
    ids = (*text, END)
    pieces = tuple(tokenizers.target.pieces(ids))
    return TokenPair((), ids, (), pieces, *tokenizers.target.pieces([START]))


def run_model(model: nn.Module, pair: TokenPair) -> Tensor:
    """Run the stacks of ``model`` on one pair; return the last one's output [1 L D].

    Of a model with an encoder or a decoder alone, that is run, without its head.
    """
    device = next(model.parameters()).device
    source = torch.tensor([pair.source], device=device, dtype=torch.long)
    target = torch.tensor([pair.decoder_input], device=device, dtype=torch.long)
    for module in model.modules():
        if isinstance(module, EncoderDecoder):
            return module.decode(source, target, torch.ones_like(source).bool())
        if isinstance(module, EncoderOnly):
            return module.encode(source, torch.ones_like(source).bool())
        if isinstance(module, DecoderOnly):
            return module.decode(target)
    raise UsageError(
        f"a {type(model).__name__} reads no text, so there are no words to look at; "
        "models of translation, classification, tagging and language can be inspected"
    )


def require_transformer(model: nn.Module, what: str) -> Transformer:
    """Return ``model`` if it is an encoder-decoder Transformer over text.

    Raises ``UsageError`` that says what else there is.
    """
    if isinstance(model, Transformer):
        return model
    raise UsageError(
        f"{what} needs an encoder-decoder Transformer, as of translation, not a "
        f"{type(model).__name__}; attention can be shown for models with an encoder or "
        "a decoder alone too"
    )


def require_text(text: str, what: str) -> None:
    """Raise ``DataError`` for a blank text, and for one of several lines."""
    if "\n" in text.strip():
        raise DataError(f"{what} has several lines; give one")
    if not text.strip():
        raise DataError(f"{what} is blank, so there is nothing to look at; give a text")
