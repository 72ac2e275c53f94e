"""Augment pairs of sequences by their lexical symmetries (LexSym).

Akyürek and Andreas 2023, "LexSym: Compositionality as Lexical Symmetry": where two
words mean two symbols of the output and stand in the same contexts, both may be
exchanged in a pair, words and symbols together, and the pair is still right. Words,
meanings and contexts are all found in the training pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

Pair = tuple[str, str]
"""Input and output, each of symbols with spaces between them."""


def augmented(pairs: Sequence[Pair], *, without: Iterable[str] = ()) -> list[Pair]:
    """Return ``pairs``, and those that one exchange makes of them.

    A pair is added once, and not if it is there or its input is in ``without``.
    """
    words = lexicon(pairs)
    known = {pair[0] for pair in pairs} | {*without}
    found = list(pairs)
    for one, other in exchangeable(pairs, words):
        change = {one: other, other: one, words[one]: words[other]}
        change[words[other]] = words[one]
        for pair in dict.fromkeys(pairs):
            source, target = (_exchange(text, change) for text in pair)
            if source not in known:
                known.add(source)
                found.append((source, target))
    return found


def lexicon(pairs: Iterable[Pair]) -> dict[str, str]:
    """Return the symbol that each word means.

    It is in the outputs of exactly those inputs that have the word; a word of which no
    symbol is, or several are, means none.
    """
    by_word: defaultdict[str, set[int]] = defaultdict(set)
    by_symbol: defaultdict[str, set[int]] = defaultdict(set)
    for number, (source, target) in enumerate(dict.fromkeys(pairs)):
        for word in source.split():
            by_word[word].add(number)
        for symbol in target.split():
            by_symbol[symbol].add(number)
    meanings = {
        word: [symbol for symbol, there in by_symbol.items() if there == where]
        for word, where in by_word.items()
    }
    return {word: each[0] for word, each in meanings.items() if len(each) == 1}


def exchangeable(
    pairs: Iterable[Pair], words: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return pairs of ``words`` that stand in the same context at least once.

    A context is an input with a gap in the place of every occurrence of the word.
    """
    contexts: defaultdict[str, set[str]] = defaultdict(set)
    for source, _ in dict.fromkeys(pairs):
        for word in words.keys() & {*source.split()}:
            contexts[word].add(_exchange(source, {word: "_"}))
    return [
        (one, other)
        for one, other in combinations(sorted(words), 2)
        if contexts[one] & contexts[other]
    ]


def _exchange(text: str, change: Mapping[str, str]) -> str:
    return " ".join(change.get(each, each) for each in text.split())
