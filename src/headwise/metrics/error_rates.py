"""Exact match, word error rate and token error rate, as for grapheme-to-phoneme."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.errors import UsageError
from headwise.metrics.score import Score, check_pairs


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Return the percentage of lines equal to their reference, up to outer blanks."""
    check_pairs(hypotheses, references)
    percent = 100 * _num_equal(hypotheses, references) / len(references)
    return Score("exact match", percent, "unit:line|case:mixed", True)


def word_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Return the percentage of lines that differ from their reference (WER).

    With one word per line this is the WER of grapheme-to-phoneme conversion; the WER of
    speech recognition is ``token_error_rate``.
    """
    check_pairs(hypotheses, references)
    wrong = len(references) - _num_equal(hypotheses, references)
    return Score("WER", 100 * wrong / len(references), "unit:line|case:mixed", False)


def token_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Return the edit distance per 100 reference tokens, separated by blanks (PER).

    Edits (insertions, deletions, substitutions) and tokens are summed over all lines.
    """
    check_pairs(hypotheses, references)
    pairs = [
        (h.split(), r.split()) for h, r in zip(hypotheses, references, strict=True)
    ]
    num_tokens = sum(len(reference) for _, reference in pairs)
    if not num_tokens:
        raise UsageError(
            "all references are blank; an error rate needs at least one reference token"
        )
    edits = sum(edit_distance(hypothesis, reference) for hypothesis, reference in pairs)
    return Score("PER", 100 * edits / num_tokens, "unit:token|case:mixed", False)


def edit_distance(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the Levenshtein distance."""
    # above[j]: distance of the tokens of `first` so far to the first j of `second`
    above = list(range(len(second) + 1))
    for row, one in enumerate(first, start=1):
        here = [row]
        for column, other in enumerate(second, start=1):
            replaced = above[column - 1] + (one != other)
            here.append(min(replaced, above[column] + 1, here[-1] + 1))
        above = here
    return above[-1]


def _num_equal(hypotheses: Sequence[str], references: Sequence[str]) -> int:
    return sum(
        hypothesis.strip() == reference.strip()
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    )
