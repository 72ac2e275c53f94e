"""Text to tokens and back: the part of a task that needs no model, and no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.prefix import Prefix
from headwise.tasks.translation.alignment import (
    Links,
    with_unknown_replaced,
    word_links,
)
from headwise.tasks.translation.prefix import prefix_of
from headwise.text.tokenizer import TokenizerPair
from headwise.text.vocabulary import END, PAD, START, UNKNOWN

NEVER_WRITTEN = (PAD, START)
"""Tokens that a search never chooses."""


@dataclass(frozen=True)
class TextTask:
    """Turns lines into tokens, and what was found for them into lines."""

    tokenizers: TokenizerPair

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Turn source texts into tokens, without END."""
        return [self.tokenizers.source.encode(text) for text in texts]

    def decode(self, hypothesis: Hypothesis) -> str:
        """Turn an output into text."""
        return self.tokenizers.target.decode(hypothesis.tokens)

    def text(
        self,
        hypothesis: Hypothesis,
        source: str,
        source_tokens: Sequence[int],
        *,
        replace_unknown: bool = False,
    ) -> str:
        """Turn an output into text, its unknown tokens into what the source says."""
        text = self.decode(hypothesis)
        if not replace_unknown or UNKNOWN not in hypothesis.tokens:
            return text
        return with_unknown_replaced(
            text,
            hypothesis.tokens,
            hypothesis.alignment,
            source=source,
            source_ids=source_tokens,
            source_pieces=self.tokenizers.source.pieces(source_tokens),
        )

    def scored_pieces(self, hypothesis: Hypothesis) -> list[tuple[str, float]]:
        """Return each piece of an output with its ln p, END's last."""
        pieces = self.tokenizers.target.pieces([*hypothesis.tokens, END])
        return list(zip(pieces, hypothesis.token_log_probabilities, strict=False))

    def word_alignment(
        self, hypothesis: Hypothesis, source_tokens: Sequence[int]
    ) -> Links:
        """Return which word of the source each word of an output is linked to."""
        return word_links(
            hypothesis.alignment,
            self.tokenizers.source.pieces(source_tokens),
            self.tokenizers.target.pieces(hypothesis.tokens),
        )

    def prefix(self, text: str) -> Prefix:
        """Return what outputs must be to begin with ``text``.

        Its last word may be the beginning of a longer one, unless white space follows.
        """
        return prefix_of(self.tokenizers.target, text)
