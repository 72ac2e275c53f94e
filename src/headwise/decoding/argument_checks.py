"""Argument checks that all searches share, and their common error."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.errors import NumericsError, UsageError


def check_lengths(max_lengths: Sequence[int], num_sentences: int) -> None:
    """Raise ``UsageError`` unless there is a length limit of 1 or more per sentence."""
    if len(max_lengths) != num_sentences:
        raise UsageError(
            f"max_lengths must hold one limit for each sentence: there are "
            f"{num_sentences} sentences and {len(max_lengths)} limits"
        )
    if any(limit < 1 for limit in max_lengths):
        raise UsageError(
            f"max_lengths must be 1 or more, not {min(max_lengths)}; END alone takes 1"
        )


def check_ids(end: int, forbidden: tuple[int, ...]) -> None:
    """Raise ``UsageError`` if END is forbidden: no output could be finished."""
    if end in forbidden:
        raise UsageError(
            f"forbidden must not hold the id of END, {end}; shorten max_lengths to cut "
            f"outputs off"
        )


def check_beam(beam: int, num_best: int, groups: int = 1) -> None:
    """Raise ``UsageError`` if a beam cannot have these groups or n-best lists."""
    if beam < 1:
        raise UsageError(f"beam must be 1 or more, not {beam}; 1 is greedy search")
    if groups < 1 or beam % groups:
        raise UsageError(
            f"groups must share beam={beam} in equal parts, and {groups} cannot; 1 is "
            f"an ordinary beam"
        )
    if not 1 <= num_best <= beam:
        raise UsageError(
            f"num_best must be from 1 to beam={beam}, not {num_best}; a wider beam "
            f"finds more hypotheses"
        )


def no_token_allowed() -> NumericsError:
    """Return the error for a model that gives every allowed token probability 0."""
    return NumericsError(
        "the model gives every allowed token a probability of 0, so that no output "
        "can be found; its weights are broken, or too much is forbidden"
    )
