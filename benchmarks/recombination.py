"""Augment pairs of sequences by putting known pairs together (data recombination).

Jia and Liang 2016, "Data Recombination for Neural Semantic Parsing": a grammar induced
from the training pairs makes new ones. Its rules here are of single words, and have two
forms: a word repeats the output of what is before it ("x twice" means x x), or it joins
the outputs of what is before and after it ("x after y" means y x). A rule holds in
every training pair that can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

Pair = tuple[str, str]
"""Input and output, each of symbols with spaces between them."""

Rules = Mapping[str, tuple[int, ...]]
"""By word: the parts whose outputs make the output, the part before it being 0."""

REPEATING = ((0, 0), (0, 0, 0))
JOINING = ((0, 1), (1, 0))


def recombined(pairs: Sequence[Pair], *, without: Iterable[str] = ()) -> list[Pair]:
    """Return ``pairs``, and those that the rules make of them, each used once at most.

    What a repeating word makes is a part of joining words then. A pair is added once,
    and not if it is there or its input is in ``without``, which may still be a part.
    The parts of a word are inputs without a joining word, and end as one of its parts
    does in ``pairs``: "walk twice" is no part of "twice" where it never was.
    """
    made: dict[str, str] = {}
    known = {source for source, _ in pairs}
    joining, repeating, outputs = _rules_and_parts(pairs)
    for word, order in {**repeating, **joining}.items():
        seen = [parts for source, _ in pairs if (parts := _parts(source, word))]
        used = [parts for parts in seen if outputs.keys() >= {*parts}]
        endings = [
            {_ending(part) for part in place} for place in zip(*used, strict=True)
        ]
        choices = [[x for x in outputs if _ending(x) in each] for each in endings]
        for parts in product(*choices):
            source = f"{parts[0]} {word} {' '.join(parts[1:])}".rstrip()
            if source not in known:
                made[source] = " ".join(outputs[parts[i]] for i in order)
        if word in repeating:
            outputs |= made
    excluded = {*without}
    return [*pairs, *(pair for pair in made.items() if pair[0] not in excluded)]


def rules(pairs: Iterable[Pair]) -> Rules:
    """Return the words that repeat or join outputs, in every pair that can tell.

    A pair can tell where the word is in it once and the parts are inputs of pairs too.
    Words that repeat are looked for between the joining ones.
    """
    joining, repeating, _ = _rules_and_parts(pairs)
    return {**repeating, **joining}


def _rules_and_parts(pairs: Iterable[Pair]) -> tuple[Rules, Rules, dict[str, str]]:
    outputs = dict(pairs)
    joining = _rules_of(outputs, JOINING)
    simple = {
        source: output
        for source, output in outputs.items()
        if joining.keys().isdisjoint(source.split())
    }
    return joining, _rules_of(simple, REPEATING), simple


def _rules_of(outputs: Mapping[str, str], orders: Iterable[tuple[int, ...]]) -> Rules:
    found = {}
    for word in sorted({word for source in outputs for word in source.split()}):
        told = [
            (parts, output)
            for source, output in outputs.items()
            if (parts := _parts(source, word)) and outputs.keys() >= {*parts}
        ]
        for order in orders:
            if told and all(
                len(parts) == len({*order})
                and " ".join(outputs[parts[i]] for i in order) == output
                for parts, output in told
            ):
                found[word] = order
    return found


def _parts(source: str, word: str) -> tuple[str, ...]:
    """Return what is before and after the word, or nothing: not there, first, twice."""
    words = source.split()
    if words.count(word) != 1 or words[0] == word:
        return ()
    at = words.index(word)
    sides = words[:at], words[at + 1 :]
    return tuple(" ".join(side) for side in sides if side)


def _ending(source: str) -> str:
    return source.split()[-1]
