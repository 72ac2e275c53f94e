"""Vocabulary: pieces and their ids, special symbols first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from headwise.errors import DataError, ModelError
from headwise.storage import read_json, write_json

PAD, START, END, UNKNOWN = 0, 1, 2, 3
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")

# Word boundary before a token: SentencePiece's U+2581.
WORD_START = "\u2581"

# Text of an unknown token: SentencePiece's U+2047.
UNKNOWN_MARK = "\u2047"


class Vocabulary:
    """A list of unique pieces; the index of a piece is its id."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self.pieces = tuple(pieces)
        self._ids = {piece: number for number, piece in enumerate(self.pieces)}
        if self.pieces[: len(SPECIALS)] != SPECIALS:
            raise ValueError(
                f"a vocabulary starts with {', '.join(SPECIALS)}, "
                f"not with {self.pieces[: len(SPECIALS)]}"
            )
        if len(self._ids) != len(self.pieces):
            raise ValueError("a vocabulary contains each piece once")

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
        """Return special symbols, ``symbols`` and the most frequent pieces.

        There are at most ``size``. Ties are broken by code point, so that the result
        is deterministic.
        """
        if not counts:
            raise DataError(
                "a tokenizer cannot be trained: the training text is empty, or only "
                "white space"
            )
        first = [*SPECIALS, *symbols]
        # Text may contain a special symbol, which must not be added twice.
        ranked = sorted(
            counts.keys() - first, key=lambda piece: (-counts[piece], piece)
        )
        return cls([*first, *ranked[: size - len(first)]])

    def save(self, path: Path) -> None:
        """Write the pieces as a JSON list."""
        write_json(path, list(self.pieces))

    @classmethod
    def open(cls, path: Path, symbols: tuple[str, ...] = ()) -> Vocabulary:
        """Read a vocabulary written by ``save``; check that it has ``symbols``."""
        pieces = read_json(path)
        if not isinstance(pieces, list) or not all(isinstance(p, str) for p in pieces):
            raise ModelError(f"{path} is not a JSON list of strings")
        try:
            vocabulary = cls(pieces)
        except ValueError as error:
            raise ModelError(f"{path} is not a vocabulary: {error}") from None
        missing = [symbol for symbol in symbols if symbol not in vocabulary]
        if missing:
            raise ModelError(f"{path} lacks the symbols {', '.join(missing)}")
        return vocabulary
