"""The tokens that a model is run on: source and target, or one text alone.

Letters used for sizes: S source positions, T target positions, R rows, D model width;
of a picture, P values of a patch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwise.errors import UsageError
from headwise.inspection.patch_grid import PatchGrid
from headwise.model.decoder_only import DecoderOnly
from headwise.model.encoder_decoder import EncoderDecoder
from headwise.model.encoder_only import EncoderOnly
from headwise.model.picture_encoder import PictureEncoder
from headwise.model.transformer import Transformer
from headwise.text.tokenizer import TokenizerPair
from headwise.text.vocabulary import END, START

CLASS_PIECE = "[class]"
"""The trained token before the patches of a picture that is classified."""


@dataclass(frozen=True, slots=True)
class TokenPair:
    """A source and its target as tokens, as the model reads them.

    Of an encoder alone the target is empty, of a decoder alone the source.
    """

    source: tuple[int, ...]
    target: tuple[int, ...]
    source_pieces: tuple[str, ...]
    target_pieces: tuple[str, ...]
    start_piece: str

    given: int = 0
    """Tokens of the target that came before the output, such as those of a prompt."""

    answer: tuple[int, ...] = ()
    """The output of an encoder with a head, as tokens: a label, tags, masked words."""

    answer_positions: tuple[int, ...] = ()
    """The position of the source that each token of ``answer`` is about; none if it is
    about the whole source."""

    tree: str | None = None
    """Of a parser, the tree in brackets that the target is."""

    patches: PatchGrid | None = None
    """Of a picture, whose patches have no tokens: ``source`` has zeros."""

    values: Tensor | None = field(default=None, compare=False)
    """[S P], those of the patches."""

    def source_rows(self, device: torch.device, rows: int = 1) -> Tensor:
        """Return the source R times, [R S]; of a picture its patches [R S P]."""
        if self.values is not None:
            return self.values.to(device).expand(rows, -1, -1)
        return torch.tensor([self.source] * rows, device=device, dtype=torch.long)

    def input_rows(self, device: torch.device, rows: int = 1) -> Tensor:
        """Return the decoder input R times, [R T]."""
        inputs = [self.decoder_input] * rows
        return torch.tensor(inputs, device=device, dtype=torch.long)

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
    tokenizers: TokenizerPair,
    source: Sequence[int] | None,
    target: Sequence[int] | None,
) -> TokenPair:
    """Return tokens, given without END, as a pair; None: there is no such side."""
    of_source, of_target = tokenizers.source, tokenizers.target
    source_ids = () if source is None else (*source, END)
    target_ids = () if target is None else (*target, END)
    (start_piece,) = of_target.pieces([START])
    return TokenPair(
        source_ids,
        target_ids,
        tuple(of_source.pieces(source_ids)),
        tuple(of_target.pieces(target_ids)),
        start_piece,
    )


def with_patches(
    pair: TokenPair, grid: PatchGrid, patches: NDArray[np.uint8]
) -> TokenPair:
    """Return a pair whose source is a picture, cut into ``patches`` [S P]."""
    pieces = (*([CLASS_PIECE] * grid.first), *grid.pieces)
    return replace(
        pair,
        source=(0,) * len(pieces),
        source_pieces=pieces,
        patches=grid,
        values=torch.from_numpy(patches),
    )


def run_model(model: nn.Module, pair: TokenPair) -> Tensor:
    """Run the stacks of ``model`` on one pair; return the last one's output [1 L D].

    Of a model with an encoder or a decoder alone, that is run, without its head.
    """
    device = next(model.parameters()).device
    source = pair.source_rows(device)
    is_real = source.new_ones(source.shape[:2], dtype=torch.bool)
    for module in model.modules():
        if isinstance(module, EncoderDecoder):
            return module.decode(source, pair.input_rows(device), is_real)
        if isinstance(module, EncoderOnly):
            return module.encode(source, is_real)
        if isinstance(module, PictureEncoder):
            out: Tensor = module(source, is_real)
            return out
        if isinstance(module, DecoderOnly):
            return module.decode(pair.input_rows(device))
    raise UsageError(
        f"a {type(model).__name__} has none of the stacks of Figure 1, so there is "
        "nothing to look at"
    )


def require_transformer(model: nn.Module, what: str) -> Transformer:
    """Return ``model`` if it is an encoder-decoder Transformer.

    Raises ``UsageError`` for another.
    """
    if isinstance(model, Transformer):
        return model
    raise UsageError(
        f"{what} needs an encoder-decoder Transformer, not a {type(model).__name__}"
    )
