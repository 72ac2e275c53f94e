"""Noise in source texts, so that a model is robust to text as people type it.

Text that is written in capitals, without its full stop or with typos is rare in most
corpora and common in use. Training on such noise is what makes a model translate it
(Belinkov and Bisk 2018, "Synthetic and Natural Noise Both Break Neural Machine
Translation"). The target changes where the noise says something: capitals are answered
in capitals, and a text without its full stop by one without it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from headwise.errors import SettingsError
from headwise.text.normalization import Symbols

Case = Literal["upper", "title", "lower"]

CHANGEABLE = ("bpe", "unigram", "characters")
"""Tokenizers that encode a text with a few other characters nearly as it was."""

FINAL_PUNCTUATION = ".!?\u2026\u3002\uff01\uff1f\uff61\u0964\u061f"
"""Characters that end a sentence: of Latin, Chinese, Japanese, Hindi and Arabic."""

WORDS_PER_TYPO = 10
"""Words of a text with typos for each typo in it, rounded up."""

MIN_LETTERS = 3
"""Letters of a word that may have a typo."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NoiseSettings:
    """Changes of source texts in training: the probability of each per sentence."""

    upper_case: float = 0.0
    """Probability that a source is written in capitals, and its target too."""

    title_case: float = 0.0
    """Probability that all words of a source begin with capitals; the target stays."""

    lower_case: float = 0.0
    """Probability that a source is written in lower case; the target stays."""

    final_punctuation: float = 0.0
    """Probability that a source lacks the punctuation at its end, and its target too.
    """

    typos: float = 0.0
    """Probability that a source has typos (Belinkov and Bisk 2018): in each ten words,
    one has two letters swapped, or a letter dropped, repeated or replaced."""

    change_target: bool = True
    """Whether capitals and missing punctuation are those of the target too, if its
    tokenizer is bpe, unigram or characters; other targets, such as labels, stay."""

    def __post_init__(self) -> None:
        names = (*CASES.values(), "final_punctuation", "typos")
        problems = [
            f"{name} must be from 0 to 1, not {getattr(self, name)}"
            for name in names
            if not 0 <= getattr(self, name) <= 1
        ]
        if not problems and sum(self.case_probabilities) > 1 + 1e-9:
            problems.append(
                f"{', '.join(CASES.values())} exclude one another: their sum must be "
                f"at most 1, not {sum(self.case_probabilities):g}"
            )
        if problems:
            raise SettingsError(problems)

    @property
    def case_probabilities(self) -> tuple[float, ...]:
        """The probabilities of the cases, in the order of ``CASES``."""
        return tuple(getattr(self, name) for name in CASES.values())

    @property
    def is_active(self) -> bool:
        """Whether any source is changed."""
        return any((*self.case_probabilities, self.final_punctuation, self.typos))


CASES: dict[Case, str] = {
    "upper": "upper_case",
    "title": "title_case",
    "lower": "lower_case",
}
"""Case -> the setting that is its probability."""


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to one pair of texts."""

    case: Case | None = None
    drops_punctuation: bool = False
    has_typos: bool = False

    @property
    def changes_target(self) -> bool:
        """Whether it is a change that the target makes too."""
        return self.case == "upper" or self.drops_punctuation


def changed_pair(
    source: str,
    target: str | None,
    change: Change,
    *,
    seed: int,
    symbols: Symbols,
) -> tuple[str, str | None]:
    """Return source and target as ``change`` has them; ``seed`` decides on the typos.

    ``target`` is None if it is no text that may change. Symbols of the tokenizer stay.
    """
    if change.drops_punctuation:
        shorter = drop_final_punctuation(source)
        if shorter != source and target is not None:
            target = drop_final_punctuation(target)
        source = shorter
    if change.has_typos:
        source = make_typos(source, random.Random(seed), symbols)
    if change.case is not None:
        source = _outside_symbols(source, TO_CASE[change.case], symbols)
    if change.case == "upper" and target is not None:
        target = _outside_symbols(target, str.upper, symbols)
    return source, target


def drop_final_punctuation(text: str) -> str:
    """Return ``text`` without punctuation at its end, unless nothing else is in it."""
    return text.rstrip().rstrip(FINAL_PUNCTUATION).rstrip() or text


def title_case(text: str) -> str:
    """Return ``text`` with a capital at the start of each word, up to a space."""
    return " ".join(word[:1].title() + word[1:] for word in text.split(" "))


TO_CASE: dict[Case, Callable[[str], str]] = {
    "upper": str.upper,
    "title": title_case,
    "lower": str.lower,
}
"""Case -> what writes a text in it."""


def make_typos(text: str, chance: random.Random, symbols: Symbols) -> str:
    """Return ``text`` with a typo in one of each ten words, or part of ten.

    A word is what stands between spaces, and has three letters or more to have a typo.
    Its first letter stays, as people seldom get it wrong (Belinkov and Bisk 2018). A
    letter is replaced by another one of the text, which is of the same script.
    """
    words = text.split(" ")
    letters = sorted({each for each in text if each.isalpha()})
    able = [
        index
        for index, word in enumerate(words)
        if sum(map(str.isalpha, word)) >= MIN_LETTERS
        and symbols.split(word) == [(word, False)]
    ]
    for _ in range(min(len(able), -(-len(words) // WORDS_PER_TYPO))):
        index = able.pop(_below(len(able), chance))
        typo = TYPOS[_below(len(TYPOS), chance)]
        word = words[index]
        places = [at for at, each in enumerate(word) if each.isalpha()][1:]
        first = _below(len(places) - 1, chance)
        letter = letters[_below(len(letters), chance)]
        words[index] = typo(word, places[first], places[first + 1], letter)
    return " ".join(words)


def _swap(word: str, at: int, after: int, letter: str) -> str:
    between = word[at + 1 : after]
    return word[:at] + word[after] + between + word[at] + word[after + 1 :]


def _drop(word: str, at: int, after: int, letter: str) -> str:
    return word[:after] + word[after + 1 :]


def _repeat(word: str, at: int, after: int, letter: str) -> str:
    return word[: after + 1] + word[after:]


def _replace(word: str, at: int, after: int, letter: str) -> str:
    return word[:after] + letter + word[after + 1 :]


TYPOS: tuple[Callable[[str, int, int, str], str], ...] = (
    _swap,
    _drop,
    _repeat,
    _replace,
)
"""(word, place of a letter, place of the next one, any letter) -> word with a typo."""


def _below(count: int, chance: random.Random) -> int:
    """Return a number from 0 to ``count`` - 1.

    Of the methods of ``Random``, this one alone is the same in every version of Python.
    """
    return int(chance.random() * count)


def _outside_symbols(text: str, change: Callable[[str], str], symbols: Symbols) -> str:
    return "".join(
        part if is_symbol else change(part) for part, is_symbol in symbols.split(text)
    )
