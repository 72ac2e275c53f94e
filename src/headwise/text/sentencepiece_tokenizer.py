"""BPE and unigram tokenizers, by the SentencePiece library.

``spm.model`` has the bytes that SentencePiece itself writes, so that other tools can
read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import sentencepiece

from headwise.errors import DataError, ModelError, SettingsError
from headwise.text.normalization import one_line, replace_surrogates
from headwise.text.sentencepiece_process import SentencePieceError, train_sentencepiece
from headwise.text.settings import TextSettings
from headwise.text.vocabulary import (
    END,
    PAD,
    SPECIALS,
    START,
    UNKNOWN,
    UNKNOWN_MARK,
)

# SentencePiece skips longer lines; its own default is 4,192 bytes.
MAX_LINE_BYTES = 100_000

NORMALIZATIONS = {"nfkc": "nmt_nfkc", "none": "identity", "lossless": "identity"}

_ERRORS_ONLY = 2
_TOO_MANY_CHARACTERS = re.compile(r"smaller than required_chars\. (\d+) vs (\d+)")
_NO_TEXT = ("!sentences_.empty()", "(all_chars_count) > (0)")


class SentencePieceTokenizer:
    """A SentencePiece model: subwords learned from text."""

    def __init__(
        self, model: bytes, notes: Sequence[str] = (), *, lossless: bool = False
    ) -> None:
        self.model = model
        self._is_lossless = lossless
        self.notes = tuple(notes)
        self._processor, self._pieces = _open(model)

    @property
    def size(self) -> int:
        """Size of the vocabulary, special symbols included."""
        return int(self._processor.get_piece_size())

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text``, without start and end."""
        return list(self._processor.encode(replace_surrogates(text)))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``, without pad, start and end.

        It is one line, unless the normalization is lossless.
        """
        text: str = self._processor.decode([*map(int, ids)])
        return text if self._is_lossless else one_line(text)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the piece of each id."""
        return [self._pieces[int(each)] for each in ids]

    @property
    def scores(self) -> list[float]:
        """Score of each piece: its ln p; of BPE the higher, the sooner it is merged."""
        return [float(self._processor.get_score(i)) for i in range(self.size)]

    @property
    def is_special(self) -> list[bool]:
        """Whether each piece is something else than text, such as END or a byte."""
        kinds = ("is_control", "is_unknown", "is_byte", "is_unused")
        tests = [getattr(self._processor, kind) for kind in kinds]
        return [any(test(i) for test in tests) for i in range(self.size)]

    def save(self, file: Path) -> None:
        """Write the model to ``file``."""
        file.write_bytes(self.model)

    @classmethod
    def open(cls, file: Path, settings: TextSettings) -> SentencePieceTokenizer:
        """Read a model written by ``save``."""
        try:
            is_lossless = settings.normalization == "lossless"
            tokenizer = cls(file.read_bytes(), lossless=is_lossless)
        except (OSError, ValueError) as error:
            raise ModelError(
                f"{file} is not a SentencePiece model that headwise can use: {error}"
            ) from None
        missing = [s for s in settings.all_symbols if tokenizer._id(s) == UNKNOWN]
        if missing:
            raise ModelError(f"{file} lacks the symbols {', '.join(missing)}")
        return tokenizer

    def _id(self, piece: str) -> int:
        return int(self._processor.piece_to_id(piece))


def train_bpe(
    lines: Iterable[str], *, vocab_size: int, settings: TextSettings
) -> SentencePieceTokenizer:
    """Train byte pair encoding."""
    return _train("bpe", lines, vocab_size, settings)


def train_unigram(
    lines: Iterable[str], *, vocab_size: int, settings: TextSettings
) -> SentencePieceTokenizer:
    """Train a unigram language model (Kudo, 2018)."""
    return _train("unigram", lines, vocab_size, settings)


def _train(
    kind: Literal["bpe", "unigram"],
    lines: Iterable[str],
    vocab_size: int,
    settings: TextSettings,
) -> SentencePieceTokenizer:
    usable = _UsableLines(lines)
    is_lossless = settings.normalization == "lossless"
    options = {
        "model_type": kind,
        "vocab_size": vocab_size,
        # A small corpus gives fewer pieces; see the notes below.
        "hard_vocab_limit": False,
        "pad_id": PAD,
        "bos_id": START,
        "eos_id": END,
        "unk_id": UNKNOWN,
        "pad_piece": SPECIALS[PAD],
        "bos_piece": SPECIALS[START],
        "eos_piece": SPECIALS[END],
        "unk_piece": SPECIALS[UNKNOWN],
        "unk_surface": UNKNOWN_MARK,
        "user_defined_symbols": [
            *settings.all_symbols,
            *(["\n"] if is_lossless else []),
        ],
        "add_dummy_prefix": not is_lossless,
        "remove_extra_whitespaces": not is_lossless,
        "byte_fallback": settings.byte_fallback,
        "normalization_rule_name": NORMALIZATIONS[settings.normalization],
        "character_coverage": settings.character_coverage,
        "max_sentence_length": MAX_LINE_BYTES,
        # Floating-point sums depend on the number of threads.
        "num_threads": 1,
        "minloglevel": _ERRORS_ONLY,
    }
    try:
        model = train_sentencepiece(options, usable)
        tokenizer = SentencePieceTokenizer(model, lossless=is_lossless)
    except SentencePieceError as error:
        raise _user_error(error, vocab_size) from None
    tokenizer.notes = tuple(usable.notes(kind, tokenizer.size, vocab_size))
    return tokenizer


class _UsableLines:
    """Yields the lines that SentencePiece accepts, and counts the others."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self._num_long = 0

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            line = replace_surrogates(line)
            if len(line.encode()) > MAX_LINE_BYTES:
                self._num_long += 1
            else:
                yield line

    def notes(self, kind: str, size: int, vocab_size: int) -> list[str]:
        notes = []
        if size < vocab_size:
            notes.append(
                f"the text has only {size:,} {kind} pieces, so that is the size of the "
                f"vocabulary, not vocab_size={vocab_size:,}"
            )
        if self._num_long:
            notes.append(
                f"{kind} training skipped lines longer than {MAX_LINE_BYTES:,} bytes "
                f"({self._num_long:,} in all)"
            )
        return notes


def _user_error(
    error: SentencePieceError, vocab_size: int
) -> DataError | SettingsError:
    """Return an error in terms of settings or data for SentencePiece's message."""
    message = str(error)
    if any(each in message for each in _NO_TEXT):
        return DataError(
            "a tokenizer cannot be trained: the training text is empty, or only white "
            "space"
        )
    found = _TOO_MANY_CHARACTERS.search(message)
    if found:
        return SettingsError(
            [
                f"vocab_size must be at least {int(found[2]):,}, since the text has so "
                f"many different characters and special symbols, not {vocab_size:,}; "
                "or set character_coverage below 1, so that rare characters get no "
                "token"
            ]
        )
    return DataError(f"SentencePiece could not be trained on this text: {message}")


def _open(model: bytes) -> tuple[sentencepiece.SentencePieceProcessor, list[str]]:
    """Open ``model`` and list its pieces; raise ``ValueError`` if it is not usable."""
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(model)
    except RuntimeError:
        raise ValueError("it is damaged") from None
    try:
        pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    except UnicodeDecodeError:
        raise ValueError("its pieces are not UTF-8") from None
    first = tuple(pieces[: len(SPECIALS)])
    if first != SPECIALS or not processor.is_unknown(UNKNOWN):
        raise ValueError(f"it starts with {first} instead of {SPECIALS}")
    if not all(processor.is_control(each) for each in (PAD, START, END)):
        raise ValueError("its special symbols are not marked as such")
    return processor, pieces
