"""Accuracy and macro-averaged F1 of labels; accuracy of tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from headwise.errors import UsageError
from headwise.metrics.score import Score, check_pairs


def accuracy(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Return the percentage of lines whose label is the right one."""
    pairs = _labels(hypotheses, references)
    right = sum(guess == label for guess, label in pairs)
    return Score("accuracy", 100 * right / len(pairs), "unit:line", True)


def macro_f1(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Return the mean of the F1 of each label that occurs, in percent.

    Every label counts the same, however rare: of one that is never right the F1 is 0.
    """
    pairs = _labels(hypotheses, references)
    guessed = Counter(guess for guess, _ in pairs)
    wanted = Counter(label for _, label in pairs)
    right = Counter(label for guess, label in pairs if guess == label)
    labels = guessed.keys() | wanted.keys()
    scores = [2 * right[each] / (guessed[each] + wanted[each]) for each in labels]
    value = 100 * sum(scores) / len(scores)
    return Score("macro F1", value, f"unit:line|labels:{len(labels)}", True)


def tag_accuracy(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Return the percentage of right tags; the tags of a line stand between spaces.

    Where a line has fewer tags than its reference, those that lack are wrong.
    """
    check_pairs(hypotheses, references)
    rows = [(h.split(), r.split()) for h, r in zip(hypotheses, references, strict=True)]
    total = sum(len(reference) for _, reference in rows)
    if not total:
        raise UsageError("all references are blank: there is no tag to compare with")
    right = sum(
        guess == tag
        for guesses, tags in rows
        for guess, tag in zip(guesses, tags, strict=False)
    )
    return Score("tag accuracy", 100 * right / total, "unit:tag", True)


def _labels(
    hypotheses: Sequence[str], references: Sequence[str]
) -> list[tuple[str, str]]:
    """Return pairs of labels, white space as the tokenizer of labels leaves it."""
    check_pairs(hypotheses, references)
    return [
        (" ".join(hypothesis.split()), " ".join(reference.split()))
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    ]
