"""Text to tokens and back: the part of the task that needs neither model nor torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwise.decoding.forced_prefix import Prefix
from headwise.decoding.hypothesis import Hypothesis
from headwise.tasks.translation.alignment import (
    Links,
    replace_unknown_tokens,
    word_links,
)
from headwise.tasks.translation.prefix_tokenization import encode_prefix
from headwise.text.tokenizer import TokenizerPair
from headwise.text.vocabulary import END, PAD, START, UNKNOWN

FORBIDDEN_TOKENS = (PAD, START)
"""Tokens that no output may contain."""


@dataclass(frozen=True)
class TextCodec:
    """Encodes lines as tokens, and decodes hypotheses to text."""

    tokenizers: TokenizerPair

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize source texts, without END."""
        return [self.tokenizers.source.encode(text) for text in texts]

    def decode(self, hypothesis: Hypothesis) -> str:
        """Detokenize an output."""
        return self.tokenizers.target.decode(hypothesis.tokens)

    def text(
        self,
        hypothesis: Hypothesis,
        source: str,
        source_tokens: Sequence[int],
        *,
        replace_unknown: bool = False,
    ) -> str:
        """Detokenize an output; replace its unknown tokens from the source if asked."""
        text = self.decode(hypothesis)
        if not replace_unknown or UNKNOWN not in hypothesis.tokens:
            return text
        return replace_unknown_tokens(
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
        """Return the links between words that the links between tokens imply."""
        return word_links(
            hypothesis.alignment,
            self.tokenizers.source.pieces(source_tokens),
            self.tokenizers.target.pieces(hypothesis.tokens),
        )

    def prefix(self, text: str) -> Prefix:
        """Return the forced prefix of outputs that start with ``text``.

        Its last word may be the start of a longer one, unless white space follows it.
        """
        return encode_prefix(self.tokenizers.target, text)
