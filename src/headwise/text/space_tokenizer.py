"""Space tokenizer: what stands between spaces is a token, as in phones or actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from headwise.text.normalization import Symbols, one_line
from headwise.text.settings import TextSettings
from headwise.text.vocabulary import (
    Vocabulary,
)
from headwise.text.vocabulary_tokenizer import VocabularyTokenizer


class SpaceTokenizer(VocabularyTokenizer):
    """Runs of characters other than white space are tokens; rare ones are unknown.

    Nothing is split off a token, so that decoding gives the text with one space
    between tokens.
    """

    @classmethod
    def train(
        cls, lines: Iterable[str], *, vocab_size: int, settings: TextSettings
    ) -> SpaceTokenizer:
        """Build the vocabulary from the most frequent tokens of ``lines``."""
        symbols = Symbols(settings.all_symbols)
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(symbols.normalize(line, settings.normalization).split())
        vocabulary = Vocabulary.of_most_frequent(
            counts, size=vocab_size, symbols=settings.all_symbols
        )
        left_out = sum(piece not in vocabulary for piece in counts)
        notes = []
        if left_out:
            notes.append(
                f"different tokens too rare to get an entry: {left_out:,} "
                f"(vocab_size={vocab_size:,})"
            )
        return cls(vocabulary, settings, notes)

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text``, without start and end."""
        tokens = self._normalized(text).split()
        return [self.vocabulary.id(token) for token in tokens]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``, without pad, start and end."""
        return one_line(" ".join(self._texts(ids)))
