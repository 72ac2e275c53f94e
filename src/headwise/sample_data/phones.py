"""Words of an invented language, and how they are spoken: letters to phones.

    cheta     ʃ e t a       ch is one sound, and so is ph
    cinnu     s i n u       c is s before e and i; two consonants sound as one
    cosa      k o z a       else k; a single s between vowels is z
    tamike    t a m iː k    e at the end is silent, and the vowel before it long

The test part has first and last syllables together that are never together in training.
"""

from __future__ import annotations

import re
from random import Random

from headwise.sample_data.splits import LabelledText, Sizes, Splits, is_held_out, split

ONSETS = ("b", "c", "ch", "d", "f", "g", "l", "m", "n", "p", "ph", "r", "s", "t", "v")
VOWELS = "aeiou"
DOUBLED = "lmnprst"

SIZES = Sizes(3_000, 200, 400)
ONE_IN = 8
"""One in so many pairs of first and last syllable is for the test."""

RULES = (
    (r"c(?=[ei])|ss", "S"),  # soft, and never z
    (r"(?<=[aeiou])s(?=[aeiou])", "z"),
    (r"([a-z])\1", r"\1"),
    (r"ch", "ʃ"),
    (r"ph", "f"),
    (r"c", "k"),
    (r"([aeiou])([^aeiou])e$", r"\1ː\2"),
    (r"S", "s"),
)
"""What becomes of a word, rule after rule, until each sound is one character."""

_SOUND = re.compile(r".ː?")


def phones(sizes: Sizes = SIZES, *, seed: int = 1) -> Splits[LabelledText]:
    """Generate words of two to four syllables; the label has their phones."""
    return split(
        _word, key=lambda each: each.text, for_test=_for_test, sizes=sizes, seed=seed
    )


def spoken(word: str) -> str:
    """Return the phones of a word, with spaces between them."""
    for pattern, sound in RULES:
        word = re.sub(pattern, sound, word)
    return " ".join(_SOUND.findall(word))


def _word(rng: Random, number: int) -> list[LabelledText]:
    syllables = [
        rng.choice(ONSETS) + rng.choice(VOWELS) for _ in range(rng.randint(2, 4))
    ]
    for index in range(1, len(syllables)):
        if syllables[index][0] in DOUBLED and rng.random() < 0.25:
            syllables[index] = syllables[index][0] + syllables[index]
    word = "".join(syllables)
    return [LabelledText(word, spoken(word))]


def _for_test(example: LabelledText) -> bool:
    first, *_, last = re.findall(r"[^aeiou]+[aeiou]", example.text)
    return is_held_out(first, last, one_in=ONE_IN)
