"""The sentences that the demo shows, and what the grammar says they are in French."""

import pytest

from headwise.demo_corpus import EXAMPLES
from headwise.demo_corpus.grammar import KINDS

WORKED_BY_HAND = {
    "The animal didn't cross the street because it was too tired.": (
        "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."
    ),
    "The animal didn't cross the street because it was too wide.": (
        "L'animal n'a pas traversé la rue parce qu'elle était trop large."
    ),
    "The letters that Alice wrote were long.": (
        "Les lettres qu'Alice a écrites étaient longues."
    ),
    "Is this school old?": "Cette école est-elle vieille ?",
    "What is the lawyer going to buy?": "Qu'est-ce que l'avocat va acheter ?",
    "There isn't a beautiful bird in the garden.": (
        "Il n'y a pas de bel oiseau dans le jardin."
    ),
}


def test_their_references_are_as_a_french_speaker_would_write_them():
    assert {pair.english: pair.french for pair in EXAMPLES} == WORKED_BY_HAND


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda pair: pair.kind)
def test_each_is_of_a_kind_that_is_learned(example):
    kinds = {kind.__name__.replace("_", " ") for kind in KINDS} | {"pronoun"}
    assert example.kind in kinds
