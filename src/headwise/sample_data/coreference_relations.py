"""What can fail between two things, and which of them an adjective then blames."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Relation:
    """Clauses that say the same of two things, in both orders, and their words."""

    name: str
    ones: tuple[str, ...]
    others: tuple[str, ...]
    of_one: tuple[str, ...]
    """Adjectives that blame the one: only for it they are a reason."""

    of_other: tuple[str, ...]
    one_first: tuple[str, ...]
    other_first: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


RELATIONS = (
    Relation(
        "fit into",
        _words("trophy lamp vase laptop pan ball book teapot"),
        _words("suitcase bag box drawer cupboard locker basket"),
        _words("big large wide bulky long"),
        _words("small tiny narrow"),
        (
            "the {one} did not fit into the {other}",
            "we could not get the {one} into the {other}",
            "I tried in vain to squeeze the {one} into the {other}",
        ),
        (
            "the {other} had no room for the {one}",
            "there was no space in the {other} for the {one}",
            "the {other} could not be closed over the {one}",
        ),
    ),
    Relation(
        "carry",
        _words("shelf bench table board branch ladder"),
        _words("piano statue box barrel television safe"),
        _words("weak thin old rotten"),
        _words("heavy big massive"),
        (
            "the {one} could not carry the {other}",
            "the {one} broke under the {other}",
            "the {one} gave way under the {other}",
        ),
        (
            "the {other} could not be put on the {one}",
            "we did not dare to place the {other} on the {one}",
            "the {other} crashed through the {one}",
        ),
    ),
    Relation(
        "lift",
        _words("crane robot winch drone machine tractor"),
        _words("container stone engine log statue safe"),
        _words("weak small light old"),
        _words("heavy massive large"),
        (
            "the {one} could not lift the {other}",
            "the {one} failed to raise the {other}",
            "the {one} did not manage to move the {other}",
        ),
        (
            "the {other} could not be lifted by the {one}",
            "the {other} was not moved by the {one}",
            "the {other} stayed on the ground in spite of the {one}",
        ),
    ),
    Relation(
        "go through",
        _words("sofa piano bed wardrobe table bathtub"),
        _words("door corridor gate window stairway tunnel"),
        _words("wide broad big bulky"),
        _words("narrow small tight"),
        (
            "the {one} did not go through the {other}",
            "we could not carry the {one} through the {other}",
            "the {one} got stuck in the {other}",
        ),
        (
            "the {other} did not let the {one} through",
            "the {other} could not be passed with the {one}",
            "the {other} was blocked by the {one}",
        ),
    ),
    Relation(
        "pass under",
        _words("truck bus trailer camper tractor"),
        _words("bridge arch gate barrier roof"),
        _words("tall high big"),
        _words("low small"),
        (
            "the {one} could not pass under the {other}",
            "nobody could drive the {one} under the {other}",
            "the {one} had to stop in front of the {other}",
        ),
        (
            "the {other} could not be passed by the {one}",
            "the {other} was damaged by the {one}",
            "the {other} stopped the {one}",
        ),
    ),
    Relation(
        "cover",
        _words("blanket cloth carpet sheet rug curtain"),
        _words("bed table floor sofa window piano"),
        _words("small short narrow tiny"),
        _words("big large wide long"),
        (
            "the {one} did not cover the {other}",
            "the {one} could not be spread over the whole {other}",
            "the {one} left part of the {other} bare",
        ),
        (
            "the {other} was not covered by the {one}",
            "the {other} could not be hidden behind the {one}",
            "the {other} stuck out from under the {one}",
        ),
    ),
    Relation(
        "reach",
        _words("ladder rope hose cable pole"),
        _words("roof balcony window ceiling branch"),
        _words("short small"),
        _words("high distant"),
        (
            "the {one} did not reach the {other}",
            "the {one} ended far below the {other}",
            "we put up the {one} but did not get to the {other}",
        ),
        (
            "the {other} could not be reached with the {one}",
            "the {other} was out of reach of the {one}",
            "we never got up to the {other} with the {one}",
        ),
    ),
    Relation(
        "cut",
        _words("knife saw axe blade razor"),
        _words("rope branch board cable log"),
        _words("blunt dull small old"),
        _words("thick hard tough"),
        (
            "the {one} did not cut the {other}",
            "the {one} could not get through the {other}",
            "the {one} hardly scratched the {other}",
        ),
        (
            "the {other} could not be cut with the {one}",
            "the {other} resisted the {one}",
            "the {other} was hardly marked by the {one}",
        ),
    ),
    Relation(
        "catch",
        _words("dog cat wolf fox lion"),
        _words("rabbit mouse hare deer bird"),
        _words("slow tired old lazy"),
        _words("fast quick clever"),
        (
            "the {one} did not catch the {other}",
            "the {one} could not get near the {other}",
            "the {one} chased the {other} in vain",
        ),
        (
            "the {other} got away from the {one}",
            "the {other} escaped the {one}",
            "the {other} was not caught by the {one}",
        ),
    ),
    Relation(
        "hear",
        _words("radio bell alarm phone flute"),
        _words("engine drill machine train storm"),
        _words("quiet soft weak distant"),
        _words("loud noisy strong"),
        (
            "the {one} could not be heard over the {other}",
            "the {one} was drowned out by the {other}",
            "nobody noticed the {one} next to the {other}",
        ),
        (
            "the {other} drowned out the {one}",
            "the {other} kept us from hearing the {one}",
            "the {other} hid the sound of the {one}",
        ),
    ),
    Relation(
        "cross",
        _words("horse dog donkey cow goat"),
        _words("street river field swamp bridge"),
        _words("tired weak old lazy"),
        _words("wide long dangerous"),
        (
            "the {one} did not cross the {other}",
            "the {one} turned back at the {other}",
            "the {one} never came to the end of the {other}",
        ),
        (
            "the {other} was not crossed by the {one}",
            "the {other} made the {one} turn around",
            "the {other} stopped the {one} on the way home",
        ),
    ),
)
"""An adjective that blames one thing here may blame the other kind elsewhere."""
