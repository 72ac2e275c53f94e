"""Other segmentations of tokenized text: BPE-dropout and sampling of the unigram model.

SentencePiece has both, but mixes random bits of each process into whatever seed it is
given, so that no run could be repeated or resumed. Here every random number comes from
the caller.

Pieces do not reach across spaces, so each word is segmented by itself.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Protocol

from headwise.text.sentencepiece_tokenizer import SentencePieceTokenizer
from headwise.text.settings import TextSettings, TokenizerName
from headwise.text.vocabulary import WORD_START

Draw = Callable[[], float]
"""Returns the next of a sequence of uniform random numbers, 0 or more and below 1."""

MAX_PLACES = 200_000
"""Characters of the words that are kept in memory, in about 60 MB. The words that come
first are kept; most of them are the frequent ones."""


class SubwordSampler(Protocol):
    """Draws segmentations of texts that are tokenized already."""

    def sample(self, ids: Sequence[int], draw: Draw) -> list[int]:
        """Return another segmentation of the text of ``ids``.

        ``ids`` are those that the tokenizer gives. Special symbols, those of the user,
        and bytes stay as they are.
        """


class BpeDropout:
    """BPE-dropout (Provilkov et al. 2020, Algorithm 1).

    Of the merges that are possible in a word, each is left out with probability
    ``rate``, and the first of the others in the order of the merge table is made; this
    is repeated until none is left. Rate 0 is BPE; rate 1 leaves characters.

    SentencePiece's own BPE-dropout never comes back to a merge that it left out once,
    and so splits words more at the same rate.

    Most merges are made as without dropout. How many, from one that is left out though
    it comes first to the next such one, is drawn at once, over all words of a text; so
    only words with such a merge are segmented anew.
    """

    def __init__(self, pieces: PieceTable, rate: float) -> None:
        self._pieces = pieces
        self._rate = rate
        self._log_kept = math.log1p(-rate) if rate < 1 else -math.inf
        self._merges = MergeTable(pieces)
        self._words: dict[tuple[int, ...], CharactersOfWord] = {}
        self._num_places = 0

    def sample(self, ids: Sequence[int], draw: Draw) -> list[int]:
        """Return another segmentation of the text of ``ids``."""
        if not self._rate:
            return list(ids)
        found: list[int] = []
        kept = self._draw_kept(draw)
        for word in self._pieces.words(ids):
            num_merges, characters, ranks = self._words.get(word) or self._open(word)
            if kept >= num_merges:
                kept -= num_merges
                found += word
            else:
                found += self._merge([*characters], [*ranks], kept, draw)
                kept = self._draw_kept(draw)
        return found

    def _draw_kept(self, draw: Draw) -> int:
        """Draw how many merges are made before the next that is left out first."""
        return int(math.log(1.0 - draw()) / self._log_kept)

    def _merge(
        self, ids: list[int], ranks: list[int], kept: int, draw: Draw
    ) -> list[int]:
        """Merge the characters of a word, in place.

        The first ``kept`` merges are those of BPE, and the next one is left out where
        it comes first.
        """
        merges = self._merges
        for _ in range(kept):
            merges.make(ids, ranks, ranks.index(min(ranks)))
        is_kept = False
        while ranks and (first := min(ranks)) != NO_MERGE:
            at = ranks.index(first) if is_kept else self._draw_other(ranks, draw)
            if at is None:
                break
            merges.make(ids, ranks, at)
            is_kept = draw() >= self._rate
        return ids

    def _draw_other(self, ranks: list[int], draw: Draw) -> int | None:
        """Draw the merge that is made if the first is left out; None: there is none."""
        order = sorted(range(len(ranks)), key=ranks.__getitem__)
        for at in order[1:]:
            if ranks[at] == NO_MERGE:
                return None
            if draw() >= self._rate:
                return at
        return None

    def _open(self, word: tuple[int, ...]) -> CharactersOfWord:
        """Return what a word is merged from."""
        entry = self._entry(word)
        if self._num_places < MAX_PLACES:
            self._num_places += 1 + len(entry[1])
            self._words[word] = entry
        return entry

    def _entry(self, word: tuple[int, ...]) -> CharactersOfWord:
        characters = self._pieces.characters(word)
        if characters is None:
            return STAYS
        ranks = [self._merges.rank(*pair) for pair in pairwise(characters)]
        num_merges = len(characters) - len(word)
        if self._plain(characters, ranks) != word:
            return STAYS  # the tokenizer merges by other rules
        return num_merges, tuple(characters), tuple(ranks)

    def _plain(self, characters: list[int], ranks: list[int]) -> tuple[int, ...]:
        """Return the segmentation of BPE."""
        ids, ranks = [*characters], [*ranks]
        while ranks and (first := min(ranks)) != NO_MERGE:
            self._merges.make(ids, ranks, ranks.index(first))
        return tuple(ids)


CharactersOfWord = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Merges that BPE makes in a word; its characters; the ranks of their pairs."""

STAYS: CharactersOfWord = (0, (), ())
"""A word that nothing is merged in."""

NO_MERGE = 1 << 62
"""The rank of two pieces that make none."""


class MergeTable:
    """The order of merges: pieces that BPE learned first have the highest scores."""

    def __init__(self, pieces: PieceTable) -> None:
        merged = sorted(
            pieces.ids.items(), key=lambda item: (-pieces.scores[item[1]], item[1])
        )
        self._merged = [number for _, number in merged]
        self._ranks: list[dict[int, int]] = [{} for _ in pieces.texts]
        for rank, (text, _) in enumerate(merged):
            for place in range(1, len(text)):
                left = pieces.ids.get(text[:place])
                right = pieces.ids.get(text[place:])
                if left is not None and right is not None:
                    self._ranks[left][right] = rank

    def rank(self, left: int, right: int) -> int:
        """Return the place of a merge in the order, or ``NO_MERGE``."""
        return self._ranks[left].get(right, NO_MERGE)

    def make(self, ids: list[int], ranks: list[int], at: int) -> None:
        """Make one merge in place; ``ranks`` are those of neighbours in ``ids``."""
        merged = self._merged[ranks.pop(at)]
        ids[at] = merged
        del ids[at + 1]
        if at:
            ranks[at - 1] = self.rank(ids[at - 1], merged)
        if at < len(ranks):
            ranks[at] = self.rank(merged, ids[at + 1])


Choices = tuple[tuple[float, ...], tuple[int, ...], tuple[int, ...]]
"""Of the pieces that may begin at a place of a word: sums of their probabilities, from
the first to each; their numbers; where each of them ends. Python's garbage collector
passes over tuples of numbers."""


class UnigramSampler:
    """Sampling of segmentations by the unigram model (Kudo 2018, Section 3.2).

    A segmentation x is drawn in proportion to P(x)^α, ``rate``, of all that there are
    (l = ∞), by forward filtering and backward sampling. Rate 0 draws them evenly; a
    large one gives the most probable.
    """

    def __init__(self, pieces: PieceTable, rate: float) -> None:
        self._pieces = pieces
        self._words: dict[tuple[int, ...], tuple[Choices, ...]] = {}
        self._num_places = 0
        self._weights = [rate * score for score in pieces.scores]
        self._longest: dict[str, int] = {}
        for text in pieces.ids:
            begin = text[:2]
            self._longest[begin] = max(len(text), self._longest.get(begin, 1))

    def sample(self, ids: Sequence[int], draw: Draw) -> list[int]:
        """Return another segmentation of the text of ``ids``."""
        found: list[int] = []
        for word in self._pieces.words(ids):
            lattice = self._words.get(word) or self._lattice(word)
            at, end = 0, len(lattice)
            while at < end:
                bounds, pieces, stops = lattice[at]
                chosen = bisect_right(bounds, draw()) if len(bounds) > 1 else 0
                found.append(pieces[chosen])
                at = stops[chosen]
        return found

    def _lattice(self, ids: tuple[int, ...]) -> tuple[Choices, ...]:
        """Return for each place in a word the pieces that may begin there.

        From right to left, the weight of a place is that of all segmentations of what
        follows it.
        """
        if self._pieces.is_fixed[ids[0]]:
            return (((1.0,), ids, (1,)),)
        text = "".join([self._pieces.texts[each] for each in ids])
        known, weights, end = self._pieces.ids, self._weights, len(text)
        after = [-math.inf] * end + [0.0]
        places: list[Choices] = []
        for start in reversed(range(end)):
            longest = self._longest.get(text[start : start + 2], 1)
            found = [
                (weights[piece] + after[stop], piece, stop)
                for stop in range(start + 1, min(end, start + longest) + 1)
                if (piece := known.get(text[start:stop])) is not None
                and after[stop] > -math.inf
            ]
            after[start], choices = _choices(found)
            places.append(choices)
        lattice = tuple(reversed(places))
        if self._num_places < MAX_PLACES:
            self._num_places += end
            self._words[ids] = lattice
        return lattice


def _choices(found: Sequence[tuple[float, int, int]]) -> tuple[float, Choices]:
    """Return the log of the sum of the weights, and what is drawn in proportion."""
    if not found:
        return -math.inf, ((), (), ())
    logs, pieces, stops = zip(*found, strict=True)
    most = max(logs)
    sums = [*accumulate([math.exp(each - most) for each in logs])]
    whole = sums[-1]
    bounds = (*(each / whole for each in sums[:-1]), 1.0)
    return most + math.log(whole), (bounds, pieces, stops)


class PieceTable:
    """The pieces of a SentencePiece model, and how its tokens form words.

    ``symbols`` are those of the user, which are never split.
    """

    def __init__(
        self, tokenizer: SentencePieceTokenizer, symbols: Sequence[str] = ()
    ) -> None:
        self.texts = tokenizer.pieces(range(tokenizer.size))
        self.scores = tokenizer.scores
        known = {*symbols, "\n"}
        self.is_fixed = [
            text in known or special
            for text, special in zip(self.texts, tokenizer.is_special, strict=True)
        ]
        self.ids = {
            text: number
            for number, text in enumerate(self.texts)
            if not self.is_fixed[number]
        }
        by_words = not any(WORD_START in text[1:] for text in self.ids)
        self._begins = [
            fixed or (by_words and text.startswith(WORD_START))
            for text, fixed in zip(self.texts, self.is_fixed, strict=True)
        ]

    def words(self, ids: Sequence[int]) -> list[tuple[int, ...]]:
        """Split tokens where pieces never join; what is fixed stands alone."""
        found, start = [], 0
        begins, fixed = self._begins, self.is_fixed
        for at, each in enumerate(ids):
            if at > start and (begins[each] or fixed[ids[at - 1]]):
                found.append(tuple(ids[start:at]))
                start = at
        if len(ids) > start:
            found.append(tuple(ids[start:]))
        return found

    def characters(self, ids: tuple[int, ...]) -> list[int] | None:
        """Return the characters of a word; None if one of them is no piece."""
        found = []
        for character in "".join([self.texts[each] for each in ids]):
            piece = self.ids.get(character)
            if piece is None:
                return None
            found.append(piece)
        return found


SAMPLERS: dict[TokenizerName, Callable[[PieceTable, float], SubwordSampler]] = {
    "bpe": BpeDropout,
    "unigram": UnigramSampler,
}
"""Kind of tokenizer -> what draws its segmentations at a rate."""


def subword_sampler(
    kind: TokenizerName,
    tokenizer: SentencePieceTokenizer,
    rate: float,
    settings: TextSettings,
) -> SubwordSampler:
    """Return what draws segmentations of a tokenizer of this kind."""
    return SAMPLERS[kind](PieceTable(tokenizer, settings.all_symbols), rate)
