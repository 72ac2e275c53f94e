"""Labelled bracketing F1 of constituency trees, by the rules of EVALB.

EVALB (Sekine and Collins, 1997) is the program that published results of parsers are
computed by. Its rules, in short:

* A bracket is a phrase: a label, and the range of words under it. Preterminals (words
  with their tags) are no brackets.
* Words whose tag is in ``delete_labels`` are left out before ranges are numbered, on
  each side by its own tags; so are brackets that have no words then, and brackets with
  such a label, whose children stay.
* Labels are compared up to function tags and indices, and up to ``equal_labels``.
* Brackets are a multiset: two equal brackets of the gold tree need two predicted ones.
* A sentence whose words are not those of the gold tree is an *error* and counts in
  nothing else; one that was not parsed is *skipped*.
* Precision and recall are of the sums over all sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields

from headwise.errors import UsageError
from headwise.metrics.score import Score
from headwise.text.trees import Tree


@dataclass(frozen=True, kw_only=True, slots=True)
class BracketSettings:
    """Parameters of EVALB; the defaults are those of its file COLLINS.prm."""

    labelled: bool = True
    """Compare labels, not only ranges (LABELED)."""

    delete_labels: frozenset[str] = frozenset(
        ("TOP", "-NONE-", ",", ":", "``", "''", ".")
    )
    """Tags of words, and labels of brackets, that do not count (DELETE_LABEL)."""

    delete_labels_for_length: frozenset[str] = frozenset(("-NONE-",))
    """Tags of words that do not count for the length (DELETE_LABEL_FOR_LENGTH)."""

    equal_labels: tuple[tuple[str, str], ...] = (("ADVP", "PRT"),)
    """Pairs of labels that count as equal (EQ_LABEL)."""

    cutoff_length: int = 40
    """Most words of the gold tree, punctuation included, in the second table
    (CUTOFF_LEN)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BracketCounts:
    """Sums over sentences, and the scores computed from them, in percent."""

    sentences: int = 0
    errors: int = 0
    """Sentences whose words differ from those of the gold tree; counted only here."""

    skipped: int = 0
    """Sentences without a predicted tree, or without words in it; counted only here."""

    gold: int = 0
    """Brackets of gold trees."""

    predicted: int = 0
    """Brackets of predicted trees."""

    matched: int = 0
    """Brackets in both."""

    exact: int = 0
    """Sentences with no bracket too many, missing or wrong."""

    crossing: int = 0
    """Predicted brackets that overlap a gold bracket without one inside the other."""

    without_crossing: int = 0
    """Sentences without a crossing bracket."""

    up_to_two_crossing: int = 0
    """Sentences with at most two crossing brackets."""

    @property
    def scored(self) -> int:
        """Sentences that are neither errors nor skipped."""
        return self.sentences - self.errors - self.skipped

    @property
    def precision(self) -> float:
        """Share of predicted brackets that are in the gold tree."""
        return _percent(self.matched, self.predicted)

    @property
    def recall(self) -> float:
        """Share of gold brackets that are in the predicted tree."""
        return _percent(self.matched, self.gold)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return _percent(2 * self.matched, self.predicted + self.gold)

    @property
    def exact_match(self) -> float:
        """Share of sentences whose brackets are all right (complete match)."""
        return _percent(self.exact, self.scored)

    @property
    def average_crossing(self) -> float:
        """Crossing brackets per sentence."""
        return self.crossing / self.scored if self.scored else 0.0

    @property
    def no_crossing(self) -> float:
        """Share of sentences without a crossing bracket."""
        return _percent(self.without_crossing, self.scored)

    @property
    def two_or_less_crossing(self) -> float:
        """Share of sentences with at most two crossing brackets."""
        return _percent(self.up_to_two_crossing, self.scored)

    def __add__(self, other: BracketCounts) -> BracketCounts:
        names = [field.name for field in fields(self)]
        return BracketCounts(
            **{name: getattr(self, name) + getattr(other, name) for name in names}
        )


@dataclass(frozen=True, slots=True)
class BracketScores:
    """Scores of a corpus, as EVALB's two tables."""

    all: BracketCounts
    short: BracketCounts
    """Of sentences up to ``cutoff_length``."""

    errors: tuple[str, ...]
    """One message for each sentence whose words differ from those of the gold tree."""

    settings: BracketSettings

    @property
    def score(self) -> Score:
        """F1 over all sentences."""
        collins = self.settings == BracketSettings()
        signature = (
            f"evalb:{'COLLINS' if collins else 'custom'}|"
            f"labelled:{'yes' if self.settings.labelled else 'no'}|length:all"
        )
        return Score("bracket F1", self.all.f1, signature, True)


def bracket_scores(
    predicted: Sequence[Tree | None],
    gold: Sequence[Tree],
    settings: BracketSettings | None = None,
) -> BracketScores:
    """Score predicted trees against gold trees, which are in the same order.

    None is a sentence that was not parsed. Punctuation is known by its tags: a parser
    that predicts none has to be given the tags of the gold tree.
    """
    if len(predicted) != len(gold):
        raise UsageError(
            f"each predicted tree needs a gold tree: there are {len(predicted):,} "
            f"predicted trees and {len(gold):,} gold trees"
        )
    if not gold:
        raise UsageError("there is nothing to score: 0 trees")
    settings = settings or BracketSettings()
    rules = _Rules(settings)
    everything, short, errors = BracketCounts(), BracketCounts(), []
    for number, (tree, gold_tree) in enumerate(zip(predicted, gold, strict=True), 1):
        reference = rules.brackets(gold_tree)
        guess = rules.brackets(tree) if tree else _Brackets([], [], 0)
        error = _difference(guess.words, reference.words)
        if not guess.words:
            counts = BracketCounts(sentences=1, skipped=1)
        elif error:
            counts = BracketCounts(sentences=1, errors=1)
            errors.append(f"sentence {number:,}: {error}")
        else:
            counts = _compare(guess.spans, reference.spans)
        everything += counts
        if reference.length <= settings.cutoff_length:
            short += counts
    return BracketScores(everything, short, tuple(errors), settings)


Span = tuple[int, int, str]
"""First word, word after the last, and label."""


@dataclass(frozen=True, slots=True)
class _Brackets:
    """What of a tree counts."""

    words: list[str]
    spans: list[Span]
    length: int


class _Rules:
    """Settings, with equal labels looked up by a table."""

    def __init__(self, settings: BracketSettings) -> None:
        self._settings = settings
        self._same: dict[str, str] = {}
        for one, other in settings.equal_labels:
            old, new = self._representative(one), self._representative(other)
            self._same |= dict.fromkeys(self._members(old), new)
        self._deleted = {self._representative(each) for each in settings.delete_labels}

    def brackets(self, tree: Tree) -> _Brackets:
        """Return the words and brackets of ``tree`` that count."""
        settings = self._settings
        words: list[str] = []
        spans: list[Span] = []
        starts: list[int] = []
        length = 0
        for event, node in tree.walk():
            if event == "open":
                starts.append(len(words))
            elif event == "close":
                start = starts.pop()
                label = self._representative(_bare(node.label))
                if start < len(words) and label not in self._deleted:
                    label = label if settings.labelled else ""
                    spans.append((start, len(words), label))
            else:
                length += node.label not in settings.delete_labels_for_length
                if node.label not in settings.delete_labels:
                    words.append(node.word)
        return _Brackets(words, spans, length)

    def _representative(self, label: str) -> str:
        return self._same.get(label, label)

    def _members(self, representative: str) -> list[str]:
        same = [each for each, of in self._same.items() if of == representative]
        return [representative, *same]


def _bare(label: str) -> str:
    """Cut a label before the first ``-`` or ``=``, even at its start, as EVALB does."""
    return label.partition("-")[0].partition("=")[0]


def _compare(predicted: list[Span], gold: list[Span]) -> BracketCounts:
    matched = (Counter(predicted) & Counter(gold)).total()
    gold_ranges = {(start, end) for start, end, _ in gold}
    crossing = sum(
        any(_cross((start, end), other) for other in gold_ranges)
        for start, end, _ in predicted
    )
    return BracketCounts(
        sentences=1,
        gold=len(gold),
        predicted=len(predicted),
        matched=matched,
        exact=int(len(gold) == len(predicted) == matched),
        crossing=crossing,
        without_crossing=int(crossing == 0),
        up_to_two_crossing=int(crossing <= 2),
    )


def _cross(one: tuple[int, int], other: tuple[int, int]) -> bool:
    (first, second) = sorted((one, other))
    return first[0] < second[0] < first[1] < second[1]


def _difference(predicted: list[str], gold: list[str]) -> str:
    """Return how the words differ; empty if they do not."""
    if len(predicted) != len(gold):
        return (
            f"{len(predicted):,} words in the predicted tree and {len(gold):,} in the "
            "gold tree, without those that do not count by their tags"
        )
    for position, (word, expected) in enumerate(zip(predicted, gold, strict=True), 1):
        if word != expected:
            return f"word {position:,} is {word!r}, in the gold tree {expected!r}"
    return ""


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
