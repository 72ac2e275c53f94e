"""Word tokenizer: the most frequent words and punctuation marks are tokens."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from headwise.text.normalization import Symbols, one_line
from headwise.text.settings import TextSettings
from headwise.text.vocabulary import (
    SPECIALS,
    UNKNOWN,
    UNKNOWN_MARK,
    WORD_START,
    Vocabulary,
)
from headwise.text.vocabulary_tokenizer import NOT_TEXT, VocabularyTokenizer


class WordTokenizer(VocabularyTokenizer):
    """Words and punctuation marks are tokens; rare ones are unknown.

    A token after white space, or at the start of the text, begins with ``WORD_START``,
    so that decoding restores the text up to white space. User-defined symbols are kept
    as they are, and decoded with a space before them.
    """

    @classmethod
    def train(
        cls, lines: Iterable[str], *, vocab_size: int, settings: TextSettings
    ) -> WordTokenizer:
        """Build the vocabulary from the most frequent words of ``lines``."""
        symbols = Symbols(settings.all_symbols)
        counts: Counter[str] = Counter()
        for line in lines:
            text = symbols.normalize(line, settings.normalization)
            counts.update(_tokens(text, symbols))
        vocabulary = Vocabulary.of_most_frequent(
            counts, size=vocab_size, symbols=settings.all_symbols
        )
        notes = []
        if len(vocabulary) < vocab_size:
            notes.append(
                f"the text has only {len(vocabulary):,} different words and symbols, "
                f"so that is the size of the vocabulary, not vocab_size={vocab_size:,}"
            )
        return cls(vocabulary, settings, notes)

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text``, without start and end."""
        tokens = _tokens(self._normalized(text), self._symbols)
        return [self.vocabulary.id(token) for token in tokens]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``, without pad, start and end."""
        texts = (self._text(each) for each in ids if each not in NOT_TEXT)
        return one_line("".join(texts)).strip(" ")

    def _text(self, token: int) -> str:
        # Most unknown tokens and symbols are words, so both get a space before them.
        if token == UNKNOWN:
            return f" {UNKNOWN_MARK}"
        if token < len(SPECIALS) + len(self._symbols.symbols):
            return f" {self.vocabulary.pieces[token]}"
        return self.vocabulary.pieces[token].replace(WORD_START, " ")


def _tokens(text: str, symbols: Symbols) -> Iterator[str]:
    """Split normalized text into symbols, words and punctuation marks."""
    follows_space = True
    for part, is_symbol in symbols.split(text):
        if is_symbol:
            yield part
            follows_space = False
            continue
        for match in _words_and_marks().finditer(part):
            if match["space"]:
                follows_space = True
            else:
                yield WORD_START + match["token"] if follows_space else match["token"]
                follows_space = False


# Combining marks are in the first two planes of Unicode, and here.
_LAST_CODE_SEARCHED = 0x1FFFF
_VARIATION_SELECTORS = "\U000e0100-\U000e01ef"
_JOINERS = "\u200c\u200d"

# Signs of length, stress and tone, which belong to the letters beside them.
_MODIFIERS = "\u02b0-\u02ff\ua700-\ua71f"


@cache
def _words_and_marks() -> re.Pattern[str]:
    r"""Match white space, a word, or one other character with its combining marks.

    ``\w`` alone would split a word at every combining mark, and so the sounds of
    phonetic script (t͡ʃ), and the vowels of many scripts.
    """
    marks = _combining_marks()
    word = rf"[\w{_MODIFIERS}{marks}]+"
    return re.compile(rf"(?P<space>\s+)|(?P<token>{word}|.[{marks}]*)")


def _combining_marks() -> str:
    """Return every combining mark, and the joiners, for use in a character class."""
    marks = (
        chr(code)
        for code in range(_LAST_CODE_SEARCHED + 1)
        if unicodedata.category(chr(code)).startswith("M")
    )
    return "".join(marks) + _VARIATION_SELECTORS + _JOINERS
