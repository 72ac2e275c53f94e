"""Unicode normalization for the word and character tokenizers.

SentencePiece has its own normalization inside ``spm.model``; this is its equivalent.
"""

from __future__ import annotations

import re
import unicodedata

from headwise.text.settings import Normalization
from headwise.text.vocabulary import WORD_START

# Unicode white space, two zero-width characters that separate words in practice, and
# the mark for a space inside pieces.
_WHITE_SPACE = re.compile(rf"[\s\u200b\ufeff{WORD_START}]+")
_SPACES = re.compile(rf"[ {WORD_START}]+")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]+")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def normalize(text: str, form: Normalization) -> str:
    """Return ``text`` with single spaces, none at its ends, and in Unicode ``form``.

    ``nfkc`` turns all white space into spaces, drops control characters and applies
    NFKC. ``none`` only collapses spaces. ``lossless`` changes nothing at all.
    """
    text = replace_surrogates(text)
    if form == "lossless":
        return text
    if form == "none":
        return _SPACES.sub(" ", text).strip(" ")
    # Controls first: the characters around one may compose.
    text = unicodedata.normalize("NFKC", _CONTROLS.sub("", text))
    return _WHITE_SPACE.sub(" ", text).strip(" ")


def count_undecodable(text: str) -> int:
    """Return the number of lone surrogates and U+FFFD, which stand for no character."""
    return len(_SURROGATES.findall(text)) + text.count("\ufffd")


def replace_surrogates(text: str) -> str:
    """Return ``text`` with lone surrogates, which UTF-8 cannot encode, as U+FFFD."""
    return _SURROGATES.sub("\ufffd", text)


def one_line(text: str) -> str:
    """Return ``text`` with line ends replaced by spaces."""
    return text.replace("\n", " ").replace("\r", " ")


class Symbols:
    """User-defined symbols, matched before tokenization, the longest first."""

    def __init__(self, symbols: tuple[str, ...]) -> None:
        self.symbols = symbols
        longest_first = sorted(symbols, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def split(self, text: str) -> list[tuple[str, bool]]:
        """Split ``text`` into parts, each with whether it is a symbol."""
        if not self.symbols:
            return [(text, False)]
        parts, end = [], 0
        for match in self._pattern.finditer(text):
            parts += [(text[end : match.start()], False), (match.group(), True)]
            end = match.end()
        parts.append((text[end:], False))
        return [(part, is_symbol) for part, is_symbol in parts if part]

    def normalize(self, text: str, form: Normalization) -> str:
        """Return ``text`` in ``form``, except that symbols stay as they are."""
        if not self.symbols or form == "lossless":
            return normalize(text, form)
        # A bar at each end, which does not compose, keeps spaces beside a symbol from
        # being stripped.
        parts = [
            part if is_symbol else normalize(f"|{part}|", form)[1:-1]
            for part, is_symbol in self.split(text)
        ]
        return normalize("".join(parts), "none")
