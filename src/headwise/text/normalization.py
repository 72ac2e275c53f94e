"""One form for text that looks the same, for words and characters.

SentencePiece carries its own normalization inside ``spm.model``; this is its like for
the tokenizers that have none.
"""

from __future__ import annotations

import re
import unicodedata

from headwise.text.settings import Normalization
from headwise.text.vocabulary import WORD_START

# Every white space of Unicode, two characters without width that separate words in
# practice, and the mark that stands for a space inside pieces.
_WHITE_SPACE = re.compile(rf"[\s\u200b\ufeff{WORD_START}]+")
_SPACES = re.compile(rf"[ {WORD_START}]+")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]+")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def normalize(text: str, form: Normalization) -> str:
    """Return ``text`` with single spaces, none at its ends, and in Unicode ``form``.

    ``nfkc`` makes every white space a space, drops control characters and applies
    NFKC. ``none`` changes nothing but runs of spaces.
    """
    text = replace_surrogates(text)
    if form == "none":
        return _SPACES.sub(" ", text).strip(" ")
    # Controls go first: what stood around one may compose.
    text = unicodedata.normalize("NFKC", _CONTROLS.sub("", text))
    return _WHITE_SPACE.sub(" ", text).strip(" ")


def replace_surrogates(text: str) -> str:
    """Return ``text`` with halves of characters, which UTF-8 cannot hold, as U+FFFD."""
    return _SURROGATES.sub("\ufffd", text)


def one_line(text: str) -> str:
    """Return ``text`` with its line ends as spaces: a translation is one line."""
    return text.replace("\n", " ").replace("\r", " ")


class Symbols:
    """The user's own symbols: found before anything else, the longest first."""

    def __init__(self, symbols: tuple[str, ...]) -> None:
        self.symbols = symbols
        longest_first = sorted(symbols, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def split(self, text: str) -> list[tuple[str, bool]]:
        """Cut ``text`` into stretches, each with whether it is a symbol."""
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
        if not self.symbols:
            return normalize(text, form)
        # A bar at each end, which composes with nothing, keeps the spaces that touch a
        # symbol from being stripped.
        parts = [
            part if is_symbol else normalize(f"|{part}|", form)[1:-1]
            for part, is_symbol in self.split(text)
        ]
        return normalize("".join(parts), "none")
