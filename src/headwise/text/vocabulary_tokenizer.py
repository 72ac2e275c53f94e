"""What the tokenizers share whose tokens are the entries of a vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from headwise.text.normalization import Symbols
from headwise.text.settings import TextSettings
from headwise.text.vocabulary import END, PAD, START, UNKNOWN, UNKNOWN_MARK, Vocabulary

NOT_TEXT = (PAD, START, END)
"""Special symbols that decoding leaves out."""


class VocabularyTokenizer:
    """Base class of the word, character and space tokenizers."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        settings: TextSettings,
        notes: Sequence[str] = (),
    ) -> None:
        self.vocabulary = vocabulary
        self.notes = tuple(notes)
        self._normalization = settings.normalization
        self._symbols = Symbols(settings.all_symbols)

    @property
    def size(self) -> int:
        """Size of the vocabulary, special symbols included."""
        return len(self.vocabulary)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the piece of each id."""
        return [self.vocabulary.pieces[each] for each in ids]

    def save(self, file: Path) -> None:
        """Write the vocabulary to ``file``."""
        self.vocabulary.save(file)

    @classmethod
    def open(cls, file: Path, settings: TextSettings) -> Self:
        """Read a vocabulary written by ``save``."""
        return cls(Vocabulary.open(file, settings.all_symbols), settings)

    def _normalized(self, text: str) -> str:
        return self._symbols.normalize(text, self._normalization)

    def _texts(self, ids: Sequence[int]) -> list[str]:
        """Return the piece of each id that is text, or the mark of an unknown one."""
        return [
            UNKNOWN_MARK if each == UNKNOWN else self.vocabulary.pieces[each]
            for each in ids
            if each not in NOT_TEXT
        ]
