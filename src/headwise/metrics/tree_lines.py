"""Metrics of trees that are lines of text in brackets: those of the task parsing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwise.errors import UsageError
from headwise.metrics.bracket_f1 import BracketCounts, BracketScores, bracket_scores
from headwise.metrics.score import Score, check_pairs
from headwise.text.linearized_trees import WORD
from headwise.text.trees import Tree, parse_tree, unescape_brackets

LENGTHS = (10, 20, 30, 40, 50)
"""Most words of the sentences that are scored together; longer ones come last."""


@dataclass(frozen=True, slots=True)
class LengthBin:
    """The scores of the sentences of some lengths."""

    least: int
    most: int | None
    """Most words; None without limit."""

    counts: BracketCounts

    @property
    def label(self) -> str:
        """The range in words."""
        return f"{self.least}+" if self.most is None else f"{self.least}-{self.most}"


def bracket_f1(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Return the labelled bracketing F1 of trees, one a line, as EVALB computes it."""
    return score_lines(hypotheses, references).score


def complete_match(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Return the percentage of trees whose brackets are all right, as EVALB does."""
    found = score_lines(hypotheses, references)
    return Score(
        "complete match",
        found.all.exact_match,
        found.score.signature,
        higher_is_better=True,
    )


def score_lines(hypotheses: Sequence[str], references: Sequence[str]) -> BracketScores:
    """Score trees, one a line, by EVALB's rules: see :func:`bracket_scores`.

    A word whose tag is ``XX`` gets that of the reference, if their words are the same.
    A blank hypothesis was not parsed; a pair with a blank reference is left out. Raises
    ``DataError`` for a line that is not one tree.
    """
    return bracket_scores(*read_trees_of_lines(hypotheses, references))


def scores_by_length(
    predicted: Sequence[Tree | None], gold: Sequence[Tree]
) -> list[LengthBin]:
    """Return the scores of short, middle and long sentences (:data:`LENGTHS`)."""
    bins = []
    least = 1
    lengths = [len(tree.words) for tree in gold]
    for most in (*LENGTHS, None):
        chosen = [
            index
            for index, length in enumerate(lengths)
            if least <= length and (most is None or length <= most)
        ]
        if chosen:
            scores = bracket_scores(
                [predicted[index] for index in chosen],
                [gold[index] for index in chosen],
            )
            bins.append(LengthBin(least, most, scores.all))
        least = least if most is None else most + 1
    return bins


def read_trees_of_lines(
    hypotheses: Sequence[str], references: Sequence[str]
) -> tuple[list[Tree | None], list[Tree]]:
    """Return predicted and gold trees as :func:`bracket_scores` takes them."""
    check_pairs(hypotheses, references)
    predicted: list[Tree | None] = []
    gold = []
    for number, (line, reference) in enumerate(
        zip(hypotheses, references, strict=True), start=1
    ):
        if not reference.strip():
            continue
        tree = parse_tree(reference, name=f"reference {number:,}")
        gold.append(tree)
        if not line.strip():
            predicted.append(None)
            continue
        guess = parse_tree(line, name=f"hypothesis {number:,}")
        predicted.append(with_words_of(guess, tree))
    if not gold:
        raise UsageError("all references are blank: there is no tree to compare with")
    return predicted, gold


def with_words_of(tree: Tree, gold: Tree) -> Tree:
    """Return ``tree`` with words as ``gold`` writes them, and its tags for ``XX``.

    Escaped brackets are equal to others. ``tree`` itself if the words differ.
    """
    pairs = [(node.label, node.word) for event, node in gold.walk() if event == "word"]
    same = [unescape_brackets(word) for word in tree.words] == [
        unescape_brackets(word) for _, word in pairs
    ]
    if not same:
        return tree
    leaves = iter(pairs)
    levels: list[list[Tree]] = [[]]
    for event, node in tree.walk():
        if event == "open":
            levels.append([])
        elif event == "close":
            children = levels.pop()
            levels[-1].append(Tree(node.label, tuple(children)))
        else:
            tag, word = next(leaves)
            levels[-1].append(Tree(tag if node.label == WORD else node.label, word))
    (rebuilt,) = levels[0]
    return rebuilt
