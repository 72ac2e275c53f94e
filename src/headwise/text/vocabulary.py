"""The vocabulary: pieces of text and their ids, special symbols first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from headwise.errors import DataError, ModelError
from headwise.storage import read_json, write_json

PAD, START, END, UNKNOWN = 0, 1, 2, 3
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")

# White space before a token, written as SentencePiece writes it (U+2581).
WORD_START = "\u2581"

# What an unknown token looks like in text (U+2047), as SentencePiece shows it.
UNKNOWN_MARK = "\u2047"


class Vocabulary:
    """A list of pieces without repeats; the place of a piece is its id."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self.pieces = tuple(pieces)
        self._ids = {piece: number for number, piece in enumerate(self.pieces)}
        if self.pieces[: len(SPECIALS)] != SPECIALS:
            raise ValueError(
                f"a vocabulary starts with {', '.join(SPECIALS)}, "
                f"not with {self.pieces[: len(SPECIALS)]}"
            )
        if len(self._ids) != len(self.pieces):
            raise ValueError("a vocabulary holds each piece once")

    def __len__(self) -> int:
        return len(self.pieces)

    def __contains__(self, piece: object) -> bool:
        return piece in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.pieces == other.pieces

    def __hash__(self) -> int:
        return hash(self.pieces)

    def id(self, piece: str) -> int:
        """Return the id of ``piece``, or ``UNKNOWN``."""
        return self._ids.get(piece, UNKNOWN)

    @classmethod
    def of_most_frequent(
        cls, counts: Mapping[str, int], *, size: int, symbols: tuple[str, ...] = ()
    ) -> Vocabulary:
        """Take the specials, ``symbols`` and the most frequent pieces, up to ``size``.

        Among equally frequent pieces the first by code point wins, so that the same
        text gives the same vocabulary.
        """
        if not counts:
            raise DataError(
                "a tokenizer cannot be trained: there is no text in the lines given, "
                "or only white space; give at least one line with text"
            )
        first = [*SPECIALS, *symbols]
        # Text may spell a special symbol; that is no reason to hold it twice.
        ranked = sorted(
            counts.keys() - first, key=lambda piece: (-counts[piece], piece)
        )
        return cls([*first, *ranked[: size - len(first)]])

    def save(self, path: Path) -> None:
        """Write the pieces as a JSON list."""
        write_json(path, list(self.pieces))

    @classmethod
    def open(cls, path: Path, symbols: tuple[str, ...] = ()) -> Vocabulary:
        """Read a vocabulary that ``save`` wrote, and see that it holds ``symbols``."""
        pieces = read_json(path)
        if not isinstance(pieces, list) or not all(isinstance(p, str) for p in pieces):
            raise ModelError(f"{path} is not a JSON list of texts")
        try:
            vocabulary = cls(pieces)
        except ValueError as error:
            raise ModelError(f"{path} is not a vocabulary of ours: {error}") from None
        missing = [symbol for symbol in symbols if symbol not in vocabulary]
        if missing:
            raise ModelError(f"{path} lacks the symbols {', '.join(missing)}")
        return vocabulary
