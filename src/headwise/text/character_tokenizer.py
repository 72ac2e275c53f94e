"""Character tokenizer: each character is a token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from headwise.text.normalization import Symbols, one_line
from headwise.text.settings import TextSettings
from headwise.text.vocabulary import (
    END,
    PAD,
    START,
    UNKNOWN,
    UNKNOWN_MARK,
    WORD_START,
    Vocabulary,
)


class CharacterTokenizer:
    """Each character of the normalized text is a token; a space is ``WORD_START``."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        settings: TextSettings,
        notes: Sequence[str] = (),
    ) -> None:
        self.vocabulary = vocabulary
        self.notes = tuple(notes)
        self._normalization = settings.normalization
        self._is_lossless = settings.normalization == "lossless"
        self._symbols = Symbols(settings.symbols)

    @classmethod
    def train(
        cls, lines: Iterable[str], *, vocab_size: int, settings: TextSettings
    ) -> CharacterTokenizer:
        """Build the vocabulary from the most frequent characters of ``lines``."""
        symbols = Symbols(settings.symbols)
        counts: Counter[str] = Counter()
        for line in lines:
            text = symbols.normalize(line, settings.normalization)
            counts.update(_tokens(text, symbols))
        kept = _most_frequent(counts, settings.character_coverage)
        vocabulary = Vocabulary.of_most_frequent(
            kept, size=vocab_size, symbols=settings.symbols
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

    @property
    def size(self) -> int:
        """Size of the vocabulary, special symbols included."""
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text``, without start and end."""
        text = self._symbols.normalize(text, self._normalization)
        return [self.vocabulary.id(token) for token in _tokens(text, self._symbols)]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``, without pad, start and end.

        It is one line, unless the normalization is lossless.
        """
        texts = (
            UNKNOWN_MARK if each == UNKNOWN else self.vocabulary.pieces[each]
            for each in ids
            if each not in (PAD, START, END)
        )
        text = "".join(texts).replace(WORD_START, " ")
        return text if self._is_lossless else one_line(text).strip(" ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the piece of each id."""
        return [self.vocabulary.pieces[each] for each in ids]

    def save(self, file: Path) -> None:
        """Write the vocabulary to ``file``."""
        self.vocabulary.save(file)

    @classmethod
    def open(cls, file: Path, settings: TextSettings) -> CharacterTokenizer:
        """Read a vocabulary written by ``save``."""
        return cls(Vocabulary.open(file, settings.symbols), settings)


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
