"""The first pass of preparation: count every line, and find what can be held out."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

from headwise.data.corpus_reader import read_pairs
from headwise.data.identical_sides import IdenticalSides
from headwise.data.prepared import PreparedFacts
from headwise.data.settings import CorpusSettings, DataSettings
from headwise.data.validation_split import (
    HeldOutSources,
    SmallestKeys,
    choose_held_out,
    key,
    keys_needed,
)
from headwise.errors import DataError
from headwise.wording import count_of

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Survey:
    """Results of the first pass."""

    num_read: tuple[int, ...]
    """Number of lines of each corpus, the dev corpus last."""

    num_pairs: int
    """Number of pairs with text on both sides."""

    keys: SmallestKeys
    """Smallest keys of the source texts of these pairs."""

    def choose_held_out(
        self, data: DataSettings, share: int, *, seed: int
    ) -> HeldOutSources:
        """Return the sources to hold out: none if a dev corpus is given."""
        if not self.num_pairs:
            raise DataError(
                "there is no training data: all "
                f"{count_of(sum(self.num_read), 'pair')} have an empty side; check the "
                "files, columns or fields"
            )
        if data.dev is not None:
            return HeldOutSources(seed)
        return choose_held_out(
            self.keys,
            seed=seed,
            num_pairs=self.num_pairs,
            share=share,
            wanted=data.dev_pairs,
        )

    def check(self, facts: PreparedFacts) -> None:
        """Raise ``DataError`` if a file changed between the passes."""
        for corpus, num_read in zip(facts.all_corpora, self.num_read, strict=True):
            if corpus.read != num_read:
                raise DataError(
                    f"{corpus.source} changed while it was read: it had "
                    f"{count_of(num_read, 'line')}, then {corpus.read:,}; prepare it "
                    "again when nothing writes to it"
                )


def take_survey(data: DataSettings, *, seed: int, say: Say) -> Survey:
    """Read and check every line once. Raises ``DataError`` for what cannot be used."""
    in_dev = SmallestKeys(keys_needed(None))
    dev_read = [_count(data.dev, in_dev, seed=seed, say=say).read] if data.dev else []
    keys = SmallestKeys(keys_needed(data.dev_pairs))
    counts = [
        _count(each, keys, seed=seed, say=say, also_in=in_dev) for each in data.corpora
    ]
    num_known = sum(each.known for each in counts)
    if num_known:
        say(
            f"training pairs whose source is also in the dev corpus: {num_known:,}; "
            "they were kept, and inflate scores on it"
        )
    return Survey(
        num_read=tuple([each.read for each in counts] + dev_read),
        num_pairs=sum(each.pairs for each in counts),
        keys=keys,
    )


@dataclass(slots=True)
class _Counts:
    read: int = 0
    pairs: int = 0
    known: int = 0


def _count(
    corpus: CorpusSettings,
    keys: SmallestKeys,
    *,
    seed: int,
    say: Say,
    also_in: Container[int] = (),
) -> _Counts:
    counts = _Counts()
    same = IdenticalSides()
    for pair in read_pairs(corpus, note=say):
        counts.read += 1
        same.add(pair.source, pair.target)
        if not pair.is_empty:
            counts.pairs += 1
            source_key = key(seed, pair.source)
            counts.known += source_key in also_in
            keys.add(source_key)
    for each in same.notes(*corpus.files):
        say(each)
    return counts
