"""Which sentences are for training and which are held out, and the corpus as files.

What is held out is not sentences but *combinations*: a noun with an adjective, a
subject with its verb and object. A rule on the words alone says which; a sentence that
shows any held-out combination never occurs in training, and every held-out sentence
shows at least one. So a model cannot have seen it, even in parts.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from headwise.demo_corpus.examples import EXAMPLES
from headwise.demo_corpus.grammar import plain_pair
from headwise.demo_corpus.pairs import Pair
from headwise.demo_corpus.phrases import Combination
from headwise.demo_corpus.pronouns import quartet
from headwise.errors import UsageError
from headwise.storage import write_text

NUM_TRAIN = 60_000
NUM_DEV = 500
NUM_HELD_OUT = 1_000

PRONOUN_SHARE = 0.2
"""Share of the pairs that come from pronoun quartets."""

_ONE_IN = 12
_SALT = "2"
"""Chosen so that the animal that didn't cross the street is held out."""


@dataclass(frozen=True, slots=True)
class DemoCorpus:
    """Distinct pairs in three parts; ``dev`` shows the combinations of ``train``."""

    train: tuple[Pair, ...]
    dev: tuple[Pair, ...]
    held_out: tuple[Pair, ...]


@cache
def is_held_out(combination: Combination) -> bool:
    """Return whether these words are held out as a combination."""
    key = " ".join((_SALT, *combination))
    return zlib.crc32(key.encode()) % _ONE_IN == 0


def shows_held_out(pair: Pair) -> bool:
    """Return whether a pair has any held-out combination."""
    return any(is_held_out(combination) for combination in pair.combinations)


def generate(seed: int, *, held_out: bool = False) -> Iterator[Pair]:
    """Yield distinct pairs without end, for training or from the held-out side.

    The same seed gives the same pairs on any machine. Pronoun sentences come in whole
    quartets, which balance each other (see ``pronouns``).
    """
    rng = Random(f"{seed} {held_out}")
    seen: set[str] = set()
    # A quartet brings four pairs at once, so it must come up less often.
    odds = PRONOUN_SHARE / (4 - 3 * PRONOUN_SHARE)
    while True:
        if rng.random() < odds:
            yield from _new_quartet(rng, seen, held_out)
        else:
            yield _new_plain(rng, seen, held_out)


def demo_corpus(
    num_train: int = NUM_TRAIN,
    num_held_out: int = NUM_HELD_OUT,
    seed: int = 1,
    *,
    num_dev: int = NUM_DEV,
) -> DemoCorpus:
    """Generate a corpus of distinct pairs; the same arguments give the same bytes.

    In each part the share of pronoun sentences is fixed, and balanced exactly. The
    sentences that are shown as ``EXAMPLES`` are in none.
    """
    sizes = {"num_train": num_train, "num_dev": num_dev, "num_held_out": num_held_out}
    for what, size in sizes.items():
        if size < 0:
            raise UsageError(f"{what} must be 0 or more, not {size}")
    rng = Random(seed)
    seen = {pair.english for pair in EXAMPLES}  # so that no part has them
    train = _part(rng, seen, num_train, held_out=False)
    dev = _part(rng, seen, num_dev, held_out=False)
    held_out = _part(rng, seen, num_held_out, held_out=True)
    return DemoCorpus(train, dev, held_out)


def write(
    folder: Path,
    *,
    num_train: int = NUM_TRAIN,
    num_held_out: int = NUM_HELD_OUT,
    num_dev: int = NUM_DEV,
    seed: int = 1,
) -> DemoCorpus:
    """Generate a corpus and write it as line-aligned files into ``folder``.

    train.en, train.fr, dev.en, dev.fr, heldout.en, heldout.fr; and pronouns.tsv with
    the held-out pronoun sentences: English, French, and the pronoun to be chosen.
    """
    corpus = demo_corpus(num_train, num_held_out, seed, num_dev=num_dev)
    parts = {"train": corpus.train, "dev": corpus.dev, "heldout": corpus.held_out}
    for part, pairs in parts.items():
        write_text(folder / f"{part}.en", _lines(pair.english for pair in pairs))
        write_text(folder / f"{part}.fr", _lines(pair.french for pair in pairs))
    cases = (
        f"{pair.english}\t{pair.french}\t{pair.pronoun.expected}"
        for pair in corpus.held_out
        if pair.pronoun is not None
    )
    write_text(folder / "pronouns.tsv", _lines(cases))
    return corpus


def _part(
    rng: Random, seen: set[str], num_pairs: int, *, held_out: bool
) -> tuple[Pair, ...]:
    pairs: list[Pair] = []
    for _ in range(round(num_pairs * PRONOUN_SHARE / 4)):
        pairs.extend(_new_quartet(rng, seen, held_out))
    while len(pairs) < num_pairs:
        pairs.append(_new_plain(rng, seen, held_out))
    rng.shuffle(pairs)
    return tuple(pairs)


def _new_quartet(rng: Random, seen: set[str], held_out: bool) -> tuple[Pair, ...]:
    """Draw quartets until all four pairs are on the wanted side and new."""
    while True:
        pairs = quartet(rng)
        words = {pair.english for pair in pairs}
        wanted = all(shows_held_out(pair) == held_out for pair in pairs)
        if wanted and len(words) == len(pairs) and not words & seen:
            seen |= words
            return pairs


def _new_plain(rng: Random, seen: set[str], held_out: bool) -> Pair:
    while True:
        pair = plain_pair(rng)
        if shows_held_out(pair) == held_out and pair.english not in seen:
            seen.add(pair.english)
            return pair


def _lines(lines: Iterable[str]) -> str:
    return "".join(line + "\n" for line in lines)
