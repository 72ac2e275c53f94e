"""Space tokenizer: what stands between spaces is a token, as in phones or actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from headwise.text.normalization import Symbols, one_line
from headwise.text.settings import TextSettings
from headwise.text.vocabulary import (
    END,
    PAD,
    START,
    UNKNOWN,
    UNKNOWN_MARK,
    Vocabulary,
)


class SpaceTokenizer:
    """Runs of characters other than white space are tokens; rare ones are unknown.

    Nothing is split off a token, so that decoding gives the text with one space
    between tokens.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        settings: TextSettings,
        notes: Sequence[str] = (),
    ) -> None:
        self.vocabulary = vocabulary
        self.notes = tuple(notes)
        self._normalization = settings.normalization
        self._symbols = Symbols(settings.symbols)

    @classmethod
    def train(
        cls, lines: Iterable[str], *, vocab_size: int, settings: TextSettings
    ) -> SpaceTokenizer:
        """Build the vocabulary from the most frequent tokens of ``lines``."""
        symbols = Symbols(settings.symbols)
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(symbols.normalize(line, settings.normalization).split())
        vocabulary = Vocabulary.of_most_frequent(
            counts, size=vocab_size, symbols=settings.symbols
        )
        left_out = sum(piece not in vocabulary for piece in counts)
        notes = []
        if left_out:
            notes.append(
                f"different tokens too rare to get an entry: {left_out:,} "
                f"(vocab_size={vocab_size:,})"
            )
        return cls(vocabulary, settings, notes)

    @property
    def size(self) -> int:
        """Size of the vocabulary, special symbols included."""
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text``, without start and end."""
        text = self._symbols.normalize(text, self._normalization)
        return [self.vocabulary.id(token) for token in text.split()]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``, without pad, start and end."""
        texts = (
            UNKNOWN_MARK if each == UNKNOWN else self.vocabulary.pieces[each]
            for each in ids
            if each not in (PAD, START, END)
        )
        return one_line(" ".join(texts))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the piece of each id."""
        return [self.vocabulary.pieces[each] for each in ids]

    def save(self, file: Path) -> None:
        """Write the vocabulary to ``file``."""
        self.vocabulary.save(file)

    @classmethod
    def open(cls, file: Path, settings: TextSettings) -> SpaceTokenizer:
        """Read a vocabulary written by ``save``."""
        return cls(Vocabulary.open(file, settings.symbols), settings)
