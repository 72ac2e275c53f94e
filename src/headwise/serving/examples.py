"""Sentences to look at first: those of the paper, and pairs about one pronoun."""

from __future__ import annotations

from collections.abc import Sequence

TIRED = "The animal didn't cross the street because it was too tired."
WIDE = "The animal didn't cross the street because it was too wide."
PRONOUNS = {
    "fr": (
        "L'animal n'a pas traversé la rue parce qu'il",
        "L'animal n'a pas traversé la rue parce qu'elle",
    ),
    "de": (
        "Das Tier überquerte die Straße nicht, weil es",
        "Das Tier überquerte die Straße nicht, weil sie",
    ),
}
"""Target language -> translations up to the pronoun: of the animal, of the street.

The pair of sentences is that of Uszkoreit (2017), Transformer: A Novel Neural Network
Architecture for Language Understanding.
"""

PAPER = (
    "It is in this spirit that a majority of American governments have passed new laws "
    "since 2009 making the registration or voting process more difficult.",
    "The Law will never be perfect, but its application should be just - this is what "
    "we are missing, in my opinion.",
)
"""What Figures 3 to 5 of the paper attend over, as text."""


def known_examples(languages: Sequence[str]) -> list[dict[str, str]]:
    """Return examples for a model that translates between these languages, if any.

    The pairs about a pronoun come with what activation patching asks for.
    """
    if len(languages) != 2 or languages[0] != "en":
        return []
    pairs = []
    if answers := PRONOUNS.get(languages[1]):
        first, second = answers
        pairs = [
            {"text": WIDE, "donor": TIRED, "target": first, "other": second},
            {"text": TIRED, "donor": WIDE, "target": second, "other": first},
        ]
    return [*({"text": each} for each in (TIRED, WIDE, *PAPER)), *pairs]
