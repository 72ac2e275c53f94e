"""Masked language models: the words that masks hide, or every word hidden in turn.

Letters used for sizes: R rows computed together, S positions, O masks, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from headwise.errors import UsageError
from headwise.inspection.attribution import AttributedOutput
from headwise.inspection.inspected.encoder_only import InspectedChoices
from headwise.inspection.token_pair import TokenPair
from headwise.tasks.masked_language_model.task import MASK
from headwise.text.vocabulary import SPECIALS, START, UNKNOWN


class InspectedMaskedLanguageModel(InspectedChoices):
    """A part for each mask; of a text without one, for each token, masked in turn."""

    first_choice = len(SPECIALS)

    def read(self, text: str) -> TokenPair:
        """Return the text after START, with masks under their own name."""
        tokens, is_mask = self.task.encode_with_masks(text)
        pair = self.as_pair((START, *tokens))
        pieces = [
            MASK if masked else piece
            for piece, masked in zip(pair.source_pieces, (False, *is_mask), strict=True)
        ]
        return replace(pair, source_pieces=tuple(pieces))

    def pair(
        self, text: str, target: str | None, prefix: str, search: Mapping[str, Any]
    ) -> TokenPair:
        """Return a text, and what its masks hide: its own tokens if it has none."""
        self.refuse_target(target, prefix, "what its masks hide")
        if MASK in text:
            return super().pair(text, target, prefix, search)
        pair = self.read(text)
        positions = self.positions(text, pair)
        answer = tuple(pair.source[position] for position in positions)
        return replace(pair, answer=answer, answer_positions=positions)

    def positions(self, text: str, pair: TokenPair) -> tuple[int, ...]:
        """Return where the masks are; without any, all tokens that may be masked."""
        masks = [n for n, piece in enumerate(pair.source_pieces) if piece == MASK]
        if masks:
            return tuple(masks)
        return tuple(n for n, x in enumerate(pair.source) if x >= len(SPECIALS))

    def chosen(self, text: str, pair: TokenPair, target: str) -> tuple[int, ...]:
        """Raise ``AssertionError``: :meth:`pair` has refused a target."""
        raise AssertionError(target)

    def log_p(self, pair: TokenPair, is_real: Tensor) -> Tensor:
        """Return ln p [R O V] of what each mask hides."""
        if MASK in pair.source_pieces:
            return self._log_p_at(pair, is_real, list(pair.answer_positions))
        rows = [self._masked_at(pair, each) for each in pair.answer_positions]
        return torch.cat(rows, dim=1)

    def attributed(self, pair: TokenPair) -> AttributedOutput:
        """Return ln p of what each mask hides as a function of the text."""
        if MASK not in pair.source_pieces:
            raise UsageError(
                f"attribution is of the word that a mask hides, and the text has none; "
                f"write {MASK} in the place of a word"
            )
        return super().attributed(pair)

    def text_of(self, pair: TokenPair) -> str:
        """Return the text with its masks filled."""
        filled = list(pair.source)
        for position, token in zip(pair.answer_positions, pair.answer, strict=True):
            filled[position] = token
        decoded: str = self.task.tokenizers.source.decode(filled[1:])
        return decoded

    def _log_p_at(
        self, pair: TokenPair, is_real: Tensor, positions: list[int]
    ) -> Tensor:
        vectors = self.encode(pair, is_real)[:, positions]
        embedding = self.model.encoder_only.embedding.vectors
        logits: Tensor = self.model.head(vectors, embedding)
        return logits.log_softmax(dim=2)

    def _masked_at(self, pair: TokenPair, position: int) -> Tensor:
        """Return ln p [1 1 V] of a token that is masked alone."""
        source = list(pair.source)
        source[position] = UNKNOWN
        masked = replace(pair, source=tuple(source))
        return self._log_p_at(masked, self.all_real(pair), [position])
