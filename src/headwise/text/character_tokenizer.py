"""Character tokenizer: each character is a token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from headwise.text.normalization import Symbols, one_line
from headwise.text.settings import TextSettings
from headwise.text.vocabulary import (
    WORD_START,
    Vocabulary,
)
from headwise.text.vocabulary_tokenizer import VocabularyTokenizer


class CharacterTokenizer(VocabularyTokenizer):
    """Each character of the normalized text is a token; a space is ``WORD_START``."""

    @classmethod
    def train(
        cls, lines: Iterable[str], *, vocab_size: int, settings: TextSettings
    ) -> CharacterTokenizer:
        """Build the vocabulary from the most frequent characters of ``lines``."""
        symbols = Symbols(settings.all_symbols)
        counts: Counter[str] = Counter()
        for line in lines:
            text = symbols.normalize(line, settings.normalization)
            counts.update(_tokens(text, symbols))
        kept = _most_frequent(counts, settings.character_coverage)
        vocabulary = Vocabulary.of_most_frequent(
            kept, size=vocab_size, symbols=settings.all_symbols
        )
        left_out = sum(piece not in vocabulary for piece in counts)
        notes = []
        if left_out:
            notes.append(
                f"characters too rare to get a token: {left_out:,} "
                f"(vocab_size={vocab_size:,}, "
                f"character_coverage={settings.character_coverage})"
            )
        return cls(vocabulary, settings, notes)

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text``, without start and end."""
        tokens = _tokens(self._normalized(text), self._symbols)
        return [self.vocabulary.id(token) for token in tokens]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``, without pad, start and end.

        It is one line, unless the normalization is lossless.
        """
        text = "".join(self._texts(ids)).replace(WORD_START, " ")
        is_lossless = self._normalization == "lossless"
        return text if is_lossless else one_line(text).strip(" ")


def _tokens(text: str, symbols: Symbols) -> Iterator[str]:
    for part, is_symbol in symbols.split(text):
        if is_symbol:
            yield part
        else:
            yield from part.replace(" ", WORD_START)


def _most_frequent(counts: Counter[str], share: float) -> dict[str, int]:
    """Return the most frequent pieces that together cover ``share`` of the text."""
    needed = share * counts.total()
    kept: dict[str, int] = {}
    covered = 0
    for piece in sorted(counts, key=lambda piece: (-counts[piece], piece)):
        if covered >= needed:
            break
        kept[piece] = counts[piece]
        covered += counts[piece]
    return kept
