"""Text to tokens and back: the part of the task that needs neither model nor torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from headwise.decoding.forced_prefix import Prefix
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.tasks.translation.alignment import (
    Links,
    replace_unknown_tokens,
    word_links,
)
from headwise.tasks.translation.prefix_tokenization import encode_prefix
from headwise.text.placeholders import PLACEHOLDER, Masked, mask_copied, restore
from headwise.text.settings import TextSettings
from headwise.text.tokenizer import Tokenizer, TokenizerPair
from headwise.text.vocabulary import END, PAD, START, UNKNOWN

FORBIDDEN_TOKENS = (PAD, START)
"""Tokens that no output may contain."""


def placeholder_token(tokenizer: Tokenizer, settings: TextSettings) -> int | None:
    """Return the token of the placeholder; None if the settings have none."""
    return tokenizer.encode(PLACEHOLDER)[-1] if settings.placeholders else None


@dataclass(frozen=True)
class TextCodec:
    """Encodes lines as tokens, and decodes hypotheses to text."""

    tokenizers: TokenizerPair

    @cached_property
    def source_placeholder(self) -> int | None:
        """The token of the placeholder in sources; None if there are none."""
        return placeholder_token(self.tokenizers.source, self.tokenizers.settings)

    def mask_copied(self, text: str, settings: DecodingSettings) -> Masked:
        """Replace what a translation copies from ``text`` by placeholders.

        Raises ``UsageError`` if numbers or names are to be copied without placeholders,
        or names without a list of known words.
        """
        numbers, names = settings.copy_numbers, settings.copy_names
        if self.source_placeholder is None:
            if numbers or names:
                raise UsageError(
                    f"copy_{'numbers' if numbers else 'names'} is for models that were "
                    "trained with text.placeholders, and this one was not: leave it out"
                )
            return Masked(text, ())
        words = self.tokenizers.known_words if names else None
        if names and words is None:
            raise UsageError(
                "copy_names needs the list of words that a model has learned, and this "
                "one was prepared without it: leave copy_names out, or train it again"
            )
        return mask_copied(text, self._is_unknown, numbers=numbers, known_words=words)

    def _is_unknown(self, character: str) -> bool:
        """Tell whether the vocabulary of the source lacks a character."""
        known = self._known_characters
        if character not in known:
            known[character] = UNKNOWN not in self.tokenizers.source.encode(character)
        return not known[character]

    @cached_property
    def _known_characters(self) -> dict[str, bool]:
        return {}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize source texts, without END."""
        return [self.tokenizers.source.encode(text) for text in texts]

    def encode_masked(
        self, texts: Sequence[str], settings: DecodingSettings
    ) -> tuple[list[list[int]], list[tuple[str, ...]]]:
        """Tokenize texts in which what is copied is masked; return that as well."""
        masked = [self.mask_copied(text, settings) for text in texts]
        return self.encode([each.text for each in masked]), [
            each.values for each in masked
        ]

    def decode(self, hypothesis: Hypothesis, copied: Sequence[str] = ()) -> str:
        """Detokenize an output, with what is ``copied`` in place of placeholders."""
        text = self.tokenizers.target.decode(hypothesis.tokens)
        return restore(text, copied) if copied else text

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
